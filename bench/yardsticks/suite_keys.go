package main

import (
	"context"
	"errors"
	"fmt"

	"mooncake/bench/calls"
	"mooncake/bench/figures"
	"mooncake/interop"
)

// shortKey is the length of the keys whose memory is looked at.
const shortKey = 32

// What the master's memory is after a tenth of -many objects were put, and after they were removed.
const (
	phaseKept = "many/10 kept"
	phaseGone = "many/10 removed"
)

// suiteKeys looks at the memory of a master with a tenth of -many objects, and again -settle after all were removed.
func suiteKeys(ctx context.Context, b *bench) (err error) {
	all, leave, err := b.sitAll(ctx, interop.MasterOptions{}, calls.Config{KeyBytes: shortKey})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	empty := make([]int64, len(all))
	for i, s := range all {
		r, err := figures.Read(s.process.Pid())
		if err != nil {
			return err
		}
		empty[i] = r.RSSBytes
	}
	for round := range min(b.rounds, 3) {
		for i, s := range all {
			o, err := s.Fill(ctx, b.many/10)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			b.note(phaseKept, s.name, round, map[string]float64{
				"grown_mib": float64(o.RSSBytes-empty[i]) / mib, "bytes_key": float64(o.RSSBytes-empty[i]) / float64(b.many/10),
			})
			if _, _, err := s.RemoveAll(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		if err := pauseFor(ctx, b.settle); err != nil {
			return err
		}
		for _, s := range all {
			r, err := figures.Read(s.process.Pid())
			if err != nil {
				return err
			}
			b.note(phaseGone, s.name, round, map[string]float64{"rss_mib": float64(r.RSSBytes) / mib})
		}
	}
	return nil
}

func keyChecks() []check {
	return []check{
		{"keys of 32 bytes: RSS grown by, MiB", phaseKept, absolute("keys", phaseKept, "grown_mib"), 600, 300, false},
		{"keys of 32 bytes: RSS after RemoveAll, MiB", phaseGone, absolute("keys", phaseGone, "rss_mib"), 150, 75, false},
	}
}
