package mooncake

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCallsAreListed compares the table of docs/calls.md with the code: it has every call once; one that the master has no
// handler for is missing, one with a handler for what is not built in is as without; and the test that shows it exists.
func TestCallsAreListed(t *testing.T) {
	page, err := os.ReadFile("docs/calls.md")
	if err != nil {
		t.Fatal(err)
	}
	handled, tests := handledCalls(t), knownTests(t)
	states, shown := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [0-9, ]+ \\| ([a-z ]+) \\| `(\\w+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		if states[row[1]] != "" {
			t.Errorf("%s is there twice", row[1])
		}
		states[row[1]], shown[row[1]] = row[2], row[3]
	}
	for _, call := range knownCalls(t) {
		want := "missing"
		if kind, ok := handled[call]; ok {
			if want = "behaves"; kind == "registerWithout" {
				want = "as without"
			}
		}
		if states[call] != want {
			t.Errorf("docs/calls.md says %q of %s, and the code %q", states[call], call, want)
		}
		if !tests[shown[call]] {
			t.Errorf("docs/calls.md: there is no test %q, which is to show %s", shown[call], call)
		}
		delete(states, call)
	}
	for call := range states {
		t.Errorf("docs/calls.md lists %s, which is no call", call)
	}
}

// knownTests lists the names of all tests.
func knownTests(t *testing.T) map[string]bool {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	out := map[string]bool{}
	for _, f := range files(t) {
		if !strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
	}
	return out
}

// handledCalls reads the registrations out of the master's source, by the function that makes them.
func handledCalls(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("master/*.go")
	if err != nil {
		t.Fatal(err)
	}
	registration := regexp.MustCompile(`(register\w*)\(s, &wire\.(\w+)`)
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range registration.FindAllStringSubmatch(string(text), -1) {
			out[m[2]] = m[1]
		}
	}
	if len(out) == 0 {
		t.Fatal("no registration found in master")
	}
	return out
}

// knownCalls lists every call of every release.
func knownCalls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("wire/spec/rpcs.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Versions map[string][]struct {
			Name string `json:"name"`
		} `json:"versions"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, calls := range spec.Versions {
		for _, c := range calls {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestLinks looks whether every file that a document points to is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, f := range files(t) {
		if !strings.HasSuffix(f, ".md") || strings.Contains(f, "testdata/") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s points to %s, which is not there", f, m[1])
			}
		}
	}
}
