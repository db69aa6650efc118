package main

import (
	"fmt"

	"mooncake/bench/figures"
)

func traceChecks() (all []check) {
	bounds := map[uint64][2]float64{75: {0, 0}, 80: {0, 0}, 85: {1, 0.2}, 90: {12, 5}}
	for _, live := range livePercents {
		phase := fmt.Sprintf("%d %% live", live)
		all = append(all, check{"training loop: failed big puts, percent", phase, mean("trace", phase, "big_failed_percent"), bounds[live][0], bounds[live][1], false})
	}
	return all
}

// mean is that of ours over rounds: of failures that are rare the median says nothing.
func mean(suite, phase, value string) func(*report) float64 {
	return func(r *report) float64 {
		sum, all := 0.0, r.rounds(suite, phase, ours, value)
		for _, v := range all {
			sum += v
		}
		return sum / float64(len(all))
	}
}

// besides is the ratio of two parties of a phase.
func besides(suite, phase, who, other, value string) func(*report) float64 {
	return func(r *report) float64 { return r.ratio(suite, phase, who, other, value) }
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

func dataChecks() (all []check) {
	for _, n := range []int{1, 4} {
		for _, size := range []int64{4 * kib, 64 * kib, mib, 16 * mib, 64 * mib} {
			get, put := dataPhase("get", size, n), dataPhase("put", size, n)
			getMust, getAim, putMust, putAim := 0.95, 1.05, 0.95, 1.05
			switch {
			case size >= mib && n == 1:
				getMust, getAim, putMust, putAim = 1.1, 1.3, 1, 1.2
			case size >= mib:
				getMust, getAim, putMust, putAim = 1.2, 1.6, 1, 1.5
			}
			cpuMust, cpuAim := 0.8, 0.55
			if size < 64*kib {
				cpuMust, cpuAim = 1.2, 1
			}
			all = append(all,
				check{"wheel: GB/s against 13's store process", get, against("data", get, "gb_s"), getMust, getAim, true},
				check{"wheel: GB/s against 13's store process", put, against("data", put, "gb_s"), putMust, putAim, true},
				check{"segment CPU per GB against 13", get, against("data", get, "cpu_s_gb"), cpuMust, cpuAim, false},
				check{"segment CPU per GB against 13", put, against("data", put, "cpu_s_gb"), cpuMust, cpuAim, false},
			)
			if size < mib {
				continue
			}
			streams := streamsOf(size)
			same := fmt.Sprintf("%s%d", bare, streams[len(streams)-1])
			for _, phase := range []string{get, put} {
				all = append(all,
					check{"client in Go: GB/s of bare connections, as many", phase, besides("data", phase, goClient, same, "gb_s"), 0.7, 0.85, true},
					check{"client in Go: GB/s against the wheel", phase, besides("data", phase, goClient, ours, "gb_s"), 1.5, 2, true},
					check{"client in Go: GB/s against the wheel of 13 with 13's store process", phase, against13(phase), 1.5, 2, true},
				)
			}
		}
	}
	return all
}

// against13 compares the client in Go with the wheel as it was before: with a store process of its own release.
func against13(phase string) func(*report) float64 {
	return besides("data", phase, goClient, base, "gb_s")
}

// timesAs is how many times as long another party of the run beside Ray took.
func timesAs(who, value string) func(*report) float64 {
	return besides("bundles", "beside Ray", ray, who, value)
}

// faster is how many times as fast as 13 the wheel was through our daemons.
func faster(value string) func(*report) float64 {
	return func(r *report) float64 {
		return figures.Ratio(r.rounds("bundles", "wheel", base, value), r.rounds("bundles", "wheel", ours, value))
	}
}

func bundleChecks() []check {
	return []check{
		{"bundles through the wheel: as fast as with 13", "put", faster("put_ms"), 1, 1.1, true},
		{"bundles through the wheel: as fast as with 13", "get", faster("get_ms"), 1, 1.1, true},
		{"bundles through the wheel: as fast as Ray between two nodes", "get", timesAs("wheel", "get_ms"), 10, 14, true},
		{"bundles through the wheel: as fast as Ray between two nodes", "put", timesAs("wheel", "put_ms"), 2.5, 3, true},
		{"bundles through the client in Go: as fast as Ray between two nodes", "get", timesAs(goClient, "get_ms"), 12, 20, true},
		{"bundles through the client in Go: as fast as Ray between two nodes", "put", timesAs(goClient, "put_ms"), 4, 6, true},
	}
}
