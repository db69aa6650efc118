package catalog

import (
	"slices"

	"mooncake/internal/limits"
)

// The ages order what eviction may take, units and objects that belong to none, by the last thing known of each: a write
// or, as far as the eviction has noticed, a lease. There is one list per step of limits.AgeBucketMs. A read leaves its
// object where it stands; the eviction moves it to the list of its lease when it comes across it, so each lease costs
// one move at most. Every workload has ages of its own, so that those of one that must not be touched cost nothing.

type ageBucket struct {
	key        uint32
	head, tail name
}

// ages holds the lists of all shares.
type ages struct {
	list  uint8 // what node.list says of the members
	parts []agePart
	count int
}

// An agePart holds the lists of one share in ascending order. Empty ones stay until there are too many.
type agePart struct {
	buckets []ageBucket
	empty   int
	count   int
}

// bucketOf gives the bucket of a time. Clocks count from 1970, or from their own start in tests. Beyond TimeMax there is one
// bucket for all, below the number that stands for none.
func bucketOf(at int64) uint32 {
	if at >= limits.AgeEpochMs {
		at -= limits.AgeEpochMs
	}
	return uint32(min(max(at/limits.AgeBucketMs, 0), int64(wall)-1))
}

// find returns the place of the bucket with the key, or where it belongs. Most are asked for near the end.
func (p *agePart) find(key uint32) (int, bool) {
	if n := len(p.buckets); n > 0 && p.buckets[n-1].key <= key {
		if p.buckets[n-1].key == key {
			return n - 1, true
		}
		return n, false
	}
	return slices.BinarySearchFunc(p.buckets, key, func(b ageBucket, key uint32) int {
		switch {
		case b.key < key:
			return -1
		case b.key > key:
			return 1
		}
		return 0
	})
}

// add puts a node, which is in no list, at the end of its bucket.
func (a *ages) add(s *state, n name, key uint32) {
	x := s.node(n)
	for int(x.share) >= len(a.parts) {
		a.parts = append(a.parts, agePart{})
	}
	p := &a.parts[x.share]
	at, ok := p.find(key)
	if !ok {
		if p.empty > 64 && p.empty > len(p.buckets)/2 {
			p.tidy()
			at, _ = p.find(key)
		}
		p.buckets = slices.Insert(p.buckets, at, ageBucket{key: key})
		p.empty++
	}
	b := &p.buckets[at]
	x.list, x.bucket = a.list, key
	x.prev, x.next = b.tail, 0
	if b.tail != 0 {
		s.node(b.tail).next = n
	} else {
		b.head = n
		p.empty--
	}
	b.tail = n
	p.count++
	a.count++
}

// cut takes a node out.
func (a *ages) cut(s *state, n name) {
	x := s.node(n)
	p := &a.parts[x.share]
	if x.prev != 0 {
		s.node(x.prev).next = x.next
	}
	if x.next != 0 {
		s.node(x.next).prev = x.prev
	}
	if x.prev == 0 || x.next == 0 {
		at, _ := p.find(x.bucket)
		b := &p.buckets[at]
		if x.prev == 0 {
			b.head = x.next
		}
		if x.next == 0 {
			b.tail = x.prev
		}
		if b.head == 0 {
			p.empty++
		}
	}
	x.prev, x.next, x.list = 0, 0, listNone
	p.count--
	a.count--
}

// tidy drops the empty buckets.
func (p *agePart) tidy() {
	p.buckets = slices.DeleteFunc(p.buckets, func(b ageBucket) bool { return b.head == 0 })
	p.empty = 0
}

// openList holds the records being written in the order in which the writes began.
type openList struct {
	head, tail name
	count      int
}

func (l *openList) add(s *state, n name) {
	x := s.node(n)
	x.list = listOpen
	x.prev, x.next = l.tail, 0
	if l.tail != 0 {
		s.node(l.tail).next = n
	} else {
		l.head = n
	}
	l.tail = n
	l.count++
}

func (l *openList) cut(s *state, n name) {
	x := s.node(n)
	if x.prev != 0 {
		s.node(x.prev).next = x.next
	} else {
		l.head = x.next
	}
	if x.next != 0 {
		s.node(x.next).prev = x.prev
	} else {
		l.tail = x.prev
	}
	x.prev, x.next, x.list = 0, 0, listNone
	l.count--
}

// A walker goes through one of the ages up to a bucket: first through the shares of its order that are to be the first,
// one after the other, then through all that its order does not shut, oldest first. What it gave last may be moved to a
// later bucket before the next call.
type walker struct {
	list  *ages
	last  uint32 // no bucket after this one
	order *order
	turn  int
	at    []agePlace // where it is in each share
}

// An agePlace is where a walker is in the ages of one share.
type agePlace struct {
	share   uint8
	started bool
	key     uint32 // bucket under way
	pending name   // the next one; 0 is none in this bucket
}

// load finds the next one of a share; false when there is none.
func (w *walker) load(p *agePlace) bool {
	if p.pending != 0 {
		return true
	}
	from := p.key
	if p.started {
		if from++; from == 0 {
			return false
		}
	}
	part := &w.list.parts[p.share]
	at, _ := part.find(from)
	for at < len(part.buckets) && part.buckets[at].head == 0 {
		at++
	}
	if at == len(part.buckets) || part.buckets[at].key > w.last {
		return false
	}
	p.started, p.key, p.pending = true, part.buckets[at].key, part.buckets[at].head
	return true
}

func (w *walker) step(s *state) name {
	for ; w.turn < len(w.order.turns); w.turn++ {
		share := w.order.turns[w.turn]
		for i := range w.at {
			if w.at[i].share == share && w.order.goesOn(s, share) && w.load(&w.at[i]) {
				return w.give(s, i)
			}
		}
	}
	if w.order.only {
		return 0
	}
	best := -1
	for i := range w.at {
		if !w.order.shut.has(w.at[i].share) && w.load(&w.at[i]) && (best < 0 || w.at[i].key < w.at[best].key) {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return w.give(s, best)
}

func (w *walker) give(s *state, i int) name {
	n := w.at[i].pending
	w.at[i].pending = s.node(n).next
	return n
}
