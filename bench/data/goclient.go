package data

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"mooncake/client"
)

// GoClients are clients in Go that move at the same time, inside this process.
type GoClients []*client.Client

// goMover is one of them in one phase.
type goMover struct {
	*client.Client
	Phase
	tag   string
	slots int64
	want  []byte
}

// each lets every one of them do something.
func (g GoClients) each(ctx context.Context, p Phase, do func(ctx context.Context, i int, m *goMover) error) error {
	group, ctx := errgroup.WithContext(ctx)
	want := make([]byte, p.Size)
	for i := range want {
		want[i] = byte(i % 251)
	}
	for i, c := range g {
		group.Go(func() error {
			return do(ctx, i, &goMover{c, p, fmt.Sprintf("%s/%d", p.Tag, i), max(1, p.Budget/int64(len(g))/p.Size), want})
		})
	}
	return group.Wait()
}

// Fill writes what will be read.
func (g GoClients) Fill(ctx context.Context, p Phase) error {
	if p.What != get {
		return nil
	}
	return g.each(ctx, p, func(ctx context.Context, _ int, m *goMover) error {
		for _, key := range m.keys() {
			if err := m.Put(ctx, key, m.want, client.PutOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Move runs the phase.
func (g GoClients) Move(ctx context.Context, p Phase) ([]Moved, error) {
	out := make([]Moved, len(g))
	return out, g.each(ctx, p, func(ctx context.Context, i int, m *goMover) (err error) {
		var times []time.Duration
		if p.What == put {
			times, err = m.put(ctx)
		} else {
			times, err = m.get(ctx)
		}
		out[i] = settled(times, p.Size)
		return err
	})
}

// Clear removes what was read.
func (g GoClients) Clear(ctx context.Context, p Phase) error {
	if p.What != get {
		return nil
	}
	return g.each(ctx, p, func(ctx context.Context, _ int, m *goMover) error { return m.remove(ctx, m.keys()) })
}

// mostKeys is how many objects are read in turn.
const mostKeys = 64

func (m *goMover) keys() (keys []string) {
	for n := range min(m.slots, mostKeys) {
		keys = append(keys, fmt.Sprintf("%s/%d", m.tag, n))
	}
	return keys
}

func (m *goMover) put(ctx context.Context) (times []time.Duration, err error) {
	until := time.Now().Add(time.Duration(m.Seconds * float64(time.Second)))
	goesOn := func() bool { return len(times) < 3 || time.Now().Before(until) }
	for number := 0; goesOn(); {
		var written []string
		for int64(len(written)) < m.slots && goesOn() {
			key := fmt.Sprintf("%s/%d", m.tag, number)
			number++
			began := time.Now()
			if err := m.Put(ctx, key, m.want, client.PutOptions{}); err != nil {
				return times, err
			}
			times = append(times, time.Since(began))
			written = append(written, key)
		}
		if err := m.remove(ctx, written); err != nil {
			return times, err
		}
	}
	return times, nil
}

func (m *goMover) get(ctx context.Context) (times []time.Duration, err error) {
	until := time.Now().Add(time.Duration(m.Seconds * float64(time.Second)))
	keys, into := m.keys(), bytes.Repeat([]byte{1}, len(m.want)) // memory of the caller's, as for the published clients
	for n := 0; n < 3 || time.Now().Before(until); n++ {
		began := time.Now()
		if _, err = m.GetInto(ctx, keys[n%len(keys)], into); err != nil {
			return times, err
		}
		times = append(times, time.Since(began))
	}
	if !bytes.Equal(into, m.want) {
		err = fmt.Errorf("%s: something else was read than was written", m.tag)
	}
	return times, err
}

func (m *goMover) remove(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := m.Remove(ctx, key, true); err != nil {
			return err
		}
	}
	return nil
}
