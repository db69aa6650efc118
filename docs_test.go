package mooncake

import (
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCallsAreListed compares the table of docs/calls.md with the code: it has every call once; one that the master has no
// handler for is missing, one with a handler for what is not built in is as without; and the test that is to show it makes the call.
func TestCallsAreListed(t *testing.T) {
	page, err := os.ReadFile("docs/calls.md")
	if err != nil {
		t.Fatal(err)
	}
	handled, tests := handledCalls(t), callsOfTests(t, "master")
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
		if mentions, ok := tests[shown[call]]; !ok {
			t.Errorf("docs/calls.md: there is no test %q, which is to show %s", shown[call], call)
		} else if !mentions[call] {
			t.Errorf("docs/calls.md: %q is to show %s and does not call it", shown[call], call)
		}
		delete(states, call)
	}
	for call := range states {
		t.Errorf("docs/calls.md lists %s, which is no call", call)
	}
}

// callsOfTests lists what each test of a folder mentions of package wire, with what it calls mentions.
func callsOfTests(t *testing.T, dir string) map[string]map[string]bool {
	t.Helper()
	type function struct{ wire, names []string }
	functions := map[string][]function{}
	for _, f := range sources(t) {
		if f.dir != dir || !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var fn function
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "wire" {
						fn.wire = append(fn.wire, n.Sel.Name)
					}
				case *ast.Ident:
					fn.names = append(fn.names, n.Name)
				}
				return true
			})
			functions[decl.Name.Name] = append(functions[decl.Name.Name], fn)
		}
	}
	out := map[string]map[string]bool{}
	for name := range functions {
		if !strings.HasPrefix(name, "Test") {
			continue
		}
		out[name] = map[string]bool{}
		seen, todo := map[string]bool{name: true}, []string{name}
		for len(todo) > 0 {
			of := functions[todo[0]]
			todo = todo[1:]
			for _, fn := range of {
				for _, call := range fn.wire {
					out[name][call] = true
				}
				for _, next := range fn.names {
					if !seen[next] {
						seen[next] = true
						todo = append(todo, next)
					}
				}
			}
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
