package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden are the command lines whose output is on file. Every sub-command is among them, see TestGoldenEvery.
var golden = [][]string{
	{"status"},
	{"top", "--count=1"},
	{"segments"},
	{"clients"},
	{"objects", "ls"},
	{"objects", "stat", "a"},
	{"objects", "put", "k", "-"},
	{"objects", "rm", "a", "b"},
	{"objects", "rm", "a", "--apply"},
	{"bundles", "ls"},
	{"bundles", "show", theBundle},
	{"bundles", "gc"},
	{"bundles", "gc", "--apply"},
	{"bundles", "rm", theBundle},
	{"bundles", "watch", "--count=2"},
	{"workloads"},
	{"workloads", "set", "kv", "--prefix=kv/", "--soft=10GiB"},
	{"workloads", "set", "kv", "--prefix=kv/", "--soft=10GiB", "--apply"},
	{"workloads", "rm", "kv"},
	{"drain", "10.0.0.2:17111", "--to=10.0.0.1:17111"},
	{"drain", "10.0.0.2:17111", "--to=10.0.0.1:17111", "--apply"},
	{"drain", "ls"},
	{"drain", "cancel", "9-3"},
	{"healing"},
	{"rebalance", "status"},
	{"rebalance", "start"},
	{"rebalance", "start", "--apply"},
	{"rebalance", "stop"},
	{"tasks"},
	{"tasks", "--all"},
	{"integrity"},
	{"integrity", "ls"},
	{"integrity", "scrub", "--apply"},
	{"integrity", "release", "10.0.0.2:17111"},
	{"integrity", "release", "10.0.0.2:17111", "--apply"},
	{"slow"},
	{"snapshot", "inspect", "testdata/journal"},
	{"snapshot", "inspect", "testdata/saved"},
	{"snapshot", "restore", "testdata/saved", "--data_dir=testdata/none"},
	{"ha", "status"},
	{"ha", "transfer"},
	{"ha", "transfer", "--apply"},
	{"bench"},
	{"doctor", "--step_bytes=1GiB"},
}

// goldenName is the file for a command line, without its ending.
func goldenName(args []string) string {
	name := strings.NewReplacer(theBundle, "ID", "--", "", "=", "-", "/", "_", ":", "_").Replace(strings.Join(args, "-"))
	return filepath.Join("testdata", "golden", strings.Trim(name, "-"))
}

// gaps are what a table is made wide with: how wide depends on the number of a port.
var gaps = regexp.MustCompile(` {2,}`)

// TestGolden compares what sub-commands print about a scripted cluster with what is on file, as tables and as JSON.
func TestGolden(t *testing.T) {
	var changes int64
	for _, args := range golden {
		for _, format := range []string{"table", "json"} {
			c := scripted(t)
			code, out, errs := c.ctl(t, "testdata/host", append(args, "-o", format)...)
			if code != 0 || errs != "" {
				t.Errorf("%q: exit %d, %s", args, code, errs)
			}
			if args[0] == "ha" && format == "table" {
				out = gaps.ReplaceAllString(out, "  ")
			}
			file := goldenName(args) + "." + format
			if *rewrite {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("%q -o %s:\n%s", args, format, diff)
			}
			changes = c.destroyed.Load()
			if applied := slices.Contains(args, "--apply"); applied != (changes > 0) {
				t.Errorf("%q: %d calls that change something", args, changes)
			}
		}
	}
}

// elsewhere are the sub-commands whose output is no table and no JSON, or that a test of their own looks at.
var elsewhere = map[string]string{
	"mooncakectl objects get":    "TestGet: it prints the bytes of an object",
	"mooncakectl segment show":   "TestSegment: it asks a daemon of the host",
	"mooncakectl segment resize": "TestSegment: it asks a daemon of the host",
	"mooncakectl man":            "TestMan: it writes files",
	"mooncakectl snapshot save":  "TestSnapshotSaved: it makes a file, whose name it prints",
}

// TestGoldenEvery goes through all sub-commands there are: none is without a golden file.
func TestGoldenEvery(t *testing.T) {
	root := new(env).root()
	have := map[string]bool{}
	for _, args := range golden {
		cmd, _, err := root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		have[cmd.CommandPath()] = true
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if _, known := elsewhere[path]; cmd.Runnable() && !have[path] && !known {
			t.Errorf("%s has no golden file", path)
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(root)
}
