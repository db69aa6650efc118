package catalog

import (
	"cmp"
	"slices"
)

// WorkloadStat is what a workload has, and what became of its objects and puts. The last one of a list has no name: it
// stands for all objects that no rule fits. The counters only grow, as long as the workload keeps its name.
type WorkloadStat struct {
	Workload
	Keys  uint64 // objects, unfinished ones included, lost ones not
	Bytes uint64 // of their replicas

	EvictedKeys       uint64 // to make room, whoever needed it
	EvictedBytes      uint64
	EvictedUnreadKeys uint64 // of them, those of bundles that nobody had read
	ExpiredKeys       uint64 // at the end of TTLMs
	ExpiredBytes      uint64
	Refusals          Refusals // of the workload's own puts

	// EvictedFor tells for whom its objects were evicted, the watermark first, then by name; Workload is "" for puts that no
	// rule fits.
	EvictedFor []EvictedFor
}

// EvictedFor is what one workload lost because of another, or itself.
type EvictedFor struct {
	Workload  string
	Watermark bool // not a put, but the pool was fuller than the watermark, or a reservation had to be made room for
	Keys      uint64
	Bytes     uint64
}

// shareCounts are the counters of a share.
type shareCounts struct {
	evictedKeys, evictedBytes, evictedUnread uint64
	expiredKeys, expiredBytes                uint64
	refusals                                 Refusals
	evictedFor                               map[needer]*evictedSum
}

// A needer is who needed the room: the share of a put, or the watermark.
type needer uint16

const forWatermark needer = 1 << 8

type evictedSum struct{ keys, bytes uint64 }

// forget drops what is known of evictions for a share whose number will be another's.
func (sc *shareCounts) forget(number uint8) { delete(sc.evictedFor, needer(number)) }

// evicted counts one victim.
func (sc *shareCounts) evicted(by needer, bytes uint64, unread bool) {
	sc.evictedKeys++
	sc.evictedBytes += bytes
	if unread {
		sc.evictedUnread++
	}
	if sc.evictedFor == nil {
		sc.evictedFor = map[needer]*evictedSum{}
	}
	sum := sc.evictedFor[by]
	if sum == nil {
		sum = &evictedSum{}
		sc.evictedFor[by] = sum
	}
	sum.keys++
	sum.bytes += bytes
}

// WorkloadStats lists the workloads in the order of their names, and at the end, without a name, what no rule fits.
func (c *Catalog) WorkloadStats() []WorkloadStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.s.shares
	list := make([]WorkloadStat, 0, len(t.list))
	for i := range t.list {
		sh := &t.list[i]
		if i > 0 && !sh.ruled {
			continue
		}
		st := WorkloadStat{
			Workload: sh.rule.clone(), Keys: sh.keys - sh.lostKeys, Bytes: sh.used(),
			EvictedKeys: sh.counts.evictedKeys, EvictedBytes: sh.counts.evictedBytes, EvictedUnreadKeys: sh.counts.evictedUnread,
			ExpiredKeys: sh.counts.expiredKeys, ExpiredBytes: sh.counts.expiredBytes, Refusals: sh.counts.refusals,
		}
		for by, sum := range sh.counts.evictedFor {
			e := EvictedFor{Watermark: by == forWatermark, Keys: sum.keys, Bytes: sum.bytes}
			if !e.Watermark {
				e.Workload = t.list[by].rule.Name
			}
			st.EvictedFor = append(st.EvictedFor, e)
		}
		slices.SortFunc(st.EvictedFor, func(a, b EvictedFor) int {
			if a.Watermark != b.Watermark {
				if a.Watermark {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.Workload, b.Workload)
		})
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b WorkloadStat) int {
		if a.Name == "" || b.Name == "" {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return list
}

// countEvicted counts a victim for its workload.
func (c *Catalog) countEvicted(n name) {
	r := c.s.record(n)
	unread := r.unit != 0 && c.unread(r.unit)
	c.s.shares.list[r.share].counts.evicted(c.placer.needer, r.size*uint64(r.replicas), unread)
}
