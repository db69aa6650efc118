package segment

import (
	"maps"
	"slices"
	"sync"
	"time"

	"mooncake/metrics"
)

// callTimes counts the calls to the master and how long they took. Its lock is a leaf; a nil one counts nothing.
type callTimes struct {
	mu     sync.Mutex
	byName map[string]*metrics.ClientCall
}

func (c *callTimes) observe(name string, took time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = map[string]*metrics.ClientCall{}
	}
	call := c.byName[name] // the daemon makes some ten different ones
	if call == nil {
		call = &metrics.ClientCall{Name: name}
		c.byName[name] = call
	}
	micros, i := uint64(max(0, took.Microseconds())), 0
	for i < len(metrics.ClientBuckets) && micros > metrics.ClientBuckets[i] {
		i++
	}
	call.Counts[i]++
	call.SumMicros += micros
}

func (c *callTimes) list() (out []metrics.ClientCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		out = append(out, *c.byName[name])
	}
	return out
}
