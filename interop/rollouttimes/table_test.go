package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{4}, 4},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 1, 2, 100}, 5},
	} {
		if got := median(c.of); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.of, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

// TestTable works out ratios round by round: the middle of the ratios is not the ratio of the middles.
func TestTable(t *testing.T) {
	s := size{Samples: 256, Bytes: 1_234_567, Members: 24, PutCalls: 2, GetCalls: 1, Columns: []column{
		{Party: "client in Go", Rounds: []handing{{1, 2}, {10, 2}, {2, 4}}},
		{Party: "wheel", Rounds: []handing{{5, 2}, {20, 3}, {6, 8}}},
	}}
	s.settle()
	if m := s.Columns[0].Median; m != (handing{2, 2}) {
		t.Errorf("medians of the first: %+v", m)
	}
	if c := s.Columns[1]; c.Median != (handing{6, 3}) || c.Put != 3 || c.Get != 1.5 {
		t.Errorf("the second: %+v", c)
	}
	var out strings.Builder
	r := result{Processors: 2, Load: "0.1 0.2 0.3", Shape: "miles", Rounds: 3, Times: 5, Sizes: []size{s}}
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	const want = `2 processors, load before 0.1 0.2 0.3, shape miles, medians of 3 rounds of 5 times each; PUT / GET
Ray was not measured: -ray-python names no interpreter.

Times as long as the client in Go (above 1: slower than it)

| samples | MB | members | wheel |
| --- | --- | --- | --- |
| 256 | 1.23 | 24 | 3.00 / 1.50 |

Milliseconds

| samples | MB | members | calls to the master, Go | client in Go | wheel |
| --- | --- | --- | --- | --- | --- |
| 256 | 1.23 | 24 | 2 / 1 | 2.00 / 2.00 | 6.00 / 3.00 |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		samples string
		shape   string
		rest    []string
		rounds  int
		times   int
		limit   time.Duration
		want    string
	}{
		{"1, 256", "yardstick", nil, 7, 3, time.Minute, ""},
		{"1, 256", "miles", nil, 7, 1, time.Minute, ""},
		{"0", "miles", nil, 7, 3, time.Minute, `-samples=0: "0" is no number from 1 to 32768`},
		{"1,", "miles", nil, 7, 3, time.Minute, `-samples=1,: "" is no number from 1 to 32768`},
		{"40000", "miles", nil, 7, 3, time.Minute, `-samples=40000: "40000" is no number from 1 to 32768`},
		{"1", "round", nil, 7, 3, time.Minute, "-shape=round is none of yardstick, miles"},
		{"1", "miles", []string{"x"}, 7, 3, time.Minute, `"x" is no flag`},
		{"1", "miles", nil, 0, 3, time.Minute, "-rounds=0 is not from 1 to 101"},
		{"1", "miles", nil, 7, 0, time.Minute, "-times=0 is not from 1 to 101"},
		{"1", "miles", nil, 7, 3, 0, "-limit=0s is not above 0 and up to 2h0m0s"},
	} {
		s := settings{rounds: c.rounds, times: c.times, limit: c.limit}
		got := ""
		if err := s.check(c.samples, c.shape, c.rest); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("-samples=%s -shape=%s %q: %q, want %q", c.samples, c.shape, c.rest, got, c.want)
		}
	}
}
