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

// TestUnavailableCallsAreListed compares docs/unavailable-calls.md with the code: a call that the master has no handler for
// is listed, one that it has is not.
func TestUnavailableCallsAreListed(t *testing.T) {
	handled := handledCalls(t)
	page, err := os.ReadFile("docs/unavailable-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}
	for _, call := range knownCalls(t) {
		switch isHandled, isListed := slices.Contains(handled, call), slices.Contains(listed, call); {
		case isHandled && isListed:
			t.Errorf("%s has a handler, yet docs/unavailable-calls.md lists it", call)
		case !isHandled && !isListed:
			t.Errorf("%s has no handler, yet docs/unavailable-calls.md does not list it", call)
		}
	}
}

// handledCalls reads the registrations out of the master's source.
func handledCalls(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("master/*.go")
	if err != nil {
		t.Fatal(err)
	}
	registration := regexp.MustCompile(`register\w*\(s, &wire\.(\w+)`)
	var out []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range registration.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
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
