package main

import (
	"fmt"

	"mooncake/bench/calls"
	"mooncake/bench/figures"
)

// between is the ratio of two phases of ours, by rounds.
func between(suite, phase, other, value string) func(*report) float64 {
	return func(r *report) float64 {
		return figures.Ratio(r.rounds(suite, phase, ours, value), r.rounds(suite, other, ours, value))
	}
}

func growthChecks() (all []check) {
	for _, size := range []string{sizeTenth, sizeMany} {
		all = append(all, check{"RSS per 40-byte key, bytes", size, absolute("growth", "fill, "+size, "bytes_key"), 250, 190, false})
	}
	for _, size := range []string{sizeTenth, sizeMany} {
		all = append(all, check{"RSS 30 s after RemoveAll, over the start", size, absolute("growth", "after RemoveAll, "+size, "rss_start"), 1.5, 1.2, false})
	}
	return append(all,
		check{"get p99 at many keys over that at few", "get 8", between("growth", "get, "+sizeMany, "get, "+sizeFew, "p99_us"), 2, 1.5, false},
		check{"RemoveAll of many/10: answers in, ms", "", absolute("growth", "RemoveAll, "+sizeTenth, "answer_ms"), 200, 50, false},
		check{"RemoveAll of many/10: gap, ms", "", absolute("growth", "RemoveAll, "+sizeTenth, "gap_ms"), 30, 10, false},
		check{"collection of garbage at many keys: gap, ms", "", absolute("growth", "collection of garbage, "+sizeMany, "gap_ms"), 30, 10, false},
		check{"expiry of a client with many/10 objects: gap, ms", "", absolute("gaps", "expiry of a client", "gap_ms"), 30, 10, false},
		check{"snapshot at many/10 keys: gap, ms", "", absolute("gaps", "snapshot", "gap_ms"), 30, 10, false},
	)
}

func roomChecks() (all []check) {
	for _, p := range (&bench{settings: &settings{}}).pools() {
		phase := p.name + ", full"
		all = append(all,
			check{"full pool: refusals", p.name, absolute("full", phase, "refused"), 0, 0, false},
			check{"full pool: put CPU over that with room", p.name, absolute("full", phase, "cpu_room"), 1.4, 1.2, false},
			check{"full pool: longest gap of a 1 kHz probe, ms", p.name, absolute("full", phase, "gap_ms"), 30, 10, false},
		)
	}
	for _, k := range []calls.Kind{calls.Put, calls.BatchPut} {
		for _, l := range layouts[1:] {
			phase := fmt.Sprintf("%s, %v", k, l)
			all = append(all, check{
				"put and batch put from 1 to 1,024 segments: CPU over that with one", phase,
				between("segments", phase, fmt.Sprintf("%s, %v", k, layouts[0]), "cpu_us"), 1.3, 1.15, false,
			})
		}
	}
	return all
}
