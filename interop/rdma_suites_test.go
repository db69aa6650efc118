//go:build !rdmavm

package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSuites looks that every test for the inside of the emulated machine is in exactly one suite.
func TestSuites(t *testing.T) {
	files, err := filepath.Glob("guest_*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	declared := regexp.MustCompile(`(?m)^func (TestGuest\w+)\(`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			in := 0
			for _, s := range suites("") {
				if pattern, ok := strings.CutPrefix(s.args[0], "-test.run="); ok && s.pkg == "interop" && regexp.MustCompile(pattern).MatchString(m[1]) {
					in++
				}
			}
			if in != 1 && *inside == "" {
				t.Errorf("%s is in %d suites", m[1], in)
			}
		}
	}
}
