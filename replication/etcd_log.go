package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// ErrDeposed says that another master leads, or may: nothing must be answered any more.
var ErrDeposed = errors.New("this master does not lead any more")

// Term is the log of a leader while he leads. Each record is one key in etcd, written by a transaction that does nothing
// once the leader's key is another's; one transaction is under way at a time, and carries everything that was decided
// while the one before was.
type Term struct {
	core
	shelf
	self          string
	secret        Secret
	created       int64 // revision at which the leader's key was made: it names the term
	lease         int64
	ttl           time.Duration
	compact       bool
	harm          Harm  // that the log had taken
	snapshotBytes int64 // written since the last snapshot before the next is made

	damaged atomic.Bool   // the log is, and was repaired in memory only
	bound   atomic.Int64  // answers may be given until then, in nanoseconds of bootTime
	nudge   chan struct{} // holds one item when there is something to tidy up

	mu      sync.Mutex // guards renewed and harm
	renewed chan struct{}
	deposed chan struct{} // closed once; see depose
	once    sync.Once
	keeper  keeper

	renewals  sync.WaitGroup
	unrenewed context.CancelFunc // nil before the lease is kept
}

// echo is what the records of a term repeat: the grants of the records before, so that the loss of a few can be told.
type echo struct {
	lately []granted
	total  int64 // bytes of records
}

// after notes a record that is complete and gives what the next repeats.
func (e *echo) after(b *batch) (since uint64, before []Grant) {
	e.total += int64(padded(uint32(len(b.buf) - headerBytes)))
	e.lately = noted(e.lately, b.number, e.total, b.granted)
	return e.grants(b.number + 1)
}

// grants gives what the record of a number repeats.
func (e *echo) grants(number uint64) (since uint64, before []Grant) {
	for i := len(e.lately) - 1; i >= 0 && e.lately[i].number+1 == number; i-- {
		number = e.lately[i].number
		before = append(before, e.lately[i].grants...)
	}
	return number, before
}

// bootTime is a clock that also counts while the machine sleeps.
func bootTime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return time.Now().UnixNano() // a kernel without that clock
	}
	return ts.Nano()
}

func newTerm(s shelf, created, lease int64, ttl time.Duration, h *History, sent int64, cfg *MemberConfig) *Term {
	last := h.Last
	t := &Term{
		core: newCore(), shelf: s, self: cfg.Address, created: created, lease: lease, ttl: ttl, compact: cfg.Compact, snapshotBytes: cfg.SnapshotBytes,
		secret: cfg.secret,
		nudge:  make(chan struct{}, 1), renewed: make(chan struct{}), deposed: make(chan struct{}),
	}
	t.bounded = true
	t.durable.Store(last)
	echo := echo{h.lately, h.bytes}
	t.repeat = echo.after
	since, before := echo.grants(last + 1)
	t.open.start(last+1, since, before)
	if h.anew {
		t.open.addAnew()
		tell(t.wake)
	}
	t.keeper.wrote.Store(h.bytes)
	if h.repaired {
		t.damaged.Store(true)
		t.poke() // it is written down at once
	}
	t.harm = Harm{h.BadValues, h.Lost, h.DroppedBy}
	t.extend(sent)
	return t
}

// extend notes that the lease was renewed by a call that was sent at a time.
func (t *Term) extend(sent int64) {
	t.bound.Store(sent + int64(t.ttl) - limits.LeaderMarginMs*int64(time.Millisecond))
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.renewed)
	t.renewed = make(chan struct{})
}

// depose ends the term.
func (t *Term) depose() { t.once.Do(func() { close(t.deposed) }) }

// Abandon ends the term without waiting for etcd: what was not written is not acknowledged.
func (t *Term) Abandon() { t.depose() }

// Deposed is closed when the term has ended, whatever for.
func (t *Term) Deposed() <-chan struct{} { return t.deposed }

// Created is the number of the term.
func (t *Term) Created() int64 { return t.created }

// Leads tells whether an answer may be given right now.
func (t *Term) Leads() bool {
	select {
	case <-t.deposed:
		return false
	default:
		return t.boot() < t.bound.Load()
	}
}

