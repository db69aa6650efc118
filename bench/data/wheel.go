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

// MoveAll runs a phase with several clients.
func MoveAll(ctx context.Context, wheels []*Wheel, p Phase) ([]Moved, error) {
	out := make([]Moved, len(wheels))
	group, _ := errgroup.WithContext(ctx)
	for i, w := range wheels {
		group.Go(func() error {
			return w.worker.Do("move", map[string]any{
				"what": p.What, "size": p.Size, "secs": p.Seconds, "budget": p.Budget / int64(len(wheels)),
				"tag": fmt.Sprintf("%s/%d", p.Tag, i),
			}, &out[i])
		})
	}
	return out, group.Wait()
}
