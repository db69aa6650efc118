package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"mooncake/bench/calls"
	"mooncake/bench/figures"
	"mooncake/interop"
)

// The sizes of catalogs: few stays the same, the others follow -many.
const (
	few         = 10_000
	sizeFew     = "few"
	sizeTenth   = "many/10"
	sizeMany    = "many"
	growthConns = 8
)

// catalogOf is a master that holds so many objects.
type catalogOf struct {
	*seat
	size  string
	keys  int64
	empty int64 // bytes of memory before
}

func (b *bench) sizes(who string) map[string]int64 {
	sizes := map[string]int64{sizeFew: min(few, b.many/100), sizeTenth: b.many / 10, sizeMany: b.many}
	if who != ours { // ten million objects of a published master take as many kilobytes
		delete(sizes, sizeMany)
	}
	return sizes
}

// suiteGrowth has catalogs of three sizes side by side: memory for each key, the cost of calls, what a collection of garbage
// holds up, RemoveAll, and what memory is given back within -settle.
func suiteGrowth(ctx context.Context, b *bench) (err error) {
	var all []*catalogOf
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.leave())
		}
	}()
	for _, who := range b.contestants {
		for _, size := range []string{sizeFew, sizeTenth, sizeMany} {
			keys, has := b.sizes(who.name)[size]
			if !has {
				continue
			}
			c, err := b.grow(ctx, who, size, keys)
			if err != nil {
				return err
			}
			all = append(all, c)
		}
	}
	for round := range b.rounds {
		for _, k := range []calls.Kind{calls.Exist, calls.Get, calls.BatchGet, calls.Put} {
			for _, c := range order(all, round) {
				l := calls.Load{Kind: k, Connections: growthConns, For: b.phase}
				if _, err := b.load(ctx, c.seat, fmt.Sprintf("%s, %s", k, c.size), round, l); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range all {
		if err := b.collect(ctx, c); err != nil {
			return err
		}
	}
	return b.removeAll(ctx, all)
}

// grow starts a master and fills it.
func (b *bench) grow(ctx context.Context, who contestant, size string, keys int64) (*catalogOf, error) {
	var o interop.MasterOptions
	if who.name == ours {
		o.Flags = []string{"--enable_pprof=true"} // by which garbage is collected on demand
	}
	s, err := b.sit(ctx, who, o, calls.Config{})
	if err != nil {
		return nil, err
	}
	c := &catalogOf{seat: s, size: size, keys: keys}
	r, err := figures.Read(s.process.Pid())
	if err == nil {
		c.empty = r.RSSBytes
		var o *calls.Outcome
		if o, err = s.Fill(ctx, keys); err == nil {
			v := valuesOf(o)
			v["keys"] = float64(keys)
			v["bytes_key"] = float64(o.RSSBytes-c.empty) / float64(keys)
			b.note("fill, "+size, who.name, 0, v)
			return c, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", who.name, err), s.leave())
}

// collect has ours collect its garbage while a probe asks.
func (b *bench) collect(ctx context.Context, c *catalogOf) error {
	if c.name != ours {
		return nil
	}
	o, took, err := c.Watch(ctx, func(context.Context) error {
		status, _, err := interop.HTTPGet(c.admin, "/debug/pprof/heap?gc=1")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/debug/pprof/heap?gc=1: status %d", status)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.note("collection of garbage, "+c.size, c.name, 0, watched(o, took, c.Keys()))
	return nil
}

// leasesOver is when the last lease of what was read has ended: both masters give ten seconds by default. Ours holds what is
// removed during its lease back, which is to be no part of what is compared.
const leasesOver = 12 * time.Second

// removeAll empties all catalogs, those of a tenth once a round, and looks at their memory a while later.
func (b *bench) removeAll(ctx context.Context, all []*catalogOf) error {
	if err := pauseFor(ctx, leasesOver); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, c := range order(all, round) {
			if round > 0 {
				if c.size != sizeTenth {
					continue
				}
				if _, err := c.Fill(ctx, c.keys); err != nil {
					return err
				}
			}
			o, took, err := c.RemoveAll(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			b.note("RemoveAll, "+c.size, c.name, round, watched(o, took, o.Operations))
		}
	}
	if err := pauseFor(ctx, b.settle); err != nil {
		return err
	}
	for _, c := range all {
		r, err := figures.Read(c.process.Pid())
		if err != nil {
			return err
		}
		b.note("after RemoveAll, "+c.size, c.name, 0, map[string]float64{
			"rss_mb": float64(r.RSSBytes) / 1e6, "rss_start": float64(r.RSSBytes) / float64(c.empty),
		})
	}
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

var keyCount = regexp.MustCompile(`(?m)^master_key_count(?:\{[^}]*\})? ([0-9.e+]+)$`)

// countKeys asks a master how many objects it knows.
func countKeys(admin string) (int64, error) {
	status, body, err := interop.HTTPGet(admin, "/metrics")
	if err != nil {
		return 0, err
	}
	found := keyCount.FindStringSubmatch(body)
	if status != http.StatusOK || found == nil {
		return 0, fmt.Errorf("/metrics has no master_key_count (status %d)", status)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	return int64(n), err
}
