package calls

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"mooncake/wire"
)

// The traffic of a loop of reinforcement learning: what one step writes.
const (
	traceSmall      = 31
	traceLarge      = 3
	traceSmallest   = 16.0
	traceSmallMost  = 70_000.0
	traceLargeLeast = 21 << 19       // 10.5 MiB
	traceLargeMost  = 124 << 20 / 10 // 12.4 MiB
	traceBig        = 1 << 20
)

// Trace is such a loop over a pool of which some part is to be live.
type Trace struct {
	Steps       int
	LivePercent uint64
	Seed        uint64
}

// Traced is what came of it.
type Traced struct {
	Large, LargeFailed int
	Small, SmallFailed int
}

// tracer is a loop that runs. Objects of a step go together, one to three steps after the next has begun.
type tracer struct {
	*worker
	Trace
	dice         *rand.Rand
	due          [][]item
	oldest       int
	live, target uint64
	out          Traced
}

// Trace writes in every step small and large objects, and removes the oldest before as far as that is needed to stay below
// the live part. Everything is pinned: a put that fails is one for which there was no hole. In the end everything is removed.
func (s *Session) Trace(ctx context.Context, tr Trace) (*Traced, error) {
	w, err := s.worker(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	defer w.c.close()
	pool := uint64(s.cfg.Segments) * s.cfg.SegmentBytes
	t := &tracer{
		worker: w, Trace: tr, dice: rand.New(rand.NewPCG(tr.Seed, 42)), due: make([][]item, tr.Steps+4),
		target: pool / 100 * tr.LivePercent,
	}
	for step := range tr.Steps {
		if err := t.step(step); err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
	}
	for _, left := range t.due {
		if err := t.remove(left); err != nil {
			return nil, err
		}
	}
	return &t.out, nil
}

func (t *tracer) step(number int) error {
	var items []item
	sum := uint64(0)
	for i := range traceSmall + traceLarge {
		bytes := uint64(traceLargeLeast)
		if i < traceSmall {
			bytes = uint64(traceSmallest * math.Pow(traceSmallMost/traceSmallest, t.dice.Float64()))
		} else {
			bytes += t.dice.Uint64N(traceLargeMost - traceLargeLeast)
		}
		items = append(items, item{fmt.Sprintf("trace/%d/%d/%d/%d", t.LivePercent, t.Seed, number, i), bytes})
		sum += bytes
	}
	if err := t.makeRoom(sum); err != nil {
		return err
	}
	goes := number + 1 + t.dice.IntN(3)
	pinned := once
	pinned.WithHardPin = true
	refused, err := t.putBatch(items, pinned)
	if err != nil {
		return err
	}
	for i, it := range items {
		code := refused[i]
		if code != 0 && code != wire.ErrNoAvailableHandle {
			return fmt.Errorf("a put of %d bytes was refused: %v", it.bytes, code)
		}
		of, failed := &t.out.Small, &t.out.SmallFailed
		if it.bytes >= traceBig {
			of, failed = &t.out.Large, &t.out.LargeFailed
		}
		*of++
		if code != 0 {
			*failed++
			continue
		}
		t.live += it.bytes
		t.due[goes] = append(t.due[goes], it)
	}
	return nil
}

// makeRoom removes the oldest objects until so many bytes fit below the target.
func (t *tracer) makeRoom(bytes uint64) error {
	var gone []item
	for t.live+bytes > t.target {
		for len(t.due[t.oldest]) == 0 {
			t.oldest++
		}
		it := t.due[t.oldest][0]
		t.due[t.oldest] = t.due[t.oldest][1:]
		t.live -= it.bytes
		gone = append(gone, it)
	}
	return t.remove(gone)
}

func (t *tracer) remove(items []item) error {
	if len(items) == 0 {
		return nil
	}
	req := wire.BatchRemoveRequest{Force: true, TenantID: tenant}
	for _, it := range items {
		req.Keys = append(req.Keys, it.key)
	}
	body, err := checked(t.worker, &wire.BatchRemove, &req)
	if err != nil {
		return err
	}
	refused, err := codes(body, len(items), done)
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("%d of %d objects could not be removed: %v", len(refused), len(items), refused)
	}
	return err
}
