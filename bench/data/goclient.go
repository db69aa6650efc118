package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"mooncake/client"
)

// MoveGo runs a phase with several clients in Go, inside this process.
func MoveGo(ctx context.Context, clients []*client.Client, p Phase) ([]Moved, error) {
	out := make([]Moved, len(clients))
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		group.Go(func() (err error) {
			g := goMover{c, p, fmt.Sprintf("%s/%d", p.Tag, i), max(1, p.Budget/int64(len(clients))/p.Size), pattern(p.Size)}
			var times []time.Duration
			if p.What == "put" {
				times, err = g.put(ctx)
			} else {
				times, err = g.get(ctx)
			}
			out[i] = settled(times, p.Size)
			return err
		})
	}
	return out, group.Wait()
}

func pattern(size int64) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

// goMover is one client in Go.
type goMover struct {
	*client.Client
	Phase
	tag   string
	slots int64
	want  []byte
}

func (g *goMover) goesOn(times []time.Duration, until time.Time) bool {
	return len(times) < 3 || time.Now().Before(until)
}

func (g *goMover) put(ctx context.Context) (times []time.Duration, err error) {
	until := time.Now().Add(time.Duration(g.Seconds * float64(time.Second)))
	for number := 0; g.goesOn(times, until); {
		var written []string
		for int64(len(written)) < g.slots && g.goesOn(times, until) {
			key := fmt.Sprintf("%s/%d", g.tag, number)
			number++
			began := time.Now()
			if err := g.Put(ctx, key, g.want, client.PutOptions{}); err != nil {
				return times, errors.Join(err, g.remove(ctx, written))
			}
			times = append(times, time.Since(began))
			written = append(written, key)
		}
		if err := g.remove(ctx, written); err != nil {
			return times, err
		}
	}
	return times, nil
}

func (g *goMover) get(ctx context.Context) (times []time.Duration, err error) {
	var keys []string
	for n := range min(g.slots, 64) {
		key := fmt.Sprintf("%s/%d", g.tag, n)
		if err := g.Put(ctx, key, g.want, client.PutOptions{}); err != nil {
			return nil, errors.Join(err, g.remove(ctx, keys))
		}
		keys = append(keys, key)
	}
	until := time.Now().Add(time.Duration(g.Seconds * float64(time.Second)))
	var last []byte
	for n := 0; g.goesOn(times, until); n++ {
		began := time.Now()
		if last, err = g.Get(ctx, keys[n%len(keys)]); err != nil {
			break
		}
		times = append(times, time.Since(began))
	}
	if err == nil && !bytes.Equal(last, g.want) {
		err = fmt.Errorf("%s: something else was read than was written", g.tag)
	}
	return times, errors.Join(err, g.remove(ctx, keys))
}

func (g *goMover) remove(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := g.Remove(ctx, key, true); err != nil {
			return err
		}
	}
	return nil
}
