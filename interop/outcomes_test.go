//go:build !rdmavm

package interop

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// outcomes reads what a test binary writes with -test.v=test2json, where lines of the framework begin with a mark of their
// own, and hands the results on as subtests.
type outcomes struct {
	progress func(line string) // may be nil; gets the framework's lines

	mu      sync.Mutex
	pending []byte
	current *outcome
	order   []*outcome
	outside []byte // output that belongs to no test
}

type outcome struct {
	name    string
	verdict string // PASS, FAIL or SKIP; empty if it never ended
	seconds string
	output  []byte
}

// mark begins every line of the framework.
const mark = "\x16"

var (
	began = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S*)`)
	ended = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \((.*)\)`)
)

// Write takes output in pieces of any size.
func (o *outcomes) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, p...)
	for {
		line, rest, whole := bytes.Cut(o.pending, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.line(string(line))
		o.pending = rest
	}
}

// asides takes what a test binary writes to its standard error: traces of goroutines, mostly.
type asides struct{ *outcomes }

func (a asides) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outside = append(a.outside, p...)
	return len(p), nil
}

func (o *outcomes) line(line string) {
	text, framework := line, false
	if at := strings.LastIndex(line, mark); at >= 0 { // a program may have left its own line unfinished
		text, framework = line[at+len(mark):], true
		if at > 0 {
			o.keep(line[:at])
		}
	}
	if !framework {
		o.keep(line)
		return
	}
	if o.progress != nil {
		o.progress(text)
	}
	if m := began.FindStringSubmatch(text); m != nil {
		o.current = o.find(m[1])
	} else if m := ended.FindStringSubmatch(text); m != nil {
		t := o.find(m[2])
		t.verdict, t.seconds = m[1], m[3]
		o.current = t // what a test has logged follows its verdict
	}
}

func (o *outcomes) find(name string) *outcome {
	if name == "" {
		return nil
	}
	if at := slices.IndexFunc(o.order, func(t *outcome) bool { return t.name == name }); at >= 0 {
		return o.order[at]
	}
	t := &outcome{name: name}
	o.order = append(o.order, t)
	return t
}

func (o *outcomes) keep(line string) {
	to := &o.outside
	if o.current != nil {
		to = &o.current.output
	}
	*to = append(append(*to, line...), '\n')
}

// problem is what is wrong with a test, if anything. Nothing may be skipped.
func (t *outcome) problem() string {
	switch t.verdict {
	case "PASS":
		return ""
	case "":
		return "never ended"
	default:
		return strings.ToLower(t.verdict)
	}
}

// report makes subtests of the results. Status and error are those of the whole run.
func (o *outcomes) report(t *testing.T, status int, err error) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	failed := false
	for _, one := range o.order {
		problem := one.problem()
		failed = failed || problem != ""
		t.Run(one.name, func(t *testing.T) {
			if problem != "" {
				t.Errorf("%s in the emulated machine (%s):\n%s", problem, one.seconds, one.output)
			} else {
				t.Logf("took %s in the emulated machine", one.seconds)
			}
		})
	}
	if complaint := o.complaint(failed, status, err); complaint != "" {
		t.Errorf("%s; output outside of tests:\n%s%s", complaint, lastLines(o.outside, 60), o.pending)
	}
}

// complaint is what is wrong with the run as a whole beyond the tests that failed.
func (o *outcomes) complaint(failed bool, status int, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case len(o.order) == 0:
		return fmt.Sprintf("no test has run (exit status %d)", status)
	case status != 0 && !failed:
		return fmt.Sprintf("exit status %d though no test failed", status)
	}
	return ""
}

func TestOutcomes(t *testing.T) {
	o := &outcomes{}
	text := "starting\n" + mark + "=== RUN   TestA\n" + mark + "=== RUN   TestA/sub\nhalf a line" + mark + "=== NAME  TestA\n" +
		"    x_test.go:1: of A\n" + mark + "--- FAIL: TestA (1.20s)\n" + mark + "    --- PASS: TestA/sub (0.50s)\n" +
		mark + "=== NAME  \n" + mark + "=== RUN   TestB\nno end\n"
	for i := range len(text) { // in the smallest pieces
		if _, err := o.Write([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, one := range o.order {
		got = append(got, fmt.Sprintf("%s %q %q", one.name, one.problem(), one.output))
	}
	want := []string{
		`TestA "fail" "    x_test.go:1: of A\n"`, `TestA/sub "" "half a line\n"`, `TestB "never ended" "no end\n"`,
	}
	if !slices.Equal(got, want) || string(o.outside) != "starting\n" {
		t.Errorf("got %q\nwant %q; outside %q", got, want, o.outside)
	}
	for _, c := range []struct {
		o      *outcomes
		failed bool
		status int
		want   bool
	}{
		{o, true, 1, false},
		{o, false, 1, true},
		{&outcomes{}, false, 0, true},
		{o, false, 0, false},
	} {
		if got := c.o.complaint(c.failed, c.status, nil); (got != "") != c.want {
			t.Errorf("complaint %q", got)
		}
	}
}
