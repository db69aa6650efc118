package catalog

import (
	"slices"

	"mooncake/internal/limits"
)

// The ages order what eviction may take, units and objects that belong to none, by the last thing known of each: a write
// or, as far as the eviction has noticed, a lease. There is one list per step of limits.AgeBucketMs. A read leaves its
// object where it stands; the eviction moves it to the list of its lease when it comes across it, so each lease costs
// one move at most.

type ageBucket struct {
	key        uint32
	head, tail name
}

// ages holds the lists in ascending order. Empty ones stay until there are too many.
type ages struct {
	list    uint8 // what node.list says of the members
	buckets []ageBucket
	empty   int
	count   int
}

// bucketOf gives the bucket of a time. Beyond TimeMax there is one for all, below the number that stands for none.
func bucketOf(at int64) uint32 {
	return uint32(min(max(at/limits.AgeBucketMs, 0), int64(wall)-1))
}

// find returns the place of the bucket with the key, or where it belongs. Most are asked for near the end.
func (a *ages) find(key uint32) (int, bool) {
	if n := len(a.buckets); n > 0 && a.buckets[n-1].key <= key {
		if a.buckets[n-1].key == key {
			return n - 1, true
		}
		return n, false
	}
	return slices.BinarySearchFunc(a.buckets, key, func(b ageBucket, key uint32) int {
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
	at, ok := a.find(key)
	if !ok {
		if a.empty > 64 && a.empty > len(a.buckets)/2 {
			a.tidy()
			at, _ = a.find(key)
		}
		a.buckets = slices.Insert(a.buckets, at, ageBucket{key: key})
		a.empty++
	}
	b := &a.buckets[at]
	x := s.node(n)
	x.list, x.bucket = a.list, key
	x.prev, x.next = b.tail, 0
	if b.tail != 0 {
		s.node(b.tail).next = n
	} else {
		b.head = n
		a.empty--
	}
	b.tail = n
	a.count++
}

// cut takes a node out.
func (a *ages) cut(s *state, n name) {
	x := s.node(n)
	if x.prev != 0 {
		s.node(x.prev).next = x.next
	}
	if x.next != 0 {
		s.node(x.next).prev = x.prev
	}
	if x.prev == 0 || x.next == 0 {
		at, _ := a.find(x.bucket)
		b := &a.buckets[at]
		if x.prev == 0 {
			b.head = x.next
		}
		if x.next == 0 {
			b.tail = x.prev
		}
		if b.head == 0 {
			a.empty++
		}
	}
	x.prev, x.next, x.list = 0, 0, listNone
	a.count--
}

// tidy drops the empty buckets.
func (a *ages) tidy() {
	a.buckets = slices.DeleteFunc(a.buckets, func(b ageBucket) bool { return b.head == 0 })
	a.empty = 0
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

// A walker goes through one of the ages, oldest first, up to a bucket. What it gave last may be moved to a later bucket
// before the next call.
type walker struct {
	list    *ages
	last    uint32 // no bucket after this one
	key     uint32 // bucket under way
	started bool
	pending name
}

func (w *walker) step(s *state) name {
	if w.pending == 0 {
		from := w.key
		if w.started {
			if from++; from == 0 {
				return 0
			}
		}
		at, _ := w.list.find(from)
		for at < len(w.list.buckets) && w.list.buckets[at].head == 0 {
			at++
		}
		if at == len(w.list.buckets) || w.list.buckets[at].key > w.last {
			return 0
		}
		w.started, w.key, w.pending = true, w.list.buckets[at].key, w.list.buckets[at].head
	}
	n := w.pending
	w.pending = s.node(n).next
	return n
}
