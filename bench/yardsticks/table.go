package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// tables prints what files hold. Of a suite that several files have, the last one counts.
func tables(out io.Writer, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("table: want the names of files that -json has written")
	}
	var all *report
	for _, path := range paths {
		r, err := loadReport(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s; `%s`, %s; load before %s\n\n", path, r.Machine, r.Command, r.Began.Format("2006-01-02 15:04"), r.Load)
		if all == nil {
			all = r
			continue
		}
		all.Samples = slices.DeleteFunc(all.Samples, func(s sample) bool { _, again := r.Took[s.Suite]; return again })
		all.Samples = append(all.Samples, r.Samples...)
		maps.Copy(all.Took, r.Took)
	}
	return all.print(out)
}

// print writes the yardsticks, and then every suite.
func (r *report) print(out io.Writer) error {
	var b strings.Builder
	r.yardsticks(&b)
	for _, s := range suites() {
		phases, who := r.phases(s.name)
		if len(phases) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n**%s**: %s (%.0f s)\n\n", s.name, s.what, r.Took[s.name])
		r.suiteTable(&b, s.name, phases, who)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// yardsticks writes a row for each yardstick of which something was measured, and how many reach what they must.
func (r *report) yardsticks(b *strings.Builder) {
	row(b, "yardstick", "of", "measured", "must", "aim", "")
	row(b, "---", "---", "---", "---", "---", "---")
	measured, good := 0, 0
	for _, c := range checks() {
		v := c.value(r)
		if math.IsNaN(v) {
			continue
		}
		measured++
		verdict := c.verdict(v)
		if verdict != missed {
			good++
		}
		row(b, c.yardstick, c.of, number(v), c.bound(c.must), c.bound(c.aim), verdict)
	}
	fmt.Fprintf(b, "\n%d of %d measured yardsticks reach what they must.\n", good, measured)
}

// suiteTable writes medians, with the ratio to the base in brackets.
func (r *report) suiteTable(b *strings.Builder, suite string, phases, who []string) {
	var values []string
	for _, s := range r.Samples {
		if s.Suite == suite {
			for name := range s.Values {
				if !slices.Contains(values, name) {
					values = append(values, name)
				}
			}
		}
	}
	slices.SortFunc(values, func(a, b string) int { return place(a) - place(b) + strings.Compare(a, b) })
	row(b, append([]string{"phase", "who"}, values...)...)
	row(b, slices.Repeat([]string{"---"}, len(values)+2)...)
	for _, phase := range phases {
		for _, w := range who {
			cells, some := []string{phase, w}, false
			for _, name := range values {
				v := r.median(suite, phase, w, name)
				cell := number(v)
				if math.IsNaN(v) {
					cell = ""
				} else {
					some = true
				}
				if ratio := r.ratio(suite, phase, w, base, name); w != base && !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
					cell += fmt.Sprintf(" (%.2f)", ratio)
				}
				cells = append(cells, cell)
			}
			if some {
				row(b, cells...)
			}
		}
	}
}

// place orders the columns: what is looked at first comes first, the rest by name.
func place(value string) int {
	for i, first := range []string{"ops_s", "gb_s", "cpu_us", "cpu_s_gb", "p50_us", "p99_us", "p999_us"} {
		if value == first {
			return (i - 10) * 100
		}
	}
	return 0
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
