package replication

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// core collects decisions into records and knows how far they are durable. Its owner takes one record after another and
// says when each is kept; where, the core does not know.
type core struct {
	wake    chan struct{} // holds one item while somebody waits for something to be written
	stir    chan struct{} // holds one item when something was appended, for which nobody may wait
	failed  chan struct{} // closed with the first error
	durable atomic.Uint64
	settled func(number uint64)
	stats   counters
	bounded bool // records have a limited size: see batch.isFull
	// repeat tells what the record after one that is complete repeats. It is called once for each, in their order.
	repeat func(b *batch) (since uint64, before []Grant)

	mu      sync.Mutex
	full    []*batch // as large as they may be, oldest first
	waiting int      // bytes in them
	undone  int      // decisions that are not durable
	open    *batch
	spare   *batch
	written chan struct{} // closed, and made anew, when durable grows or the log fails
	wanted  uint64        // the newest record that somebody waits for
	after   []afterwards
	err     error
}

// afterwards is what somebody wants done once a record is durable.
type afterwards struct {
	number uint64
	do     func()
}

func newCore() core {
	return core{
		open: new(batch), spare: new(batch), wake: make(chan struct{}, 1), stir: make(chan struct{}, 1),
		failed: make(chan struct{}), written: make(chan struct{}),
	}
}

// Append adds a decision of the catalog to the record that is being collected and returns the record's number. It waits
// for nothing and keeps no reference to changes. After a failure the number is one that never becomes durable.
func (c *core) Append(changes []catalog.Change) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bounded && c.err == nil {
		for len(changes) > 1 && c.open.mustSplit(changes) {
			c.open.addChanges(changes[:1])
			changes = changes[1:]
			if c.open.isHuge() {
				c.closeOpen()
			}
		}
	}
	c.open.addChanges(changes)
	return c.appended()
}

// AppendName is Append for a step of the metadata server.
func (c *core) AppendName(n NameChange) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.addName(&n)
	return c.appended()
}

func (c *core) appended() uint64 {
	number := c.open.number
	c.open.appends++
	c.undone++
	switch {
	case c.err != nil:
		c.open.start(number, number, nil) // nobody will read it
		c.open.buf = c.open.buf[:headerBytes]
		return number
	case c.bounded && c.open.isFull():
		c.closeOpen()
		tell(c.wake)
	}
	tell(c.stir)
	return number
}

// tell leaves a word in a channel that holds one, unless there is one already.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// press notes that somebody waits for a record. The caller holds the lock.
func (c *core) press(number uint64) {
	c.wanted = max(c.wanted, number)
	tell(c.wake)
}

// pressing tells whether a record should be written now, and left whether anything is there to be.
func (c *core) pressing() (pressing, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.full) > 0 || c.wanted > c.durable.Load(), len(c.full) > 0 || !c.open.empty()
}

// lazily is when what nobody waits for is written: until then it travels with the next thing that somebody does.
func lazily() <-chan time.Time { return time.After(limits.LogLazyMs * time.Millisecond) }

// closeOpen begins the next record.
func (c *core) closeOpen() {
	b := c.open
	c.full = append(c.full, b)
	c.waiting += len(b.buf)
	if c.open, c.spare = c.spare, nil; c.open == nil {
		c.open = new(batch)
	}
	since, before := c.repeat(b)
	c.open.start(b.number+1, since, before)
}

// take gives the oldest record that holds something; nil when none does.
func (c *core) take() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.full) > 0 {
		b := c.full[0]
		c.full = c.full[1:]
		c.waiting -= len(b.buf)
		return b
	}
	if c.open.empty() {
		return nil
	}
	b := c.open
	if c.open, c.spare = c.spare, nil; c.open == nil {
		c.open = new(batch)
	}
	since, before := c.repeat(b)
	c.open.start(b.number+1, since, before)
	return b
}

// done notes that a record that was taken is durable, and tells whoever waits for it.
func (c *core) done(b *batch) {
	if c.settled != nil {
		c.settled(b.number)
	}
	c.mu.Lock()
	if c.spare = b; cap(b.buf) > limits.LogKeepBytes {
		b.buf = nil
	}
	c.durable.Store(b.number)
	c.undone -= b.appends
	close(c.written)
	c.written = make(chan struct{})
	ready := 0
	for ready < len(c.after) && c.after[ready].number <= b.number {
		ready++
	}
	do := c.after[:ready:ready]
	c.after = c.after[ready:]
	c.mu.Unlock()
	for _, a := range do {
		a.do()
	}
}

// Last is the number of the newest record that holds anything, written or not.
func (c *core) Last() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open.empty() && (c.err == nil || c.err == errClosed) {
		return c.open.number - 1
	}
	return c.open.number // after a failure: one that never becomes durable
}

// undurable counts the decisions that are not durable.
func (c *core) undurable() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.undone)
}

// Durable is the number of the newest durable record.
func (c *core) Durable() uint64 { return c.durable.Load() }

// Wait returns when the record of a number is durable, with ErrFailed when it will never be, or with the reason of ctx.
func (c *core) Wait(ctx context.Context, number uint64) error {
	for c.durable.Load() < number {
		c.mu.Lock()
		err, written := c.err, c.written
		c.press(number)
		c.mu.Unlock()
		if c.durable.Load() >= number {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-written:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// After calls do once the record of a number is durable: at once, or on the goroutine of Run, which do must not keep. It
// is never called when the log fails before.
func (c *core) After(number uint64, do func()) {
	c.mu.Lock()
	if c.durable.Load() < number {
		if c.err == nil {
			c.after = append(c.after, afterwards{number, do})
			c.press(number)
		}
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	do()
}

// Room waits until there is room for another decision: whoever is about to make one calls it before. It bounds what waits
// to be written.
func (c *core) Room(ctx context.Context) error {
	for {
		c.mu.Lock()
		pending, err, written := len(c.open.buf)+c.waiting, c.err, c.written
		if pending >= limits.LogPendingBytes {
			c.press(c.open.number)
		}
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case pending < limits.LogPendingBytes:
			return nil
		}
		select {
		case <-written:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// OnDurable sets a function that is told how far the log is durable, before anybody who waits for it. It must be set
// before Run.
func (c *core) OnDurable(f func(number uint64)) { c.settled = f }

// WaitDurable is Wait without an end but the log's own.
func (c *core) WaitDurable(number uint64) error { return c.Wait(context.Background(), number) }

// Failed is closed when the log cannot be written any more. Err tells why.
func (c *core) Failed() <-chan struct{} { return c.failed }

// Err is why the log failed; nil as long as it has not.
func (c *core) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end ends the life of the log: what waits is told, and nothing is accepted any more. Without an error it was ended on
// purpose.
func (c *core) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errClosed
	if err != nil {
		c.err = err
		close(c.failed)
	}
	c.after = nil
	close(c.written)
	c.written = make(chan struct{})
	return err
}

var errClosed = errors.New("the journal is closed")
