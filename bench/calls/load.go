package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mooncake/bench/blocking"
	"mooncake/bench/figures"
	"mooncake/wire"
)

// Kind is what a load does over and over.
type Kind string

// Kinds of loads. A put is start and end; Mixed is nine Get and one Put of ten; batches are of Config.Batch keys.
const (
	Nothing    Kind = "noop"
	Exist      Kind = "exist"
	Get        Kind = "get"
	Put        Kind = "put"
	Mixed      Kind = "mixed"
	BatchExist Kind = "bexist"
	BatchGet   Kind = "bget"
	BatchPut   Kind = "bput"
)

// keys is how many keys one operation has.
func (s *Session) keys(k Kind) int {
	if k == BatchExist || k == BatchGet || k == BatchPut {
		return s.cfg.Batch
	}
	return 1
}

// Load is a load in a closed loop.
type Load struct {
	Kind        Kind
	Connections int
	For         time.Duration // how long
	Operations  int64         // when not 0, how many in place of how long
	Pause       time.Duration // between two operations, with one connection
	Probe       bool          // a connection beside it asks for a key once a millisecond
}

// Outcome is what came of a load.
type Outcome struct {
	Operations int64
	KeysEach   int
	Used       figures.Used
	RSSBytes   int64 // at the end
	Threads    int
	Times      figures.Histogram
	Refused    map[wire.ErrorCode]int64
	Probed     *Probed
}

// Good tells whether nothing was refused.
func (o *Outcome) Good() error {
	if len(o.Refused) > 0 {
		return fmt.Errorf("of %d operations some were refused: %v", o.Operations, o.Refused)
	}
	return nil
}

// worker is one connection of a load.
type worker struct {
	s          *Session
	c          *conn
	dice       *rand.Rand
	times      figures.Histogram
	operations int64
	refused    map[wire.ErrorCode]int64
	seen       [wire.NumCalls]bool // calls of which an answer was decoded in full

	// The memory of a batch, used again by the next.
	text  []byte
	ends  []int
	names []string
	items []item
	start wire.BatchPutStartRequest
	end   wire.BatchPutEndRequest
}

func (s *Session) worker(ctx context.Context, number int, blocking bool) (*worker, error) {
	c, err := dial(ctx, s.cfg.Address)
	if err == nil && blocking {
		err = c.block(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &worker{
		s: s, c: c, dice: rand.New(rand.NewPCG(s.cfg.Seed, uint64(number))),
		refused: map[wire.ErrorCode]int64{},
	}, nil
}

func (w *worker) refuse(code wire.ErrorCode) {
	if code != 0 {
		w.refused[code]++
	}
}

// Fill writes so many objects more, in batches.
func (s *Session) Fill(ctx context.Context, objects int64) (*Outcome, error) {
	o, err := s.Run(ctx, Load{Kind: BatchPut, Connections: 4, Operations: (objects + int64(s.cfg.Batch) - 1) / int64(s.cfg.Batch)})
	if err == nil {
		err = o.Good()
	}
	return o, err
}

// Run runs a load and waits until it is over.
func (s *Session) Run(ctx context.Context, l Load) (*Outcome, error) {
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	workers := make([]*worker, l.Connections)
	defer func() {
		for _, w := range workers {
			if w != nil {
				w.c.close()
			}
		}
	}()
	for i := range workers {
		var err error
		if workers[i], err = s.worker(ctx, i, l.Pause > 0); err != nil {
			return nil, err
		}
	}
	var probe *prober
	if l.Probe {
		var err error
		if probe, err = s.probe(outer); err != nil { // it asks until all others have ended
			return nil, err
		}
		defer probe.end()
	}
	before, err := figures.Read(s.cfg.Pid)
	if err != nil {
		return nil, err
	}
	var over atomic.Bool
	var left atomic.Int64
	left.Store(l.Operations)
	more := func() bool { return !over.Load() && (l.Operations == 0 || left.Add(-1) >= 0) }
	if l.Operations == 0 {
		defer time.AfterFunc(l.For, func() { over.Store(true) }).Stop()
	}
	for _, w := range workers {
		group.Go(func() error { return w.loop(more, l) })
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("%s on %d connections: %w", l.Kind, l.Connections, err)
	}
	after, err := figures.Read(s.cfg.Pid)
	if err != nil {
		return nil, err
	}
	if l.Kind == Put || l.Kind == BatchPut || l.Kind == Mixed {
		s.readable.Store(s.next.Load())
	}
	out := gather(workers, before, after)
	out.KeysEach = s.keys(l.Kind)
	if probe != nil {
		if out.Probed, err = probe.end(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func gather(workers []*worker, before, after figures.Reading) *Outcome {
	out := &Outcome{Used: figures.Between(before, after), RSSBytes: after.RSSBytes, Threads: after.Threads, Refused: map[wire.ErrorCode]int64{}}
	for _, w := range workers {
		out.Operations += w.operations
		out.Times.Merge(&w.times)
		for code, n := range w.refused {
			out.Refused[code] += n
		}
	}
	return out
}

func (w *worker) loop(more func() bool, l Load) error {
	step := w.step(l.Kind)
	if step == nil {
		return fmt.Errorf("%q is no load", l.Kind)
	}
	if l.Pause > 0 { // its calls and pauses keep the thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for more() {
		if l.Pause > 0 {
			blocking.Pause(l.Pause)
		}
		if err := step(); err != nil {
			return err
		}
		w.operations++
	}
	return nil
}
