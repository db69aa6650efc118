package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"mooncake/internal/gflag"
)

var writeDoc = flag.Bool("write_doc", false, "write the table of flags into the document instead of comparing")

// TestFlagsAreDocumented holds the table in docs/flags.md against the flags. After a change: go test -run FlagsAreDocumented
// ./cmd/mooncake-master -args -write_doc.
func TestFlagsAreDocumented(t *testing.T) {
	const path, from, to = "../../docs/flags.md", "<!-- mooncake-master: begin -->\n", "<!-- mooncake-master: end -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), from)
	written, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	table := gflag.WriteTable(newCommandLine(newName).flags)
	switch {
	case *writeDoc:
		if err := os.WriteFile(path, []byte(before+from+table+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case written != table:
		lines := strings.Split(table, "\n")
		for i, line := range strings.Split(written, "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Errorf("%s: the table differs from the flags, first in %q", path, line)
				return
			}
		}
		t.Errorf("%s: the table ends too early", path)
	}
}