// WaitLeading returns when an answer may be given: at once, unless etcd was not heard for most of the lease's time. Then
// another may lead already, and only etcd can tell. ErrDeposed means that one does.
func (t *Term) WaitLeading(ctx context.Context) error {
	for {
		t.mu.Lock()
		renewed := t.renewed
		t.mu.Unlock()
		if t.Leads() {
			return nil
		}
		select {
		case <-t.deposed:
			return ErrDeposed
		case <-renewed:
		case <-ctx.Done():
			return ErrDeposed
		}
	}
}

// Run writes what is appended until ctx ends, and then what is left. It renews the lease meanwhile. ErrDeposed means that
// another leads. It must be called once.
func (t *Term) Run(ctx context.Context) error {
	beside, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	defer t.endLease() // the last record is written by then
	others.Go(func() { t.tidyUp(beside) })
	flushing, endFlushing := context.WithCancel(context.Background())
	defer endFlushing()
	defer context.AfterFunc(ctx, func() { // records under way have so long
		_ = pause(flushing, limits.LogFlushMs*time.Millisecond)
		endFlushing()
	})()
	before := pace{crowd: 1}
	var lazy <-chan time.Time
	for {
		stopping := false
		select {
		case <-t.stir:
			if lazy == nil {
				lazy = lazily()
			}
			continue
		case <-lazy:
		case <-t.wake:
		case <-ctx.Done():
			stopping = true
		case <-t.deposed:
			return t.end(ErrDeposed)
		}
		if lazy = nil; !stopping {
			t.gather(ctx, before)
		}
		for b := t.take(); b != nil; b = t.take() {
			var err error
			if before, err = t.timed(flushing, b); err != nil {
				t.depose()
				return t.end(err)
			}
			pressing, left := t.pressing()
			if !pressing && left && !stopping {
				lazy = lazily()
				break
			}
			if pressing && !stopping {
				t.gather(ctx, before)
			}
		}
		if stopping {
			return t.end(nil)
		}
	}
}

// pace is what the last transaction tells of the next.
type pace struct {
	crowd int           // decisions that were written with it, and those that waited when it ended: whose callers may all come again
	took  time.Duration // that it was under way
}

// timed writes a record and tells how that went.
func (t *Term) timed(ctx context.Context, b *batch) (pace, error) {
	began, crowd := time.Now(), b.appends
	err := t.commit(ctx, b)
	return pace{crowd + t.appends(), time.Since(began)}, err
}

// gather waits a moment for others, where several came with the record before: it takes them all along in one transaction
// instead of a part of them in each of two. That ends when all are there or a record is full, when nobody has come for a
// while, and after half the time that a transaction takes. Who writes alone is not held up.
func (t *Term) gather(ctx context.Context, before pace) {
	if before.crowd < 2 || t.complete(before.crowd) {
		return
	}
	const silence = limits.LogLingerUs * time.Microsecond
	end := time.NewTimer(min(max(before.took/2, silence), limits.LogLingerMaxUs*time.Microsecond))
	defer end.Stop()
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for !t.complete(before.crowd) {
		select {
		case <-t.wake:
		case <-t.stir:
		case <-end.C:
			return
		case <-quiet.C:
			return
		case <-ctx.Done():
			return
		}
		quiet.Reset(silence)
	}
}

// complete tells whether so many decisions wait, or a record takes no more.
func (c *core) complete(crowd int) bool {
	c.mu.Lock()
	full := len(c.full) > 0
	c.mu.Unlock()
	return full || c.appends() >= crowd
}

// appends counts the decisions that wait.
func (c *core) appends() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.open.appends
	for _, b := range c.full {
		n += b.appends
	}
	return n
}

