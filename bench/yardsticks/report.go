package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"mooncake/bench/figures"
)

// sample is what one phase gave for one contestant in one round.
type sample struct {
	Suite  string             `json:"suite"`
	Phase  string             `json:"phase"`
	Who    string             `json:"who"`
	Round  int                `json:"round"`
	Values map[string]float64 `json:"values"`
}

// report is all that was measured, and where.
type report struct {
	Machine string             `json:"machine"`
	Load    string             `json:"load_before"` // averages over 1, 5 and 15 minutes
	Began   time.Time          `json:"began"`
	Command string             `json:"command"`
	Took    map[string]float64 `json:"seconds_by_suite"`
	Samples []sample           `json:"samples"`
}

func newReport(s *settings) *report {
	var who []string
	for _, c := range s.contestants {
		who = append(who, c.name)
	}
	return &report{
		Machine: machine(), Load: firstWords("/proc/loadavg", 3), Began: time.Now().UTC().Truncate(time.Second),
		Command: fmt.Sprintf("-suite %s -contestants %s -rounds %d -secs %v -keys %d -many %d -steps %d -samples %d -room %d",
			strings.Join(s.suites, ","), strings.Join(who, ","), s.rounds, s.phase.Seconds(), s.keys, s.many, s.steps, s.rows, s.room),
		Took: map[string]float64{},
	}
}

// machine names processors, memory, kernel and how it sends.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := firstWords("/proc/meminfo", 3) // MemTotal: n kB
	return fmt.Sprintf("%d processors (%s), %s, Linux %s, %s, congestion control %s", runtime.NumCPU(), model, memory,
		firstWords("/proc/sys/kernel/osrelease", 1), runtime.Version(), firstWords("/proc/sys/net/ipv4/tcp_congestion_control", 1))
}

func firstWords(path string, n int) string {
	text, err := os.ReadFile(path)
	words := strings.Fields(string(text))
	if err != nil || len(words) < n {
		return "unknown"
	}
	return strings.Join(words[:n], " ")
}

// save writes the report, a sample a line.
func (r *report) save(path string) error {
	head := *r
	head.Samples = nil
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.Write(append(text, '\n'))
	for _, s := range r.Samples {
		if text, err = json.Marshal(s); err != nil {
			return err
		}
		b.Write(append(text, '\n'))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// loadReport reads what save wrote.
func loadReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &report{}
	d := json.NewDecoder(strings.NewReader(string(text)))
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for d.More() {
		var s sample
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.Samples = append(r.Samples, s)
	}
	if r.Machine == "" || len(r.Samples) == 0 {
		return nil, fmt.Errorf("%s holds nothing that was measured", path)
	}
	return r, nil
}

// rounds are the values of a contestant in a phase, by round.
func (r *report) rounds(suite, phase, who, value string) map[int]float64 {
	out := map[int]float64{}
	for _, s := range r.Samples {
		if v, ok := s.Values[value]; ok && s.Suite == suite && s.Phase == phase && s.Who == who {
			out[s.Round] = v
		}
	}
	return out
}

// median is that of a contestant's values.
func (r *report) median(suite, phase, who, value string) float64 {
	return figures.Median(slices.Collect(maps.Values(r.rounds(suite, phase, who, value))))
}

// ratio is how many times as much one contestant has as another, by rounds.
func (r *report) ratio(suite, phase, who, other, value string) float64 {
	return figures.Ratio(r.rounds(suite, phase, who, value), r.rounds(suite, phase, other, value))
}

// phases are those of a suite in the order in which they came, and the contestants too.
func (r *report) phases(suite string) (phases, who []string) {
	for _, s := range r.Samples {
		if s.Suite != suite {
			continue
		}
		if !slices.Contains(phases, s.Phase) {
			phases = append(phases, s.Phase)
		}
		if !slices.Contains(who, s.Who) {
			who = append(who, s.Who)
		}
	}
	return phases, who
}

// brief shows values on a line.
func brief(values map[string]float64) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s %s  ", name, number(values[name]))
	}
	return strings.TrimSpace(b.String())
}

// number writes a number with three digits, or all before the point.
func number(v float64) string {
	switch {
	case v != v:
		return "-"
	case v >= 100 || v <= -100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
