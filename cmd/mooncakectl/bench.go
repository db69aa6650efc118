package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mooncake/client"
	"mooncake/internal/units"
)

// benchView is a result as it is printed.
type benchView struct {
	What      string  `json:"what"`
	Objects   int     `json:"objects"`
	Bytes     uint64  `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	MiBPerSec float64 `json:"mib_per_second"`
	PerSec    float64 `json:"objects_per_second"`
	MedianMs  float64 `json:"median_ms"`
	P99Ms     float64 `json:"p99_ms"`
}

func (e *env) bench() *cobra.Command {
	objects, workers, text, copies := 100, 4, "1MiB", 1
	cmd := e.destructive(&cobra.Command{
		Use: "bench", Short: "write objects of its own, read them, remove them, and tell how fast", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := units.ParseSize(text)
			switch {
			case err != nil:
				return fmt.Errorf("--size: %w", err)
			case n == 0 || objects < 1 || workers < 1:
				return fmt.Errorf("--size=%s, --objects=%d, --workers=%d must be above 0", text, objects, workers)
			}
			if !e.apply {
				return e.do(fmt.Sprintf("write, read and remove %d objects of %s with %d workers", objects, size(n), workers), nil)
			}
			return e.runBench(cmd.Context(), objects, workers, n, copies)
		},
	})
	fs := cmd.Flags()
	fs.IntVar(&objects, "objects", objects, "objects")
	fs.IntVar(&workers, "workers", workers, "calls at a time")
	fs.StringVar(&text, "size", text, "size of each")
	fs.IntVar(&copies, "copies", copies, "copies of each")
	return cmd
}

func (e *env) runBench(ctx context.Context, objects, workers int, n uint64, copies int) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	data, tag := make([]byte, n), make([]byte, 8)
	_, _ = rand.Read(data) // it never fails
	_, _ = rand.Read(tag)
	key := func(i int) string { return fmt.Sprintf("mooncakectl-bench/%s/%d", hex.EncodeToString(tag), i) }
	var rows []benchView
	var failed error
	for _, step := range []struct {
		what string
		do   func(i int) error
	}{
		{"put", func(i int) error { return c.Put(ctx, key(i), data, client.PutOptions{Copies: copies}) }},
		{"get", func(i int) error {
			got, err := c.Get(ctx, key(i))
			if err == nil && (len(got) != len(data) || got[0] != data[0] || got[n-1] != data[n-1]) {
				err = fmt.Errorf("%s: other bytes came back", key(i))
			}
			return err
		}},
		{"remove", func(i int) error { return c.Remove(ctx, key(i), true) }},
	} {
		if failed != nil && step.what != "remove" {
			continue // what was written goes in any case
		}
		took, times, err := parallel(objects, workers, step.do)
		if err != nil {
			if failed == nil {
				failed = err
			}
			continue
		}
		v := benchView{What: step.what, Objects: objects, Seconds: took.Seconds(), PerSec: float64(objects) / took.Seconds()}
		if step.what != "remove" {
			v.Bytes = n * uint64(objects)
			v.MiBPerSec = float64(v.Bytes) / took.Seconds() / (1 << 20)
		}
		v.MedianMs, v.P99Ms = times[len(times)/2].Seconds()*1e3, times[len(times)*99/100].Seconds()*1e3
		rows = append(rows, v)
	}
	if failed != nil {
		return failed
	}
	return list(e, rows,
		column[benchView]{"WHAT", func(v benchView) any { return v.What }},
		column[benchView]{"OBJECTS", func(v benchView) any { return v.Objects }},
		column[benchView]{"SECONDS", func(v benchView) any { return fmt.Sprintf("%.3f", v.Seconds) }},
		column[benchView]{"MIB/S", func(v benchView) any { return fmt.Sprintf("%.1f", v.MiBPerSec) }},
		column[benchView]{"OBJECTS/S", func(v benchView) any { return fmt.Sprintf("%.0f", v.PerSec) }},
		column[benchView]{"MEDIAN MS", func(v benchView) any { return fmt.Sprintf("%.2f", v.MedianMs) }},
		column[benchView]{"P99 MS", func(v benchView) any { return fmt.Sprintf("%.2f", v.P99Ms) }},
	)
}

// parallel does something for every number below n, with so many workers. The times are sorted; all are done even after an
// error, of which the first is returned.
func parallel(n, workers int, do func(i int) error) (took time.Duration, times []time.Duration, failed error) {
	next := make(chan int)
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	for range min(workers, n) {
		group.Go(func() {
			for i := range next {
				start := time.Now()
				err := do(i)
				mu.Lock()
				times = append(times, time.Since(start))
				if failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	slices.Sort(times)
	return time.Since(began), times, failed
}
