package metrics

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"mooncake/internal/limits"
)

// callSeries lists the remote calls that have series of their own, and the middle of their names.
var callSeries = []struct{ call, series string }{
	{"ExistKey", "exist_key"},
	{"PutStart", "put_start"},
	{"PutEnd", "put_end"},
	{"PutRevoke", "put_revoke"},
	{"GetReplicaList", "get_replica_list"},
	{"GetReplicaListByRegex", "get_replica_list_by_regex"},
	{"Remove", "remove"},
	{"RemoveByRegex", "remove_by_regex"},
	{"RemoveAll", "remove_all"},
	{"MountSegment", "mount_segment"},
	{"UnmountSegment", "unmount_segment"},
	{"ReMountSegment", "remount_segment"},
	{"Ping", "ping"},
	{"CopyStart", "copy_start"},
	{"CopyEnd", "copy_end"},
	{"CopyRevoke", "copy_revoke"},
	{"MoveStart", "move_start"},
	{"MoveEnd", "move_end"},
	{"MoveRevoke", "move_revoke"},
	{"EvictDiskReplica", "evict_disk_replica"},
	{"CreateCopyTask", "create_copy_task"},
	{"CreateMoveTask", "create_move_task"},
	{"MarkTaskToComplete", "update_task"},
	{"QueryTask", "query_task"},
	{"FetchTasks", "fetch_tasks"},
}

// batchSeries is the same for calls about many keys, which count items too.
var batchSeries = []struct{ call, series string }{
	{"BatchExistKey", "batch_exist_key"},
	{"BatchQueryIp", "batch_query_ip"},
	{"BatchReplicaClear", "batch_replica_clear"},
	{"BatchGetReplicaList", "batch_get_replica_list"},
	{"BatchPutStart", "batch_put_start"},
	{"BatchPutEnd", "batch_put_end"},
	{"BatchPutRevoke", "batch_put_revoke"},
}

// CallCounts are the counters of one remote call.
type CallCounts struct {
	Requests    uint64 // calls received
	Failures    uint64 // calls in which everything failed
	Partial     uint64 // batches in which some items failed
	Items       uint64 // items of all batches
	FailedItems uint64 // items that failed
}

// CallCounter counts the calls of one name.
type CallCounter struct {
	requests, failures, partial, items, failedItems atomic.Uint64
}

// read loads what is counted last first, so that failures are never more than calls.
func (c *CallCounter) read() CallCounts {
	n := CallCounts{FailedItems: c.failedItems.Load(), Failures: c.failures.Load(), Partial: c.partial.Load()}
	n.Items = c.items.Load()
	n.Requests = c.requests.Load()
	return n
}

// Calls counts remote calls by name, look-ups of replica lists, and the sizes of values. Make one with NewCalls.
type Calls struct {
	named map[string]*CallCounter // never changes after NewCalls

	mu     sync.RWMutex
	others map[string]*CallCounter // calls without series of their own

	lookups, hits, hitBytes atomic.Uint64
	diskHits, diskHitBytes  atomic.Uint64

	strange strangers

	exists, batchExists atomic.Uint64 // puts of keys that were there already

	refusedMu sync.Mutex
	refused   map[string]uint64 // by the name of the code

	sizeCounts [len(sizeBuckets) + 1]atomic.Uint64
	sizeSum    atomic.Uint64
}

// sizeBuckets are the upper bounds of the value size histogram, in bytes.
var sizeBuckets = [...]uint64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}

// NewCalls returns counters that stand at zero.
func NewCalls() *Calls {
	c := &Calls{named: map[string]*CallCounter{}, others: map[string]*CallCounter{}}
	for _, s := range slices.Concat(callSeries, batchSeries) {
		c.named[s.call] = &CallCounter{}
	}
	return c
}

func (c *Calls) counters(name string) *CallCounter {
	if n := c.named[name]; n != nil {
		return n
	}
	c.mu.RLock()
	n := c.others[name]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.others[name]; n != nil {
		return n
	}
	if len(c.others) >= limits.MetricsOtherCalls {
		name = "other"
	}
	if n = c.others[name]; n == nil {
		n = &CallCounter{}
		c.others[name] = n
	}
	return n
}

// Named gives the counter of a call that has series of its own, for who counts often; nil for any other.
func (c *Calls) Named(name string) *CallCounter { return c.named[name] }

// Count counts one call about one thing.
func (c *Calls) Count(name string, failed bool) { c.counters(name).Count(failed) }