// commit writes a record. It repeats the same transaction until its outcome is known: one without an answer may have
// taken effect, and then the key is there with these very bytes.
func (t *Term) commit(ctx context.Context, b *batch) error {
	began := time.Now()
	value := packValue(append(append(make([]byte, 0, len(valueHead)+len(b.buf)+recordAlign), valueHead...), b.seal(uint64(t.created))...))
	key := t.keys.log(b.number)
	conditions := []etcdkv.Condition{t.fence(), {Key: key}}
	then, otherwise := []etcdkv.Op{etcdkv.Put(key, value, 0)}, []etcdkv.Op{etcdkv.Get(key)}
	for {
		out, err := t.etcd.Txn(ctx, conditions, then, otherwise)
		switch {
		case err == nil && (out.Done || len(out.Got[0]) == 1 && bytes.Equal(out.Got[0][0].Value, value)):
			t.fills(false)
			t.stats.wrote(len(value), time.Since(began))
			t.keeper.noteRecord(key, value)
			t.done(b)
			if b.number%limits.LogTidyRecords == 0 {
				t.poke()
			}
			return nil
		case err == nil:
			return ErrDeposed
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the last records could not be written: %w", ErrFailed, err)
		}
		select {
		case <-t.deposed:
			return ErrDeposed
		default:
		}
		if errors.Is(err, ErrFull) {
			t.fills(true)
		}
		t.rare.Warn("etcd takes no record: nothing is acknowledged until it does", zap.String("action", "log_stalled"), zap.Uint64("record", b.number), zap.Error(err))
		_ = pause(ctx, limits.LogRetryMs*time.Millisecond) // the next try tells
	}
}

// fence is the condition that this term has not ended.
func (t *Term) fence() etcdkv.Condition {
	return etcdkv.Condition{Key: t.keys.leader, Created: t.created}
}

func (t *Term) poke() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

// keepLease renews the lease from the moment at which it is the leader's until Run returns, or the term is over without
// that: between the two the catalog is made ready, which takes longer the more there is in it.
func (t *Term) keepLease() {
	ctx, cancel := context.WithCancel(context.Background())
	t.unrenewed = cancel
	t.renewals.Go(func() { t.renew(ctx) })
}

// endLease ends the renewing and waits for that.
func (t *Term) endLease() {
	if t.unrenewed != nil {
		t.unrenewed()
	}
	t.renewals.Wait()
}

// renew keeps the lease alive.
func (t *Term) renew(ctx context.Context) {
	wait := time.Duration(0) // the lease may have been drawn a while before it was needed
	for pause(ctx, wait) {
		sent := t.boot()
		err := t.etcd.KeepAlive(ctx, t.lease)
		wait = t.ttl / limits.LeaderRenewals
		switch {
		case err == nil:
			t.extend(sent)
		case errors.Is(err, etcdkv.ErrNoLease):
			t.shelf.log.Error("the leader's lease has ended", zap.String("action", "lease_lost"), zap.Int64("term", t.created))
			t.depose()
			return
		case ctx.Err() == nil:
			t.rare.Warn("the leader's lease was not renewed", zap.String("action", "lease_not_renewed"), zap.Error(err))
			wait = limits.LogRetryMs * time.Millisecond
		}
	}
}

// Resign gives the leader's key back, so that another can lead at once. Run must have returned.
func (t *Term) Resign(ctx context.Context) error {
	t.depose()
	_, err := t.etcd.Txn(ctx, []etcdkv.Condition{t.fence()}, []etcdkv.Op{etcdkv.Delete(t.keys.leader)}, nil)
	return errors.Join(err, t.etcd.Revoke(ctx, t.lease))
}

// Close ends nothing more: the connections are the Member's.
func (t *Term) Close() error { return nil }

// Stats returns the present figures.
func (t *Term) Stats() Stats {
	c := &t.stats
	t.mu.Lock()
	harm := t.harm
	t.mu.Unlock()
	return Stats{
		Last: t.Last(), Durable: t.Durable(), Records: c.records.Load(), Bytes: c.bytes.Load(), WriteTime: time.Duration(c.nanos.Load()),
		Snapshots: c.snapshots.Load(), SnapshotErrors: c.snapshotErrors.Load(), SnapshotTimes: c.times(), SnapshotBytes: uint64(t.keeper.snapshotBytes.Load()),
		Harm: harm, Unacked: t.undurable(), Failed: t.Err() != nil && t.Err() != errClosed,
	}
}
