package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"mooncake/bench/calls"
	"mooncake/bench/figures"
	"mooncake/interop"
)

// suite is a group of phases that share what was started for them.
type suite struct {
	name string
	what string
	run  func(context.Context, *bench) error
}

// bench is a measurement that goes on.
type bench struct {
	*settings
	rig      *interop.Rig
	report   *report
	suite    string
	sessions uint64
}

func suiteNames() (names []string) {
	for _, s := range suites() {
		names = append(names, s.name)
	}
	return names
}

// measure runs the suites, and writes what came out even if one of them fails.
func measure(ctx context.Context, s *settings) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not done within -limit=%v", s.limit))
	defer cancel()
	rig, err := interop.NewRig("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	// When the time is over the processes stop; whoever waits for them fails then.
	defer context.AfterFunc(ctx, func() { _ = rig.Close() })()
	b := &bench{settings: s, rig: rig, report: newReport(s)}
	if rig.Binaries = s.binaries; s.binaries == "" {
		fmt.Fprintln(s.progress, "building the daemons ...")
		rig.Binaries = filepath.Join(rig.Dir, "bin")
		if err := interop.BuildDaemons(ctx, rig.Binaries, false, "mooncake-master", "mooncake-segment"); err != nil {
			return err
		}
	}
	for _, st := range suites() {
		if !slices.Contains(s.suites, st.name) {
			continue
		}
		fmt.Fprintf(s.progress, "== %s: %s\n", st.name, st.what)
		b.suite = st.name
		began := time.Now()
		if err = st.run(ctx, b); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			err = fmt.Errorf("suite %s: %w", st.name, err)
			break
		}
		b.report.Took[st.name] = time.Since(began).Seconds()
	}
	if s.json != "" {
		err = errors.Join(err, b.report.save(s.json))
	}
	return errors.Join(err, b.report.print(s.out))
}

// order lets another one begin in every round.
func order[T any](all []T, round int) []T {
	out := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(out)
	}
	return out
}

// note keeps what a phase gave.
func (b *bench) note(phase, who string, round int, values map[string]float64) {
	b.report.Samples = append(b.report.Samples, sample{b.suite, phase, who, round, values})
	fmt.Fprintf(b.progress, "%-8s %-16s %-5s %d  %s\n", b.suite, phase, who, round, brief(values))
}

// micros is a time in microseconds, millis one in milliseconds.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// processor is what the server used. The kernel's exact figure is that of threads that live; it counts unless some have ended.
func processor(u figures.Used) time.Duration {
	const step = 20 * time.Millisecond
	if u.Scheduled+step < u.Processor {
		return u.Processor
	}
	return u.Scheduled
}

// valuesOf are the numbers of a load.
func valuesOf(o *calls.Outcome) map[string]float64 {
	n := float64(max(1, o.Operations))
	v := map[string]float64{
		"ops_s":      float64(o.Operations) / o.Used.Wall.Seconds(),
		"cpu_us":     micros(processor(o.Used)) / n,
		"p50_us":     micros(o.Times.Quantile(0.5)),
		"p99_us":     micros(o.Times.Quantile(0.99)),
		"p999_us":    micros(o.Times.Quantile(0.999)),
		"rss_mb":     float64(o.RSSBytes) / 1e6,
		"others_cpu": o.Used.Others.Seconds() / o.Used.Wall.Seconds(),
	}
	if o.Probed != nil {
		v["gap_ms"] = millis(o.Probed.Gap)
		v["probe_p99_us"] = micros(o.Probed.Times.Quantile(0.99))
	}
	return v
}

// watched are the numbers of what was done while a probe asked.
func watched(o *calls.Outcome, took time.Duration, keys int64) map[string]float64 {
	return map[string]float64{
		"answer_ms": millis(took), "gap_ms": millis(o.Probed.Gap), "probe_p99_us": micros(o.Probed.Times.Quantile(0.99)),
		"cpu_ms": millis(processor(o.Used)), "rss_mb": float64(o.RSSBytes) / 1e6, "keys": float64(keys),
		"others_cpu": o.Used.Others.Seconds() / o.Used.Wall.Seconds(),
	}
}

// load runs one load and keeps its numbers; nothing may be refused.
func (b *bench) load(ctx context.Context, s *seat, phase string, round int, l calls.Load) (*calls.Outcome, error) {
	o, err := s.Run(ctx, l)
	if err == nil {
		err = o.Good()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.name, phase, err)
	}
	v := valuesOf(o)
	if l.Pause > 0 {
		made := max(1, o.Operations)
		if l.Kind == calls.Put {
			made *= 2 // start and end
		}
		v["switches"] = float64(o.Used.Switches) / float64(made)
	}
	b.note(phase, s.name, round, v)
	return o, nil
}
