package main

import (
	"fmt"

	"mooncake/bench/calls"
)

// check is one number of a yardstick and how good it has to be.
type check struct {
	yardstick string
	of        string
	value     func(r *report) float64 // no number when it was not measured
	must, aim float64
	atLeast   bool // else at most
}

// What a measured value amounts to.
const (
	reached = "aim"
	enough  = "must"
	missed  = "**missed**"
)

func (c *check) verdict(v float64) string {
	meets := func(bound float64) bool { return v <= bound && !c.atLeast || v >= bound && c.atLeast }
	switch {
	case meets(c.aim):
		return reached
	case meets(c.must):
		return enough
	}
	return missed
}

func (c *check) bound(v float64) string {
	if c.atLeast {
		return ">= " + number(v)
	}
	return "<= " + number(v)
}

// against is the ratio of ours to the base.
func against(suite, phase, value string) func(*report) float64 {
	return func(r *report) float64 { return r.ratio(suite, phase, ours, base, value) }
}

// absolute is the median of ours.
func absolute(suite, phase, value string) func(*report) float64 {
	return func(r *report) float64 { return r.median(suite, phase, ours, value) }
}

// checks are all yardsticks.
func checks() (all []check) {
	for _, more := range [][]check{callChecks(), pacedChecks(), batchChecks(), growthChecks(), keyChecks(), roomChecks(), traceChecks(), dataChecks(), readerChecks(), bundleChecks()} {
		all = append(all, more...)
	}
	return all
}

func callChecks() (all []check) {
	for _, k := range []calls.Kind{calls.Exist, calls.Get, calls.Put} {
		for _, n := range []int{8, 64} {
			phase := fmt.Sprintf("%s %d", k, n)
			all = append(all,
				check{"server CPU per call against 13", phase, against("calls", phase, "cpu_us"), 0.8, 0.6, false},
				check{"calls per second against 13", phase, against("calls", phase, "ops_s"), 1.1, 1.4, true},
			)
		}
	}
	return all
}

func pacedChecks() (all []check) {
	for _, k := range []calls.Kind{calls.Exist, calls.Get, calls.Put} {
		phase := fmt.Sprintf("%s 1", k)
		all = append(all,
			check{"one connection, closed loop: p50 against 13", phase, against("calls", phase, "p50_us"), 1, 0.85, false},
			check{"one connection, closed loop: CPU against 13", phase, against("calls", phase, "cpu_us"), 1, 0.75, false},
			check{"one connection, paced: p50 against 13", phase, against("paced", phase, "p50_us"), 1, 0.85, false},
			check{"one connection, paced: CPU against 13", phase, against("paced", phase, "cpu_us"), 1, 0.75, false},
			check{"context switches per paced call", phase, absolute("paced", phase, "switches"), 1.5, 1, false},
		)
	}
	return all
}

func batchChecks() (all []check) {
	for _, k := range []calls.Kind{calls.BatchExist, calls.BatchGet, calls.BatchPut} {
		for _, n := range connections {
			phase := fmt.Sprintf("%s %d", k, n)
			all = append(all,
				check{"batches of 100: CPU against 13", phase, against("batches", phase, "cpu_us"), 0.3, 0.15, false},
				check{"batches of 100: calls per second against 13", phase, against("batches", phase, "ops_s"), 2.5, 4, true},
			)
		}
	}
	return all
}
