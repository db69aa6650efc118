package catalog

import (
	"slices"

	"mooncake/internal/limits"
)

// The ages order records by the last thing known of each: its write or, as far as the eviction has noticed, its lease.
// There is one list per step of limits.AgeBucketMs. A read leaves its record where it stands; the eviction moves it to
// the list of its lease when it comes across it, so each lease costs one move at most.

type ageBucket struct {
	key        uint32
	head, tail name
}

// ages holds the lists in ascending order. Empty ones stay until they are at the front or too many.
type ages struct {
	list    uint8 // what record.list says of its members
	buckets []ageBucket
	empty   int
	count   int
}

func bucketOf(at int64) uint32 {
	return uint32(min(max(at/limits.AgeBucketMs, 0), 1<<32-1))
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

// add puts a record, which is in no list, at the end of its bucket.
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
	r := s.record(n)
	r.list, r.ageBucket = a.list, key
	r.agePrev, r.ageNext = b.tail, 0
	if b.tail != 0 {
		s.record(b.tail).ageNext = n
	} else {
		b.head = n
		a.empty--
	}
	b.tail = n
	a.count++
}

// cut takes a record out.
func (a *ages) cut(s *state, n name) {
	r := s.record(n)
	if r.agePrev != 0 {
		s.record(r.agePrev).ageNext = r.ageNext
	}
	if r.ageNext != 0 {
		s.record(r.ageNext).agePrev = r.agePrev
	}
	if r.agePrev == 0 || r.ageNext == 0 {
		at, _ := a.find(r.ageBucket)
		b := &a.buckets[at]
		if r.agePrev == 0 {
			b.head = r.ageNext
		}
		if r.ageNext == 0 {
			b.tail = r.agePrev
		}
		if b.head == 0 {
			a.empty++
		}
	}
	r.agePrev, r.ageNext, r.list = 0, 0, listNone
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
	r := s.record(n)
	r.list = listOpen
	r.agePrev, r.ageNext = l.tail, 0
	if l.tail != 0 {
		s.record(l.tail).ageNext = n
	} else {
		l.head = n
	}
	l.tail = n
	l.count++
}

func (l *openList) cut(s *state, n name) {
	r := s.record(n)
	if r.agePrev != 0 {
		s.record(r.agePrev).ageNext = r.ageNext
	} else {
		l.head = r.ageNext
	}
	if r.ageNext != 0 {
		s.record(r.ageNext).agePrev = r.agePrev
	} else {
		l.tail = r.agePrev
	}
	r.agePrev, r.ageNext, r.list = 0, 0, listNone
	l.count--
}
