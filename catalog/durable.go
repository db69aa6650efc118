package catalog

// A Log makes decisions durable. Its methods may be called from any goroutine.
type Log interface {
	// Append takes a decision, before it takes effect, and numbers it. It is called under the writer's lock and must not
	// call the Catalog; the Changes are valid until it returns. Numbers do not fall; decisions may share one.
	Append(changes []Change) (number uint64)
	// WaitDurable returns when everything up to a number is durable, or why that will never be.
	WaitDurable(number uint64) error
}

// fresh remembers which objects were completed by decisions that are not durable yet. Readers wait for those: what they
// see must not be taken back by a crash. It belongs to the holder of Catalog.mu.
type fresh struct {
	queue []freshObject // in the order of numbers
	head  int
	done  uint64 // everything up to this number is durable
}

type freshObject struct {
	number uint64
	hash   uint64
	record name
}

// SetLog makes every decision go through a log. It must be set before the first call and after Recover. Whoever made a
// decision has to wait for the log before he tells anybody of it, and Settled must be called as the log proceeds.
func (c *Catalog) SetLog(l Log) {
	c.log = l
	c.s.marksFresh = true
}

// Settled notes that everything up to a number is durable, and lets readers at what was completed by it. It must be
// called before WaitDurable returns for that number.
func (c *Catalog) Settled(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.fresh
	f.done = max(f.done, number)
	c.parting.settled(f.done)
	for f.head < len(f.queue) && f.queue[f.head].number <= number {
		c.showFresh(f.queue[f.head])
		f.head++
	}
	switch {
	case f.head == len(f.queue):
		f.queue, f.head = f.queue[:0], 0
	case f.head > len(f.queue)/2:
		f.queue, f.head = f.queue[:copy(f.queue, f.queue[f.head:])], 0
	}
}

// showFresh lets readers at an object, if it is still there. The hash leads to it, so a slot that was given back, or is
// another key's by now, is not touched.
func (c *Catalog) showFresh(o freshObject) {
	sh := c.s.shard(o.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for n, at := sh.table.first(o.hash); n != 0; n, at = sh.table.next(o.hash, at) {
		if n == o.record {
			c.s.record(n).flags &^= flagFresh
			return
		}
	}
}

// appended passes a decision to whoever keeps it, and returns its number.
func (c *Catalog) appended() (number uint64) {
	if c.onChange != nil {
		c.onChange(c.changes)
	}
	if c.log == nil {
		return 0
	}
	number = c.log.Append(c.changes)
	c.last.Store(number)
	c.notePartings(number)
	c.numberGrants(number)
	return number
}

// queueFresh lists what the decision under way completed.
func (c *Catalog) queueFresh(number uint64) {
	if len(c.s.completed) == 0 {
		return
	}
	f := &c.fresh
	for _, n := range c.s.completed {
		o := freshObject{number, c.s.hash(c.s.record(n).key()), n}
		if number <= f.done {
			c.showFresh(o) // the log was faster
		} else {
			f.queue = append(f.queue, o)
		}
	}
	c.s.completed = c.s.completed[:0]
}

// awaitDurable returns when everything decided so far is durable; false when the log cannot make it so.
func (c *Catalog) awaitDurable() bool {
	return c.log.WaitDurable(c.last.Load()) == nil
}
