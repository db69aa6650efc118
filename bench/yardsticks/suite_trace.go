package main

import (
	"context"
	"errors"
	"fmt"

	"mooncake/bench/calls"
	"mooncake/interop"
)

var livePercents = []uint64{75, 80, 85, 90}

// traceSegmentBytes is the size of each of the four segments.
const traceSegmentBytes = 128 << 20

// suiteTrace replays the traffic of a training loop at several fillings of the pool; rounds are seeds.
func suiteTrace(ctx context.Context, b *bench) (err error) {
	all, leave, err := b.sitAll(ctx, interop.MasterOptions{}, calls.Config{Segments: poolSegments, SegmentBytes: traceSegmentBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	for round := range b.rounds {
		for _, live := range livePercents {
			for _, s := range order(all, round) {
				got, err := s.Trace(ctx, calls.Trace{Steps: b.steps, LivePercent: live, Seed: uint64(round + 1)})
				if err != nil {
					return fmt.Errorf("%s, %d %% live: %w", s.name, live, err)
				}
				b.note(fmt.Sprintf("%d %% live", live), s.name, round, map[string]float64{
					"big_puts": float64(got.Large), "big_failed_percent": 100 * float64(got.LargeFailed) / float64(got.Large),
					"small_failed": float64(got.SmallFailed),
				})
			}
		}
	}
	return nil
}
