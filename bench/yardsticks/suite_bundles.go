package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"mooncake/bench/data"
	"mooncake/bench/figures"
	"mooncake/interop"
)

const (
	bundleSeed = 7
	// bundleBuffer is what a wheel registers: it waits for ever in one that is smaller than a result.
	bundleBuffer = 512 << 20
	// bundleTimes is how often a party hands over in its turn: single ones differ by a factor of two, so their median counts.
	bundleTimes = 3
	ray         = "ray"
)

// handler is a pair of wheels, under the daemons of a contestant.
type handler struct {
	name             string
	produce, consume *interop.Store
}

// suiteBundles hands rollouts over: wheels through every contestant's daemons, and then in a run of its own the client in Go,
// a wheel and Ray.
func suiteBundles(ctx context.Context, b *bench) error {
	var all []handler
	for _, who := range b.contestants {
		if who.command != nil {
			continue // it has no segment daemon
		}
		h, err := b.handler(who)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		all = append(all, h)
	}
	bundle := interop.Bundle{Rows: b.rows, Seed: bundleSeed, Shape: interop.Yardstick, Keep: true}
	for round := range b.rounds + 1 { // the first does not count
		for _, h := range order(all, round) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			put, get, err := h.turn(bundle)
			if err != nil {
				return fmt.Errorf("%s: %w", h.name, err)
			}
			if round > 0 {
				b.note("wheel", h.name, round-1, map[string]float64{"put_ms": put, "get_ms": get})
			}
		}
	}
	return b.rollouts(ctx)
}

// turn hands over several times, and answers with the medians.
func (h *handler) turn(b interop.Bundle) (putMs, getMs float64, err error) {
	var puts, gets []float64
	for range bundleTimes {
		handle, _, put, err := h.produce.PutBundle(b)
		if err != nil {
			return 0, 0, err
		}
		diff, get, err := h.consume.GetBundle(handle, b, nil, nil)
		if err == nil && diff != "" {
			err = errors.New("something else was read: " + diff)
		}
		if err = errors.Join(err, h.produce.CleanBundle(handle)); err != nil {
			return 0, 0, err
		}
		puts, gets = append(puts, put), append(gets, get)
	}
	return figures.Median(puts), figures.Median(gets), nil
}

func (b *bench) handler(who contestant) (h handler, err error) {
	h.name = who.name
	m, err := b.rig.StartMaster(interop.MasterOptions{Release: who.release})
	if err != nil {
		return h, err
	}
	release := who.release
	if who.name == ours {
		release = interop.R13
		_, err = b.rig.StartSegment(interop.SegmentOptions{Master: m.RPC, SizeBytes: b.room, Flags: interop.MemoryFound})
	} else {
		_, err = data.StartWheel(b.rig, release, m.RPC, b.room)
	}
	if err != nil {
		return h, err
	}
	if _, err := m.WaitSegments(1, mountLimit); err != nil {
		return h, err
	}
	for _, store := range []**interop.Store{&h.produce, &h.consume} {
		c, err := b.rig.StartClient(release)
		if err != nil {
			return h, err
		}
		code := 0
		*store, code, err = c.Setup(interop.StoreOptions{Master: m.RPC, BufferBytes: bundleBuffer})
		if err == nil && code != 0 {
			err = fmt.Errorf("setup of the wheel %s: code %d", release.Version(), code)
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}

// handed is what interop/rollouttimes writes.
type handed struct {
	Sizes []struct {
		Columns []struct {
			Party  string `json:"party"`
			Rounds []struct {
				PutMs float64 `json:"put_ms"`
				GetMs float64 `json:"get_ms"`
			} `json:"rounds"`
		} `json:"parties"`
	} `json:"sizes"`
}

// parties are the columns of that program by how they begin.
var parties = []struct{ begins, who string }{{"client in Go", goClient}, {"wheel", "wheel"}, {"Ray, two nodes", ray}}

// rollouts has the program for rollouts measure the client in Go and, where there is one, Ray between two nodes.
func (b *bench) rollouts(ctx context.Context) error {
	root, err := interop.ModuleRoot()
	if err != nil {
		return err
	}
	program := filepath.Join(b.rig.Dir, "rollouttimes")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./interop/rollouttimes")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	args := []string{"-json", "-samples", strconv.Itoa(b.rows), "-rounds", strconv.Itoa(b.rounds), "-times", strconv.Itoa(bundleTimes), "-binaries", b.rig.Binaries}
	if b.rayPython != "" {
		args = append(args, "-ray-python", b.rayPython)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stderr = root, b.progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops what it has started
	cmd.WaitDelay = stopGrace
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("interop/rollouttimes: %w", err)
	}
	var h handed
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("interop/rollouttimes: %w", err)
	}
	for _, size := range h.Sizes {
		for _, c := range size.Columns {
			for _, p := range parties {
				if !strings.HasPrefix(c.Party, p.begins) {
					continue
				}
				for round, times := range c.Rounds {
					b.note("beside Ray", p.who, round, map[string]float64{"put_ms": times.PutMs, "get_ms": times.GetMs})
				}
			}
		}
	}
	return nil
}
