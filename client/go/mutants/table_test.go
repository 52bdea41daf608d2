package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tests of each package, which the mutants name. That each is seen takes minutes; these take none, so that a change of the
// client takes its mutants along.
const client = ".."

func TestEachTextIsThereOnce(t *testing.T) {
	for _, pack := range packages {
		if _, err := withMutants(client, pack); err != nil {
			t.Error(err)
		}
	}
	for _, mutant := range mutants {
		if !slices.Contains(packages, filepath.Dir(mutant.file)) {
			t.Errorf("%s is of no package that is compiled: %s", mutant.rule, mutant.file)
		}
	}
}

func TestEachNamesATest(t *testing.T) {
	names := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, pack := range packages {
		files, err := filepath.Glob(filepath.Join(client, pack, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range names.FindAllStringSubmatch(string(body), -1) {
				found = append(found, match[1])
			}
		}
		for _, mutant := range mutants {
			wanted, _, _ := strings.Cut(mutant.test, "/")
			isWanted := regexp.MustCompile(wanted).MatchString
			if filepath.Dir(mutant.file) == pack && !slices.ContainsFunc(found, isWanted) {
				t.Errorf("%s: there is no test %s", mutant.rule, mutant.test)
			}
		}
	}
}
