package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// handing is how long handing over took.
type handing struct {
	PutMs float64 `json:"put_ms"`
	GetMs float64 `json:"get_ms"`
}

// column is what one party took for one size.
type column struct {
	Party  string    `json:"party"`
	Rounds []handing `json:"rounds"`
	Median handing   `json:"median"`
	// Put and Get are how many times as long as the first party it took: the median of the rounds' ratios.
	Put float64 `json:"put_ratio"`
	Get float64 `json:"get_ratio"`
}

// size is what there is of one size.
type size struct {
	Samples  int      `json:"samples"`
	Bytes    int      `json:"bytes"`
	Members  int      `json:"members"`
	PutCalls uint64   `json:"put_master_calls"` // the most of any round, of the client in Go
	GetCalls uint64   `json:"get_master_calls"`
	Columns  []column `json:"parties"`
}

// result is all that was measured.
type result struct {
	Processors int    `json:"processors"`
	Load       string `json:"load_before"` // averages over 1, 5 and 15 minutes, from before anything was started
	Shape      string `json:"shape"`
	Rounds     int    `json:"rounds"`
	Times      int    `json:"times"` // that each party hands over in its turn
	Wheel      string `json:"wheel"`
	Ray        string `json:"ray,omitempty"` // its version; empty when it was left out
	Sizes      []size `json:"sizes"`
}

// median is the middle of some numbers, or between the two in the middle; of none it is no number.
func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(of))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// each makes a list of numbers from rounds.
func each(n int, number func(round int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = number(i)
	}
	return out
}

// settle works out medians and ratios. Rounds of the same number are compared with each other: they were neighbours.
func (s *size) settle() {
	first := s.Columns[0].Rounds
	for i := range s.Columns {
		c := &s.Columns[i]
		n := len(c.Rounds)
		c.Median.PutMs = median(each(n, func(r int) float64 { return c.Rounds[r].PutMs }))
		c.Median.GetMs = median(each(n, func(r int) float64 { return c.Rounds[r].GetMs }))
		c.Put = median(each(n, func(r int) float64 { return c.Rounds[r].PutMs / first[r].PutMs }))
		c.Get = median(each(n, func(r int) float64 { return c.Rounds[r].GetMs / first[r].GetMs }))
	}
}

// print writes two tables: how many times as long as the client in Go, and the times.
func (r *result) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, load before %s, shape %s, medians of %d rounds of %d times each; PUT / GET\n",
		r.Processors, r.Load, r.Shape, r.Rounds, r.Times)
	if r.Ray == "" {
		b.WriteString("Ray was not measured: -ray-python names no interpreter.\n")
	} else {
		fmt.Fprintf(&b, "Ray %s, two nodes of it on this machine: the consumer is on the producer's node, or on the other.\n", r.Ray)
	}
	b.WriteString("\nTimes as long as the client in Go (above 1: slower than it)\n\n")
	r.table(&b, 1, nil, func(c *column) string { return fmt.Sprintf("%.2f / %.2f", c.Put, c.Get) })
	b.WriteString("\nMilliseconds\n\n")
	calls := func(s *size) string { return fmt.Sprintf("%d / %d", s.PutCalls, s.GetCalls) }
	r.table(&b, 0, calls, func(c *column) string { return fmt.Sprintf("%.2f / %.2f", c.Median.PutMs, c.Median.GetMs) })
	_, err := io.WriteString(out, b.String())
	return err
}

// table writes the parties from some number on, a row for each size.
func (r *result) table(b *strings.Builder, from int, calls func(*size) string, cell func(*column) string) {
	head := []string{"samples", "MB", "members"}
	if calls != nil {
		head = append(head, "calls to the master, Go")
	}
	for i := from; i < len(r.Sizes[0].Columns); i++ {
		head = append(head, r.Sizes[0].Columns[i].Party)
	}
	line(b, head)
	line(b, slices.Repeat([]string{"---"}, len(head)))
	for i := range r.Sizes {
		s := &r.Sizes[i]
		row := []string{fmt.Sprint(s.Samples), fmt.Sprintf("%.3g", float64(s.Bytes)/1e6), fmt.Sprint(s.Members)}
		if calls != nil {
			row = append(row, calls(s))
		}
		for k := from; k < len(s.Columns); k++ {
			row = append(row, cell(&s.Columns[k]))
		}
		line(b, row)
	}
}

func line(b *strings.Builder, cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
