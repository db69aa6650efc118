package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is the part of a line of `go test -json` that is of interest.
type event struct{ Action, Package, Test, Output string }

// run is one start of the tests of a package.
type run struct {
	result  string            // of the package; empty while it runs
	results map[string]string // of each test that ended; with -count a failure is not covered by a success after it
	open    map[string]bool   // tests that began and did not end
	omen    string            // first line of output that no repeat makes good
}

// sum is what some files amount to.
type sum struct {
	tests, packages, repeated int
	flaky, red                []string
}

func (s *sum) add(o sum) {
	s.tests += o.tests
	s.packages += o.packages
	s.repeated += o.repeated
	s.flaky = append(s.flaky, o.flaky...)
	s.red = append(s.red, o.red...)
}

// omens begin lines after which tests may be missing, or which no second run takes back.
var omens = []string{"panic: ", "fatal error: ", "WARNING: DATA RACE", "signal: ", "*** Test killed"}

// read judges one stream of events. Lines that are no event, as a build prints them, are passed over: a package that was not
// built fails.
func read(in io.Reader) (sum, error) {
	runs := map[string][]*run{}
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte("{")) {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return sum{}, fmt.Errorf("%w in %.200q", err, line)
			}
			if e.Package != "" {
				runs[e.Package] = note(runs[e.Package], e)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return sum{}, err
		}
	}
	var out sum
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		out.add(judgePackage(name, runs[name]))
	}
	return out, nil
}

// note adds an event to the runs of its package.
func note(runs []*run, e event) []*run {
	if e.Action == "start" || len(runs) == 0 {
		runs = append(runs, &run{results: map[string]string{}, open: map[string]bool{}})
	}
	r := runs[len(runs)-1]
	switch e.Action {
	case "run":
		r.open[e.Test] = true
	case "output":
		omen := func(prefix string) bool { return strings.HasPrefix(e.Output, prefix) }
		if r.omen == "" && slices.ContainsFunc(omens, omen) {
			r.omen = strings.TrimSpace(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.result = e.Action
			break
		}
		delete(r.open, e.Test)
		if r.results[e.Test] != "fail" {
			r.results[e.Test] = e.Action
		}
	}
	return runs
}

// judgePackage looks at each run of a package by itself, and then at each test over all of them.
func judgePackage(name string, runs []*run) sum {
	out := sum{}
	total, failed, last := map[string]int{}, map[string]int{}, map[string]string{}
	for _, r := range runs {
		if why := r.broken(); why != "" {
			out.red = append(out.red, name+": "+why)
		}
		for test, result := range r.results {
			total[test]++
			if last[test] = result; result == "fail" {
				failed[test]++
			}
		}
	}
	if out.tests = len(total); out.tests > 0 || len(out.red) > 0 {
		out.packages = 1
	}
	for test, n := range failed {
		top := !strings.Contains(test, "/")
		if top {
			out.repeated++
		}
		line := fmt.Sprintf("%s.%s failed in %d of %d runs", name, test, n, total[test])
		switch {
		case last[test] == "fail":
			out.red = append(out.red, line)
		case top:
			out.flaky = append(out.flaky, line)
		}
	}
	slices.Sort(out.flaky)
	slices.Sort(out.red)
	return out
}

// broken says why a run is red whatever repeats say; empty when it is not.
func (r *run) broken() string {
	failed := false
	for test, result := range r.results {
		failed = failed || result == "fail" && !strings.Contains(test, "/")
	}
	switch {
	case r.result == "":
		return "it did not end"
	case r.result != "fail":
		return ""
	case r.omen != "":
		return r.omen
	case len(r.open) > 0:
		return slices.Min(slices.Collect(maps.Keys(r.open))) + " began and did not end; tests after it may not have run"
	case !failed:
		return "it failed outside of its tests"
	}
	return ""
}
