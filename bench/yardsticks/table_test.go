package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written is a report of three rounds in which what else ran on the machine hit both sides.
func written() *report {
	r := &report{Machine: "2 processors", Load: "0.1 0.1 0.1", Command: "-suite calls", Took: map[string]float64{"calls": 3}}
	for round, disturbed := range []float64{1, 3, 1} {
		for who, cpu := range map[string]float64{base: 10, ours: 5} {
			r.Samples = append(r.Samples, sample{"calls", "exist 8", who, round, map[string]float64{"cpu_us": cpu * disturbed, "ops_s": 1000 / cpu / disturbed}})
		}
	}
	return r
}

func TestTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.jsonl")
	if err := written().save(path); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := tables(&out, []string{path}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 processors; `-suite calls`",
		"| server CPU per call against 13 | exist 8 | 0.5 | <= 0.8 | <= 0.6 | aim |\n",
		"| calls per second against 13 | exist 8 | 2 | >= 1.1 | >= 1.4 | aim |\n",
		"2 of 2 measured yardsticks reach what they must",
		"| phase | who | ops_s | cpu_us |\n",
		"| exist 8 | 13 | 100 | 10 |\n",
		"| exist 8 | ours | 200 (2.00) | 5 (0.50) |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestLaterFile: of a suite that two files have, the last one counts.
func TestLaterFile(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	if err := written().save(first); err != nil {
		t.Fatal(err)
	}
	later := written()
	for i := range later.Samples {
		if later.Samples[i].Who == ours {
			later.Samples[i].Values["cpu_us"] *= 3
		}
	}
	if err := later.save(second); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := tables(&out, []string{first, second}); err != nil {
		t.Fatal(err)
	}
	if want := "| exist 8 | 1.5 | <= 0.8 | <= 0.6 | **missed** |\n"; !strings.Contains(out.String(), want) || strings.Count(out.String(), "server CPU per call") != 1 {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

func TestNoTables(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{nil, {"/nonexistent"}, {empty}} {
		if err := tables(&strings.Builder{}, paths); err == nil {
			t.Errorf("tables of %q", paths)
		}
	}
}

func TestVerdicts(t *testing.T) {
	most, least := check{must: 0.8, aim: 0.6}, check{must: 1.1, aim: 1.4, atLeast: true}
	for _, tc := range []struct {
		c    check
		v    float64
		want string
	}{
		{most, 0.6, reached},
		{most, 0.7, enough},
		{most, 0.9, missed},
		{least, 1.4, reached},
		{least, 1.2, enough},
		{least, 1, missed},
	} {
		if got := tc.c.verdict(tc.v); got != tc.want {
			t.Errorf("%v against %s, %s is %q", tc.v, tc.c.bound(tc.c.must), tc.c.bound(tc.c.aim), got)
		}
	}
}
