// Command verdict reads what `go test -json` said, repeats included, and decides what it amounts to.
//
//	go run ./interop/verdict .cache/unit.json .cache/interop.json
//
// A program that repeats failed tests sees tests only. What fails outside of a test (a leak found at the end of a package), or
// ends a package before all its tests had their turn (a signal, an exit), looks to it like a test that is good the second
// time. So the whole is judged here once more. Red are: a test whose last run was no success; more tests that were repeated
// than allowed; a package that failed with no failed test, panicked, met a data race, did not build, or has a test that
// began and did not end. A test that failed and was good afterwards is named as FLAKY.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"mooncake/internal/limits"
)

func main() {
	flag.Parse()
	ok, err := judge(os.Stdout, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		ok = false
	}
	if !ok {
		os.Exit(1)
	}
}

// judge prints what is to be said about some files and reports whether all is well. Each file has its own allowance of
// repeated tests.
func judge(out io.Writer, paths []string) (bool, error) {
	if len(paths) == 0 {
		return false, fmt.Errorf("want at least one file that `go test -json` wrote")
	}
	var all sum
	for _, path := range paths {
		s, err := readFile(path)
		if err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		if n := s.repeated; n > limits.RepeatedTests {
			s.red = append(s.red, fmt.Sprintf("%d tests failed, at most %d may be repeated", n, limits.RepeatedTests))
		}
		if s.packages == 0 {
			s.red = append(s.red, path+": no package was tested")
		}
		all.add(s)
	}
	for _, name := range all.flaky {
		fmt.Fprintln(out, "FLAKY:", name)
	}
	for _, why := range all.red {
		fmt.Fprintln(out, "RED:", why)
	}
	fmt.Fprintf(out, "DONE %d tests (packages: %d, flaky: %d, red: %d)\n", all.tests, all.packages, len(all.flaky), len(all.red))
	return len(all.red) == 0, nil
}

func readFile(path string) (sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return sum{}, err
	}
	defer f.Close()
	return read(f)
}
