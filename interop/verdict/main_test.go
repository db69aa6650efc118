package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mooncake/internal/limits"
)

// TestJudge reads what go and gotestsum really wrote about packages in which one thing is wrong. Of leak, exited and killed
// gotestsum said that all was well in the end.
func TestJudge(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"once", `FLAKY: scratch/once.TestOnce failed in 1 of 2 runs
DONE 8 tests (packages: 2, flaky: 1, red: 0)`},
		{"always", `RED: scratch/always.TestAlways failed in 2 of 2 runs
DONE 1 tests (packages: 1, flaky: 0, red: 1)`},
		{"race", `RED: scratch/race.TestRace failed in 1 of 1 runs
RED: scratch/race: WARNING: DATA RACE
DONE 1 tests (packages: 1, flaky: 0, red: 2)`},
		{"many", `RED: scratch/many.Test1 failed in 1 of 1 runs
RED: scratch/many.Test2 failed in 1 of 1 runs
RED: scratch/many.Test3 failed in 1 of 1 runs
RED: scratch/many.Test4 failed in 1 of 1 runs
RED: 4 tests failed, at most 3 may be repeated
DONE 4 tests (packages: 1, flaky: 0, red: 5)`},
		{"leak", `RED: scratch/leak: it failed outside of its tests
DONE 1 tests (packages: 1, flaky: 0, red: 1)`},
		{"exited", `RED: scratch/exit: TestExit began and did not end; tests after it may not have run
DONE 1 tests (packages: 1, flaky: 0, red: 1)`},
		{"killed", `RED: scratch/fatal: signal: killed
DONE 1 tests (packages: 1, flaky: 0, red: 1)`},
		{"timeout", `RED: scratch/tmo: panic: test timed out after 5s
DONE 0 tests (packages: 1, flaky: 0, red: 1)`},
		{"panic", `RED: scratch/sub.TestPanics failed in 1 of 1 runs
RED: scratch/sub: panic: x [recovered, repanicked]
DONE 1 tests (packages: 1, flaky: 0, red: 2)`},
		{"build", `RED: scratch/build: it failed outside of its tests
DONE 0 tests (packages: 1, flaky: 0, red: 1)`},
	} {
		var out strings.Builder
		ok, err := judge(&out, []string{filepath.Join("testdata", tt.name+".json")})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
		if red := strings.Contains(tt.want, "RED"); ok == red {
			t.Errorf("%s: judge returned %t", tt.name, ok)
		}
	}
}

// TestJudgeLines has what no recording has: streams that end early, tests with -count, subtests that differ.
func TestJudgeLines(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"nothing", "", "no package was tested"},
		{"no event", "# some text of a build\n", "no package was tested"},
		{"without an end", "start - pass\nstart p\nrun p TestA\npass p TestA", "p: it did not end"},
		{"a success after it in one run", "start p\nrun p TestA\nfail p TestA\nrun p TestA\npass p TestA\nfail p", "p.TestA failed in 1 of 1 runs"},
		{"the second time a leak", "start p\nrun p TestA\nfail p TestA\nfail p\nstart p\nrun p TestA\npass p TestA\nfail p", "p: it failed outside of its tests"},
		{"never again", "start p\nrun p TestA\nrun p TestA/x\nfail p TestA/x\nfail p TestA\nfail p\nstart p\nrun p TestA\npass p TestA\npass p", "p.TestA/x failed in 1 of 1 runs"},
		{"repeated and not ended", "start p\nrun p TestA\nfail p TestA\nfail p\nstart p\nrun p TestA\nfail p", "p: TestA began and did not end"},
	} {
		path := filepath.Join(t.TempDir(), "events")
		var text strings.Builder
		for line := range strings.SplitSeq(tt.lines, "\n") {
			if words := strings.Fields(line + " - -"); strings.HasPrefix(line, "#") || line == "" {
				fmt.Fprintln(&text, line)
			} else {
				fmt.Fprintf(&text, "{\"Action\":%q,\"Package\":%q,\"Test\":%q}\n", words[0], strings.Trim(words[1], "-"), strings.Trim(words[2], "-"))
			}
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ok, err := judge(&out, []string{path})
		if err != nil {
			t.Fatal(err)
		}
		if ok || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: judge returned %t and said %s, want %q", tt.name, ok, out.String(), tt.want)
		}
	}
	for _, paths := range [][]string{nil, {"testdata/absent.json"}, {"testdata/leak.json", "main.go", "testdata/absent.json"}} {
		if ok, err := judge(new(strings.Builder), paths); ok || err == nil {
			t.Errorf("%q: no error", paths)
		}
	}
}

// TestAllowance: the Makefile allows as many repeats as are judged here.
func TestAllowance(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("--rerun-fails=1 --rerun-fails-max-failures=%d ", limits.RepeatedTests); !strings.Contains(string(text), want) {
		t.Errorf("the Makefile has no %q", want)
	}
}
