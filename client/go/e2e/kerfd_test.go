//go:build unix

// Package e2e tests the client with real programs: KERF and KERFD in the environment name them; client/go/test does.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	kerf "kerf/client/go"
	"kerf/client/go/folderstore"
)

const patience = 90 * time.Second

// A place has a folder, a store in it, and servers that end with the test.
type place struct {
	t       *testing.T
	folder  string
	store   *folderstore.Store
	running map[string]*exec.Cmd
}

func newPlace(t *testing.T) *place {
	if os.Getenv("KERFD") == "" {
		t.Skip("KERFD names no kerfd")
	}
	folder, err := os.MkdirTemp("", "kerf-go-")
	if err != nil {
		t.Fatal(err)
	}
	made := &place{t: t, folder: folder, running: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for name := range made.running {
			made.kill(name, syscall.SIGKILL)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	made.store = made.newStore("store", kerf.BLAKE3)
	return made
}

func (p *place) newStore(name string, digest kerf.Digest) *folderstore.Store {
	p.t.Helper()
	store, err := folderstore.Open(p.file(name), digest)
	if err != nil {
		p.t.Fatal(err)
	}
	return store
}

func (p *place) file(name string) string { return filepath.Join(p.folder, name) }

// start gives the address of a kerfd: a socket unless it is told otherwise.
func (p *place) start(name string, flags ...string) string {
	return p.startAt(name, "unix:"+p.file(name), flags...)
}

func (p *place) startAt(name, listen string, flags ...string) string {
	p.t.Helper()
	ready := p.file(name + ".ready")
	_ = os.Remove(ready)
	arguments := append([]string{"--listen", listen, "--ready-file", ready}, flags...)
	if !strings.Contains(strings.Join(flags, " "), "--role front") {
		arguments = append(arguments, "--data-dir", p.file(name+".data"))
	}
	log, err := os.OpenFile(p.file(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(os.Getenv("KERFD"), arguments...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.running[name] = command
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		body, err := os.ReadFile(ready)
		if address, _, is := strings.Cut(string(body), "\n"); err == nil && is {
			return address
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(p.file(name + ".log"))
			p.t.Fatalf("%s is not ready: %s", name, said)
		}
	}
}

func (p *place) kill(name string, how syscall.Signal) {
	command := p.running[name]
	delete(p.running, name)
	_ = command.Process.Signal(how)
	_ = command.Wait()
}

func (p *place) open(server string, change ...func(*kerf.Options)) *kerf.Client {
	return p.openFor(p.store, server, change...)
}

func (p *place) openFor(store *folderstore.Store, server string, change ...func(*kerf.Options)) *kerf.Client {
	p.t.Helper()
	options := &kerf.Options{Streams: 1, Digest: store.Digest(), Warn: func(message string) { p.t.Log("warned:", message) }}
	for _, change := range change {
		change(options)
	}
	// One digest algorithm in a repository (PRO-50).
	repository := "tests"
	if store.Digest() != kerf.BLAKE3 {
		repository += "-" + store.Digest().String()
	}
	client, err := kerf.Open([]string{server}, repository, store, options)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(client.Close)
	return client
}

func content(size int, seed uint64) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = random.Read(data)
	return data
}

func upload(t *testing.T, client *kerf.Client, data []byte) *kerf.Recipe {
	t.Helper()
	recipe, err := client.Upload(context.Background(), bytes.NewReader(data), []byte("file"))
	if err != nil {
		t.Fatal(err)
	}
	return recipe
}

func isWhole(t *testing.T, store *folderstore.Store, recipe *kerf.Recipe, data []byte) {
	t.Helper()
	var whole []byte
	for part, err := range store.Restore(recipe) {
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, part...)
	}
	if !bytes.Equal(whole, data) {
		t.Fatalf("%d bytes were restored, and are not the %d that were uploaded", len(whole), len(data))
	}
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An acting reader does something when it has come so far.
type acting struct {
	data   *bytes.Reader
	at     int
	act    func()
	offset int
}

func (a *acting) Read(into []byte) (int, error) {
	if a.act != nil && a.offset >= a.at {
		act := a.act
		a.act = nil
		act()
	}
	n, err := a.data.Read(into[:min(len(into), 100_000)])
	a.offset += n
	return n, err
}

func TestProfilesAndDigests(t *testing.T) {
	p := newPlace(t)
	address := p.start("kerfd")
	for number, test := range []struct {
		profile string
		digest  kerf.Digest
		size    int
	}{
		{"mincdc-8k", kerf.BLAKE3, 300_000}, {"fastcdc2020-64k", kerf.SHA256, 300_000}, {"fixed-8k", kerf.XXH3, 300_000},
		{"ae-max-8k", kerf.SHA256, 300_000}, {"fixed:size=64", kerf.SHA256, 20_000}, {"fixed:size=4194304", kerf.SHA256, 9 << 20},
		{"crc:min=256,bits=6,max=300", kerf.SHA256, 20_000}, {"mincdc-8k", kerf.BLAKE3, 0},
	} {
		store := p.newStore(fmt.Sprint("store-", number), test.digest)
		data := content(test.size, uint64(number))
		client := p.openFor(store, address, func(o *kerf.Options) { o.Profile, o.WindowBytes = test.profile, 1 })
		first, again := upload(t, client, data), upload(t, client, data)
		isWhole(t, store, first, data)
		if again.NewChunks != 0 || len(again.Chunks) != len(first.Chunks) {
			t.Error(test.profile, again.NewChunks, "new the second time")
		}
		client.Close()
	}
	_, err := p.open(address, func(o *kerf.Options) { o.Profile = "mincdc-9k" }).Upload(context.Background(), bytes.NewReader(nil), nil)
	var refused *kerf.Refused
	if !errors.As(err, &refused) || refused.Reason != "BAD_FIELD" {
		t.Error(err)
	}
}

func TestKilledInTheMiddleAndStartedAnew(t *testing.T) {
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(how.String(), func(t *testing.T) {
			p := newPlace(t)
			address := p.start("kerfd", "--drain-ms", "200")
			client := p.open(address, func(o *kerf.Options) { o.CommitBytes = 200_000 })
			upload(t, client, []byte("met"))
			data := content(3_000_000, uint64(how))
			recipe, err := client.Upload(context.Background(), &acting{data: bytes.NewReader(data), at: 1_500_000, act: func() {
				p.kill("kerfd", how)
				p.start("kerfd", "--drain-ms", "200")
			}}, []byte("file"))
			fine(t, err)
			isWhole(t, p.store, recipe, data)
			if again := upload(t, client, data); again.NewChunks != 0 {
				t.Error(again.NewChunks, "new the second time")
			}
		})
	}
}

func TestThroughFrontsAndPastThemOverALostWorker(t *testing.T) {
	p := newPlace(t)
	flags := []string{"--role", "front"}
	for _, name := range []string{"worker-1", "worker-2"} {
		flags = append(flags, "--workers", p.start(name, "--worker-name", name))
	}
	front := p.start("front", flags...)
	for _, isDirect := range []bool{false, true} {
		client := p.open(front, func(o *kerf.Options) { o.Direct, o.CommitBytes = isDirect, 200_000 })
		data := content(3_000_000, 5)
		recipe, err := client.Upload(context.Background(), &acting{data: bytes.NewReader(data), at: 1_500_000, act: func() {
			// Whichever has the stream: both, one after the other.
			for _, name := range []string{"worker-1", "worker-2"} {
				p.kill(name, syscall.SIGKILL)
				p.start(name, "--worker-name", name)
			}
		}}, []byte("file"))
		fine(t, err)
		isWhole(t, p.store, recipe, data)
		client.Close()
	}
}

func TestACollection(t *testing.T) {
	p := newPlace(t)
	address := p.start("kerfd")
	client, beside := p.open(address), p.open(address)
	one, two := content(400_000, 1), content(400_000, 2)
	fine(t, client.Snapshot("one", []*kerf.Recipe{upload(t, client, one)}))
	fine(t, client.Snapshot("two", []*kerf.Recipe{upload(t, client, two)}))
	held := upload(t, beside, one)
	fine(t, p.store.Forget("one"))
	done, err := client.Collect(context.Background(), p.store.Roots)
	fine(t, err)
	if epoch, _ := p.store.Epoch(); done.DeletedBytes != 400_000 || !done.IsIndexBelieved || epoch != 3 {
		t.Fatal(done, epoch)
	}
	var lost *kerf.ChunksLost
	if err := beside.Snapshot("held", []*kerf.Recipe{held}); !errors.As(err, &lost) {
		t.Fatal(err)
	}
	again := upload(t, beside, one)
	if again.NewBytes != 400_000 || again.Seen.Epoch != 3 {
		t.Fatal(again.NewBytes, again.Seen)
	}
	fine(t, beside.Snapshot("held", []*kerf.Recipe{again}))
	for name, data := range map[string][]byte{"held": one, "two": two} {
		recipes, err := p.store.Snapshot(name)
		fine(t, err)
		isWhole(t, p.store, recipes[0], data)
	}
}

func noRoots() iter.Seq2[[]byte, error] { return func(func([]byte, error) bool) {} }

func TestAStreamOfBeforeACollectionIsBegunAgain(t *testing.T) {
	p := newPlace(t)
	address := p.start("kerfd")
	client := p.open(address)
	upload(t, client, []byte("before"))
	_, err := p.open(address).Collect(context.Background(), noRoots)
	fine(t, err)
	data := content(200_000, 3)
	recipe := upload(t, client, data)
	if epoch, _ := p.store.Epoch(); recipe.Seen.Epoch != epoch {
		t.Error(recipe.Seen, epoch)
	}
	isWhole(t, p.store, recipe, data)
	// Who cannot read again tells its caller.
	other := p.open(address)
	upload(t, other, []byte("once more"))
	_, err = client.Collect(context.Background(), noRoots)
	fine(t, err)
	_, err = other.Upload(context.Background(), io.MultiReader(bytes.NewReader(data), strings.NewReader("x")), nil)
	var behind *kerf.EpochBehind
	if !errors.As(err, &behind) || behind.IsSetBack {
		t.Error(err)
	}
}

func TestAnIndexThatIsLostBecomesWhole(t *testing.T) {
	p := newPlace(t)
	address := p.start("kerfd")
	client := p.open(address)
	data := content(400_000, 4)
	upload(t, client, []byte("garbage"))
	fine(t, client.Snapshot("one", []*kerf.Recipe{upload(t, client, data)}))
	_, err := client.Collect(context.Background(), p.store.Roots)
	fine(t, err)
	client.Close()
	p.kill("kerfd", syscall.SIGKILL)
	fine(t, os.RemoveAll(p.file("kerfd.data")))
	client = p.open(p.start("kerfd"))
	// Found in the store, though the index knows nothing.
	if recipe := upload(t, client, data); recipe.NewChunks != 0 {
		t.Error(recipe.NewChunks)
	}
	done, err := client.Collect(context.Background(), p.store.Roots)
	fine(t, err)
	if !done.IsIndexBelieved {
		t.Error("the index is not believed")
	}
	recipes, err := p.store.Snapshot("one")
	fine(t, err)
	isWhole(t, p.store, recipes[0], data)
}

const identity = `
[[identity]]
name = "%s"
[[identity.grant]]
role = "%s"
repositories = ["tests"]
`

func (p *place) kerf(arguments ...string) string {
	p.t.Helper()
	said, err := exec.Command(os.Getenv("KERF"), arguments...).Output()
	if err != nil {
		p.t.Fatal(arguments, err)
	}
	return string(said)
}

func TestTLSCertificatesAndTokens(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"tls", "other"} {
		p.kerf("tls", "init", p.file(name), "--name", "127.0.0.1", "--client", "laptop")
	}
	token := p.file("token")
	access := p.kerf("token", "new", "nightly", "--output", token, "--role", "write", "--repository", "tests") +
		fmt.Sprintf(identity, "kerf://client/laptop", "gc") + fmt.Sprintf(identity, fmt.Sprintf("user/%d", os.Getuid()), "write")
	fine(t, os.WriteFile(p.file("access.toml"), []byte(access), 0o600))
	address := p.startAt("kerfd", "127.0.0.1:0", "--tls-cert", p.file("tls/kerfd.pem"), "--tls-key", p.file("tls/kerfd.key"),
		"--tls-client-ca", p.file("tls/ca.pem"), "--tls-client-optional", "true", "--access", p.file("access.toml"),
		"--listen", "unix:"+p.file("socket"))
	socket := "unix:" + p.file("socket")
	mine := &kerf.TLS{CAFile: p.file("tls/ca.pem"), CertFile: p.file("tls/laptop.pem"), KeyFile: p.file("tls/laptop.key")}
	noCert := &kerf.TLS{CAFile: mine.CAFile}
	quick := func(tls *kerf.TLS, token kerf.TokenSource) func(*kerf.Options) {
		return func(o *kerf.Options) { o.TLS, o.Token, o.RetryFor = tls, token, 5*time.Second }
	}
	data := content(100_000, 6)
	for name, test := range map[string]struct {
		address string
		tls     *kerf.TLS
		token   kerf.TokenSource
	}{
		"certificate": {address, mine, nil}, "token": {address, noCert, kerf.TokenFile(token)}, "user": {socket, nil, nil},
		"token by a socket": {socket, nil, kerf.TokenFile(token)},
	} {
		t.Log(name)
		isWhole(t, p.store, upload(t, p.open(test.address, quick(test.tls, test.token)), data), data)
	}
	_, err := p.open(address, quick(mine, nil)).Collect(context.Background(), noRoots)
	fine(t, err)
	var refused *kerf.Refused
	var later *kerf.Retryable
	for name, test := range map[string]struct {
		options func(*kerf.Options)
		class   any
		says    string
	}{
		"nobody":        {quick(noCert, nil), &refused, "UNKNOWN_CALLER"},
		"another token": {quick(noCert, kerf.Token("kerf_nightly_0123456789abcdefghijABCDEFGHIJ")), &refused, "UNKNOWN_CALLER"},
		"another CA":    {quick(&kerf.TLS{CAFile: p.file("other/ca.pem")}, nil), &later, "no server has answered"},
		"another certificate": {quick(&kerf.TLS{CAFile: mine.CAFile, CertFile: p.file("other/laptop.pem"), KeyFile: p.file("other/laptop.key")},
			nil), &later, "no server has answered"},
		"another name": {quick(&kerf.TLS{CAFile: mine.CAFile, Name: "elsewhere.example"}, nil), &later, "no server has answered"},
		"in the clear": {quick(nil, nil), &later, "no server has answered"},
	} {
		_, err := p.open(address, test.options).Upload(context.Background(), bytes.NewReader(data), nil)
		if !errors.As(err, test.class) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fine(t, p.store.RaiseEpoch(9))
	_, err = p.open(address, quick(noCert, kerf.TokenFile(token))).Collect(context.Background(), noRoots)
	if !errors.As(err, &refused) || refused.Reason != "NOT_YOURS" {
		t.Error(err)
	}
}

// goProgram: client/go/test says which, where it is not on the path.
func goProgram() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}

var (
	programRule = regexp.MustCompile("(?s)```go\n(.*?)```")
	commandRule = regexp.MustCompile(`(?m)^    go (.*)$`)
)

func TestTheProgramOfTheReadme(t *testing.T) {
	p := newPlace(t)
	address := p.start("kerfd")
	module, err := filepath.Abs("..")
	fine(t, err)
	readme, err := os.ReadFile(filepath.Join(module, "README.md"))
	fine(t, err)
	program := programRule.FindSubmatch(readme)[1]
	if lines := len(regexp.MustCompile(`(?m)^.*\S.*$`).FindAll(program, -1)); lines > 30 {
		t.Error(lines, "lines with something on them")
	}
	empty := p.file("empty")
	fine(t, os.Mkdir(empty, 0o700))
	fine(t, os.WriteFile(filepath.Join(empty, "main.go"), program, 0o600))
	// As the README says.
	var commands [][]string
	for _, line := range commandRule.FindAllSubmatch(readme, -1) {
		text := strings.NewReplacer("PATH/OF/KERF/client/go", module, "unix:/tmp/kerfd.sock", address).Replace(string(line[1]))
		commands = append(commands, strings.Fields(text))
	}
	last := len(commands) - 1
	if last < 3 || commands[last][0] != "run" {
		t.Fatal("the README runs nothing:", commands)
	}
	commands = slices.Insert(commands, last, []string{"vet", "."})
	for _, command := range commands {
		run := exec.Command(goProgram(), command...)
		run.Dir = empty
		run.Env = append(os.Environ(), "GOFLAGS=")
		said, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v: %s", command, err, said)
		}
		t.Logf("%s", said)
		if command[0] == "run" && !regexp.MustCompile(`(?s)8388608 bytes, \d+ chunks, 8388608 bytes stored.*\n83886\d\d bytes, \d+ chunks, \d{4,5} bytes stored`).Match(said) {
			t.Errorf("it said %s", said)
		}
	}
}
