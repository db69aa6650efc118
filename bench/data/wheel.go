package data

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"mooncake/interop"
)

//go:embed mover.py
var mover []byte

// clientBufferBytes is what a published client registers for itself: objects lie in memory of the caller.
const clientBufferBytes = 16 << 20

// What a phase does.
const (
	get = "get"
	put = "put"
)

// Phase is what all clients do at the same time.
type Phase struct {
	What    string // put or get
	Size    int64
	Seconds float64
	Budget  int64 // bytes that all of them may keep in the pool
	Tag     string
}

// Wheel is a process with a published client.
type Wheel struct{ worker *interop.Client }

// StartWheel starts a published client; segmentBytes is the memory that it gives to the pool.
func StartWheel(rig *interop.Rig, release interop.Release, master string, segmentBytes int64) (*Wheel, error) {
	env, ok := interop.OpenEnvironment(release)
	if !ok {
		return nil, fmt.Errorf("the wheel %s is not set up", release.Version())
	}
	script := filepath.Join(rig.Dir, "mover.py")
	if err := os.WriteFile(script, mover, 0o644); err != nil {
		return nil, err
	}
	worker, err := rig.StartWorker("mover "+release.Version(), env.Script(script))
	if err != nil {
		return nil, err
	}
	code := 0
	err = worker.Do("setup", map[string]any{"master": master, "segment": segmentBytes, "buffer": clientBufferBytes}, &code)
	if err == nil && code != 0 {
		err = fmt.Errorf("setup of the wheel %s: code %d", release.Version(), code)
	}
	return &Wheel{worker}, err
}

// Pid is the process id.
func (w *Wheel) Pid() int { return w.worker.Pid() }

// Close lets the client leave.
func (w *Wheel) Close() error { return w.worker.Close() }

// A Mover runs phases: what is to be read is written before, and removed after it was compared.
type Mover interface {
	Fill(ctx context.Context, p Phase) error
	Move(ctx context.Context, p Phase) ([]Moved, error)
	Clear(ctx context.Context, p Phase) error
}

// Wheels are published clients that move at the same time.
type Wheels []*Wheel

// each lets every one of them do something.
func (w Wheels) each(p Phase, op string, answer func(i int) any) error {
	var group errgroup.Group
	for i, wheel := range w {
		group.Go(func() error {
			return wheel.worker.Do(op, map[string]any{
				"what": p.What, "size": p.Size, "secs": p.Seconds, "budget": p.Budget / int64(len(w)), "tag": fmt.Sprintf("%s/%d", p.Tag, i),
			}, answer(i))
		})
	}
	return group.Wait()
}

// Fill writes what will be read.
func (w Wheels) Fill(_ context.Context, p Phase) error {
	if p.What != get {
		return nil
	}
	errors := make([]int, len(w))
	err := w.each(p, "fill", func(i int) any { return &errors[i] })
	for _, n := range errors {
		if err == nil && n > 0 {
			err = fmt.Errorf("%s: %d objects could not be written", p.Tag, n)
		}
	}
	return err
}

// Move runs the phase.
func (w Wheels) Move(_ context.Context, p Phase) ([]Moved, error) {
	out := make([]Moved, len(w))
	return out, w.each(p, "move", func(i int) any { return &out[i] })
}

// Clear compares and removes.
func (w Wheels) Clear(_ context.Context, p Phase) error {
	if p.What != get {
		return nil
	}
	same := make([]bool, len(w))
	err := w.each(p, "clear", func(i int) any { return &same[i] })
	for _, good := range same {
		if err == nil && !good {
			err = fmt.Errorf("%s: something else was read than was written", p.Tag)
		}
	}
	return err
}
