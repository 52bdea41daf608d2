// Command mutants leaves each rule that the client follows out once; one of its tests has to notice. Run it in client/go;
// arguments are beginnings of rules, as COL-10, to play those alone.
//
// All mutants are compiled into one test program, each behind a switch of its own, and played one after the other.
//
// mutants --driver FILE plays none: it compiles all of them into the program that the conformance kit drives, and writes their rules,
// in their order, into FILE.json. KERF_GO_MUTANT=N leaves the N-th out, from 0 (client/conformance/mutants.py).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const patience = 45 * time.Second

// Those with mutants.
var packages = []string{".", "folderstore"}

// A mutant has, in the place of a piece of the source that is there once, another one: in it $ is whether this mutant is
// played, and @ the piece itself.
type mutant struct {
	rule, file, there, instead, test string
}

// Behind the switches; of each package.
const switches = `package %s

import (
	"os"
	"strconv"
)

var playedMutant = func() int {
	number, err := strconv.Atoi(os.Getenv("KERF_GO_MUTANT"))
	if err != nil {
		return -1
	}
	return number
}()

func pick[A any](is bool, yes, no A) A {
	if is {
		return yes
	}
	return no
}
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(wanted []string) error {
	folder, err := os.MkdirTemp("", "kerf-go-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if len(wanted) == 2 && wanted[0] == "--driver" {
		return compileDriver(folder, wanted[1])
	}
	programs := map[string]string{}
	for _, pack := range packages {
		if programs[pack], err = compile(folder, pack); err != nil {
			return err
		}
		// Without any mutant all is well, or their tests say nothing.
		if err := play(programs[pack], pack, -1, "."); err != nil {
			return fmt.Errorf("%s fails without a mutant: %w", pack, err)
		}
	}
	missed, played := 0, 0
	for number, mutant := range mutants {
		if !isWanted(mutant.rule, wanted) {
			continue
		}
		played++
		pack := filepath.Dir(mutant.file)
		if err := play(programs[pack], pack, number, mutant.test); err == nil {
			missed++
			fmt.Printf("%s was left out, and %s has passed\n", mutant.rule, mutant.test)
		}
	}
	fmt.Printf("%d rules were left out, %d were not missed\n", played, missed)
	if missed > 0 || played == 0 {
		return fmt.Errorf("%d of %d", missed, played)
	}
	return nil
}

func isWanted(rule string, wanted []string) bool {
	for _, name := range wanted {
		if strings.HasPrefix(rule, name) {
			return true
		}
	}
	return len(wanted) == 0
}

// withMutants: the sources of a package that have any, with all of them; root is where client/go is.
func withMutants(root, pack string) (map[string]string, error) {
	texts := map[string]string{}
	for number, mutant := range mutants {
		if filepath.Dir(mutant.file) != pack {
			continue
		}
		if texts[mutant.file] == "" {
			body, err := os.ReadFile(filepath.Join(root, mutant.file))
			if err != nil {
				return nil, err
			}
			texts[mutant.file] = string(body)
		}
		text := texts[mutant.file]
		if count := strings.Count(text, mutant.there); count != 1 {
			return nil, fmt.Errorf("%s: %q is in %s %d times", mutant.rule, mutant.there, mutant.file, count)
		}
		instead := strings.NewReplacer("$", "(playedMutant == "+strconv.Itoa(number)+")", "@", mutant.there).Replace(mutant.instead)
		texts[mutant.file] = strings.Replace(text, mutant.there, instead, 1)
	}
	return texts, nil
}

// nameOf a package.
func nameOf(pack string) string {
	if pack == "." {
		return "kerf"
	}
	return pack
}

// overlay writes the sources of packages with all their mutants, and the list of them for the compiler.
func overlay(folder, name string, packs ...string) (string, error) {
	replaced := struct{ Replace map[string]string }{map[string]string{}}
	for _, pack := range packs {
		texts, err := withMutants(".", pack)
		if err != nil {
			return "", err
		}
		texts[filepath.Join(pack, "mutant_switches.go")] = fmt.Sprintf(switches, nameOf(pack))
		for file, text := range texts {
			there, err := filepath.Abs(file)
			if err != nil {
				return "", err
			}
			made := filepath.Join(folder, strings.ReplaceAll(file, "/", "_"))
			if err := os.WriteFile(made, []byte(text), 0o600); err != nil {
				return "", err
			}
			replaced.Replace[there] = made
		}
	}
	body, err := json.Marshal(replaced)
	if err != nil {
		return "", err
	}
	list := filepath.Join(folder, "overlay-"+name)
	return list, os.WriteFile(list, body, 0o600)
}

// compile makes the tests of a package with all mutants of it.
func compile(folder, pack string) (string, error) {
	list, err := overlay(folder, nameOf(pack), pack)
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, nameOf(pack)+".test")
	return program, build("test", "-c", "-vet=off", "-overlay", list, "-o", program, "./"+pack)
}

// compileDriver makes the program that the conformance kit drives, with all mutants.
func compileDriver(folder, program string) error {
	list, err := overlay(folder, "driver", packages...)
	if err != nil {
		return err
	}
	var rules []string
	for _, mutant := range mutants {
		rules = append(rules, mutant.rule)
	}
	body, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+".json", body, 0o600); err != nil {
		return err
	}
	return build("build", "-overlay", list, "-o", program, "./conformance")
}

func build(arguments ...string) error {
	tool := os.Getenv("GO") // As client/go/test says.
	if tool == "" {
		tool = "go"
	}
	command := exec.Command(tool, arguments...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command.Run()
}

// play: nil if the tests pass.
func play(program, pack string, number int, test string) error {
	most := patience
	if number < 0 {
		most = 10 * patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run", test, "-test.failfast", "-test.v")
	command.Dir = pack
	command.Env = append(os.Environ(), "KERF_GO_MUTANT="+strconv.Itoa(number), "KERF_GO_SEED=7")
	said, err := command.CombinedOutput()
	if !strings.Contains(string(said), "=== RUN") {
		return nil // No such test: nothing was seen.
	}
	if number < 0 && err != nil {
		return fmt.Errorf("%w: %s", err, said[max(0, len(said)-2000):])
	}
	return err
}
