package etcdsim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// Link is the way of one client to a store, and what that client calls. It does what an etcdkv.Cluster of three members
// does: a call without an answer is made again.
type Link struct {
	store *Store

	seed uint64

	mu        sync.Mutex
	uses      map[string]uint64 // of each way
	dead      bool
	sendCut   bool
	answerCut bool
	slow      time.Duration // added to every way
	lossy     float64       // share of requests, and of answers, that get lost
	frozen    chan struct{} // nil: running; closed when it goes on
}

// tries is how many members a call is made on.
const tries = 3

var errDead = errors.New("etcdsim: the client is dead")

// Link makes a way to the store. What happens on it follows from the seed.
func (s *Store) Link(seed uint64) *Link {
	return &Link{store: s, seed: seed, uses: map[string]uint64{}}
}

// Kill ends the client: it sends and learns nothing any more. What it has sent still arrives.
func (l *Link) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	l.thaw()
}

// Cut drops what is sent to the store, or its answers and events, from now on.
func (l *Link) Cut(requests, answers bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendCut, l.answerCut = requests, answers
}

// Slow makes every way up to d longer, and loses a share of what is sent.
func (l *Link) Slow(d time.Duration, lossy float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow, l.lossy = d, lossy
}

// Freeze stops the client where it is, as SIGSTOP does: it goes on when Thaw is called.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil && !l.dead {
		l.frozen = make(chan struct{})
	}
}

// Thaw lets a frozen client go on.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thaw()
}

func (l *Link) thaw() {
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

// Pause returns when the client is not frozen.
func (l *Link) Pause() {
	for {
		l.mu.Lock()
		frozen := l.frozen
		l.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

// Frozen tells whether the client is stopped.
func (l *Link) Frozen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen != nil
}

// Dead tells whether the client was killed.
func (l *Link) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// way draws how long something is on its way, and whether it arrives. Calls of different names do not change each other's
// luck: which of them draws first is not known.
func (l *Link) way(name string, answer bool) (d time.Duration, arrives bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer {
		name = "answer to " + name
	}
	l.uses[name]++
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // it never fails
	dice := rand.New(rand.NewPCG(l.seed^hash.Sum64(), l.uses[name]))
	d = time.Duration(dice.Int64N(int64(time.Millisecond)))
	switch dice.IntN(400) {
	case 0: // it comes after its sender has given up
		d += time.Duration(dice.Int64N(int64(4 * time.Second)))
	case 1, 2, 3, 4:
		d += time.Duration(dice.Int64N(int64(100 * time.Millisecond)))
	}
	if l.slow > 0 {
		d += time.Duration(dice.Int64N(int64(l.slow)))
	}
	cut := l.sendCut
	if answer {
		cut = l.answerCut
	}
	return d, !cut && dice.Float64() >= l.lossy
}

// call makes a call until it is answered. do runs once for every request that arrives.
func call[T any](ctx context.Context, l *Link, what string, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	var errs error
	for range tries {
		l.Pause()
		if ctx.Err() != nil {
			break
		}
		if l.Dead() {
			return none, errDead
		}
		answers := make(chan answer, 1)
		d, arrives := l.way(what, false)
		l.store.underWay.Go(func() { // nobody stops it: what is sent arrives
			time.Sleep(d)
			if !arrives {
				return
			}
			value, err := do()
			d, arrives := l.way(what, true)
			time.Sleep(d)
			if arrives {
				answers <- answer{value, err}
			}
		})
		a, err := await(ctx, answers)
		l.Pause()
		switch {
		case l.Dead():
			return none, errDead
		case err == nil && (a.err == nil || !errors.Is(a.err, errStalled)):
			return a.value, a.err
		case err == nil:
			err = a.err
		}
		errs = errors.Join(errs, fmt.Errorf("etcdsim: %s: %w", what, err))
	}
	return none, errors.Join(errs, ctx.Err())
}

// await waits for an answer as long as one try may take.
func await[A any](ctx context.Context, answers <-chan A) (a A, err error) {
	timer := time.NewTimer(limits.EtcdTryMs * time.Millisecond)
	defer timer.Stop()
	select {
	case a = <-answers:
		return a, nil
	case <-timer.C:
		return a, context.DeadlineExceeded
	case <-ctx.Done():
		return a, ctx.Err()
	}
}

// Txn does all of then when all conditions hold, and all of otherwise when not.
func (l *Link) Txn(ctx context.Context, conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (etcdkv.Outcome, error) {
	what := "transaction"
	for _, ops := range [][]etcdkv.Op{then, otherwise} {
		if len(ops) > 0 {
			what += " on " + ops[0].Key
		}
	}
	return call(ctx, l, what, func() (etcdkv.Outcome, error) { return l.store.txn(conditions, then, otherwise) })
}

// Range reads the keys from one up to, and without, another.
func (l *Link) Range(ctx context.Context, from, to string, p etcdkv.Page) (found []etcdkv.KV, more bool, revision int64, err error) {
	type page struct {
		found    []etcdkv.KV
		more     bool
		revision int64
	}
	got, err := call(ctx, l, fmt.Sprintf("range from %s, %+v", from, p), func() (page, error) {
		found, more, revision, err := l.store.ranged(from, to, p)
		return page{found, more, revision}, err
	})
	return got.found, got.more, got.revision, err
}

// Watch passes on what happens to a range until ctx ends, see returns an error, or the events are lost.
func (l *Link) Watch(ctx context.Context, from, to string, revision int64, see func(events []etcdkv.Event, revision int64) error) error {
	alive := time.NewTicker(limits.EtcdWatchProbeMs * time.Millisecond)
	defer alive.Stop()
	for {
		events, now, changed, err := l.store.since(from, to, revision)
		d, arrives := l.way("watch of "+from, true)
		if err == nil && (len(events) == 0 || !arrives) {
			select {
			case <-changed:
				continue
			case <-alive.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if len(events) > 0 || !arrives || now == 0 {
				continue
			}
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		l.Pause()
		if l.Dead() {
			return errDead
		}
		if err == nil {
			err = see(events, now)
		}
		if err != nil {
			return err
		}
		if len(events) > 0 {
			revision = events[len(events)-1].Modified + 1
		}
	}
}

// Grant makes a lease.
func (l *Link) Grant(ctx context.Context, ttl time.Duration) (lease int64, granted time.Duration, err error) {
	lease, err = call(ctx, l, "grant of a lease", func() (int64, error) { return l.store.grant(ttl) })
	return lease, ttl, err
}

// KeepAlive renews a lease once.
func (l *Link) KeepAlive(ctx context.Context, lease int64) error {
	_, err := call(ctx, l, "renewal of the lease", func() (struct{}, error) { return struct{}{}, l.store.keepAlive(lease) })
	return err
}

// Revoke ends a lease and its keys.
func (l *Link) Revoke(ctx context.Context, lease int64) error {
	_, err := call(ctx, l, "end of the lease", func() (struct{}, error) { return struct{}{}, l.store.revoke(lease) })
	return err
}

// Compact forgets the history before a revision.
func (l *Link) Compact(ctx context.Context, revision int64) error {
	_, err := call(ctx, l, "compaction", func() (struct{}, error) {
		l.store.mu.Lock()
		defer l.store.mu.Unlock()
		l.store.compact(revision)
		return struct{}{}, nil
	})
	return err
}

// Close ends nothing: a link has no connections.
func (l *Link) Close() error { return nil }
