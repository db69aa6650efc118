package main

import (
	"context"
	"errors"
	"fmt"

	"mooncake/bench/calls"
	"mooncake/interop"
	"mooncake/wire"
)

// pools are the full pools that are written through: objects that have room, and how many times as many are put.
func (b *bench) pools() []pool {
	return []pool{{"small pool", b.many / 500, 4}, {"large pool", b.many / 20, 2}}
}

type pool struct {
	name    string
	objects int64
	times   int64
}

const poolSegments = 4

// suiteFull puts more than there is room for, and beside it some with room.
func suiteFull(ctx context.Context, b *bench) error {
	for round := range min(b.rounds, 3) {
		for _, p := range b.pools() {
			for _, who := range order(b.contestants, round) {
				if err := b.overflow(ctx, who, p, round); err != nil {
					return fmt.Errorf("%s, %s: %w", who.name, p.name, err)
				}
			}
		}
	}
	return nil
}

// overflow writes through a pool, after -many/100 objects at most went into one with room for all.
func (b *bench) overflow(ctx context.Context, who contestant, p pool, round int) (err error) {
	const valueBytes = 4096
	full, err := b.sit(ctx, who, interop.MasterOptions{}, calls.Config{
		Segments: poolSegments, SegmentBytes: uint64(p.objects) * valueBytes / poolSegments, ValueBytes: valueBytes,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.leave()) }()
	roomy, err := b.sit(ctx, who, interop.MasterOptions{}, calls.Config{Segments: poolSegments, ValueBytes: valueBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roomy.leave()) }()
	load := calls.Load{Kind: calls.Put, Connections: growthConns, Operations: p.objects * p.times, Probe: true}
	with := load
	with.Operations = min(load.Operations, max(1, b.many/100))
	free, err := roomy.Run(ctx, with)
	if err != nil {
		return err
	}
	if err := free.Good(); err != nil {
		return err
	}
	b.note(p.name+", with room", who.name, round, valuesOf(free))
	out, err := full.Run(ctx, load)
	if err != nil {
		return err
	}
	v := valuesOf(out)
	v["refused"] = float64(out.Refused[wire.ErrNoAvailableHandle])
	v["cpu_room"] = v["cpu_us"] / valuesOf(free)["cpu_us"]
	b.note(p.name+", full", who.name, round, v)
	delete(out.Refused, wire.ErrNoAvailableHandle)
	return out.Good()
}

// layout is how a pool is divided.
type layout struct{ segments, owners int }

func (l layout) String() string { return fmt.Sprintf("%d segments of %d owners", l.segments, l.owners) }

var layouts = []layout{{1, 1}, {16, 16}, {128, 1}, {128, 128}, {1024, 1}, {1024, 1024}}

// publishedSegments is up to how many segments published masters are measured: batches of 0.3.14 take a tenth of a second
// with 128.
const publishedSegments = 128

// suiteSegments puts into pools of the same size that are divided more and more.
func suiteSegments(ctx context.Context, b *bench) (err error) {
	type divided struct {
		*seat
		layout
	}
	var all []divided
	defer func() {
		for _, d := range all {
			err = errors.Join(err, d.leave())
		}
	}()
	for _, who := range b.contestants {
		for _, l := range layouts {
			if who.name != ours && l.segments > publishedSegments {
				continue
			}
			s, err := b.sit(ctx, who, interop.MasterOptions{}, calls.Config{Segments: l.segments, Owners: l.owners})
			if err != nil {
				return fmt.Errorf("%s, %v: %w", who.name, l, err)
			}
			all = append(all, divided{s, l})
			if _, err := s.Fill(ctx, b.many/500); err != nil {
				return fmt.Errorf("%s, %v: %w", who.name, l, err)
			}
		}
	}
	for round := range b.rounds {
		for _, k := range []calls.Kind{calls.Put, calls.BatchPut} {
			for _, d := range order(all, round) {
				l := calls.Load{Kind: k, Connections: growthConns, For: b.phase}
				if _, err := b.load(ctx, d.seat, fmt.Sprintf("%s, %v", k, d.layout), round, l); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