// CountBatch counts one call about many items, of which failed did not succeed.
func (c *Calls) CountBatch(name string, items, failed int) {
	c.counters(name).CountBatch(items, failed)
}

// Count counts one call about one thing.
func (n *CallCounter) Count(failed bool) {
	n.requests.Add(1)
	if failed {
		n.failures.Add(1)
	}
}

// CountBatch counts one call about many items, of which failed did not succeed.
func (n *CallCounter) CountBatch(items, failed int) {
	n.requests.Add(1)
	n.items.Add(uint64(items))
	switch {
	case failed == 0:
		return
	case failed == items:
		n.failures.Add(1)
	default:
		n.partial.Add(1)
	}
	n.failedItems.Add(uint64(failed))
}

// CountLookup counts the look-up of one key's replica list, and the object's size if one was found: in memory, or on disk
// only.
func (c *Calls) CountLookup(found, onDisk bool, sizeBytes uint64) {
	var one Lookups
	one.Count(found, onDisk, sizeBytes)
	c.CountLookups(&one)
}

// Lookups gathers the look-ups of one call. The zero value is empty.
type Lookups struct{ asked, hits, hitBytes, diskHits, diskHitBytes uint64 }

// Count is Calls.CountLookup into the gathered.
func (l *Lookups) Count(found, onDisk bool, sizeBytes uint64) {
	l.asked++
	switch {
	case found && onDisk:
		l.hits++
		l.diskHits++
		l.diskHitBytes += sizeBytes
	case found:
		l.hits++
		l.hitBytes += sizeBytes
	}
}

// CountLookups counts what was gathered.
func (c *Calls) CountLookups(l *Lookups) {
	for _, x := range [...]struct {
		to *atomic.Uint64
		n  uint64
	}{{&c.lookups, l.asked}, {&c.hits, l.hits}, {&c.hitBytes, l.hitBytes}, {&c.diskHits, l.diskHits}, {&c.diskHitBytes, l.diskHitBytes}} {
		if x.n > 0 {
			x.to.Add(x.n)
		}
	}
}

// CountExists counts a put, or the item of a batch of puts, whose key was there already.
func (c *Calls) CountExists(batch bool) {
	if batch {
		c.batchExists.Add(1)
		return
	}
	c.exists.Add(1)
}

// CountRefusal counts a call, or an item of one, that was answered with an error code of that name.
func (c *Calls) CountRefusal(code string) {
	c.refusedMu.Lock()
	defer c.refusedMu.Unlock()
	if _, known := c.refused[code]; !known && len(c.refused) >= limits.MetricsRefusalCodes {
		code = "other"
	}
	if c.refused == nil {
		c.refused = map[string]uint64{}
	}
	c.refused[code]++
}

// CallTotals are sums over all calls.
type CallTotals struct{ Calls, Refused, LookUps, Hits uint64 }

// Totals adds up what was counted.
func (c *Calls) Totals() (t CallTotals) {
	for _, n := range c.named {
		t.Calls += n.requests.Load()
	}
	for _, n := range c.otherCalls() {
		t.Calls += n.Requests
	}
	for _, n := range c.refusals() {
		t.Refused += n
	}
	t.LookUps, t.Hits = c.lookups.Load(), c.hits.Load()
	return t
}

// refusals returns what CountRefusal counted.
func (c *Calls) refusals() map[string]uint64 {
	c.refusedMu.Lock()
	defer c.refusedMu.Unlock()
	return maps.Clone(c.refused)
}

// ObserveValue puts the size of a value whose put has been started into the histogram.
func (c *Calls) ObserveValue(sizeBytes uint64) {
	i := 0
	for i < len(sizeBuckets) && sizeBytes > sizeBuckets[i] {
		i++
	}
	c.sizeCounts[i].Add(1)
	c.sizeSum.Add(sizeBytes)
}

// Read returns the counters of one call; zeros for a name that was never counted.
func (c *Calls) Read(name string) CallCounts {
	if n := c.named[name]; n != nil {
		return n.read()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := c.others[name]; n != nil {
		return n.read()
	}
	return CallCounts{}
}

// otherCalls returns the calls without series of their own, sorted by name.
func (c *Calls) otherCalls() []namedCounts {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []namedCounts
	for _, name := range slices.Sorted(maps.Keys(c.others)) {
		out = append(out, namedCounts{name, c.others[name].read()})
	}
	return out
}

type namedCounts struct {
	name string
	CallCounts
}
