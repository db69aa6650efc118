package catalog

// An ObjectEvent says that an object can be read from now on, or that it is gone: from memory, or from disk.
type ObjectEvent struct {
	Gone       bool
	Disk       bool
	Key, Group string // valid until the function returns that is told
}

// OnObject sets a function that is told of objects that come and go. It is called under the writer's lock, as the decision
// takes effect, and must not call the Catalog. It must be set before the first call and after Recover. Copies beside others of
// their kind are not told of, nor is it that a silent client's are out of sight.
func (c *Catalog) OnObject(f func(ObjectEvent)) { c.s.tell = f }

// OnlyWhenHeard sets a function that tells whether anybody is told of objects at the moment; without it, somebody always is. Where
// nobody is, all objects can go at once. It is called like that of OnObject.
func (c *Catalog) OnlyWhenHeard(f func() bool) { c.heard = f }

// came and went tell of an object in memory; went must be called before it goes, and is silent about an unfinished one.
func (s *state) came(n name) {
	if s.tell != nil {
		r := s.record(n)
		s.tell(ObjectEvent{Key: r.key(), Group: s.groupOf(r)})
	}
}

func (s *state) went(n name) {
	if s.tell != nil && s.hasComplete(n) {
		r := s.record(n)
		s.tell(ObjectEvent{Gone: true, Key: r.key(), Group: s.groupOf(r)})
	}
}

// onDisk tells of an object on disk that had complete copies or not, and has now.
func (s *state) onDisk(key string, had, has bool) {
	if s.tell != nil && had != has {
		s.tell(ObjectEvent{Gone: had, Disk: true, Key: key})
	}
}

// complete tells whether an object has a complete copy on disk.
func (d *diskObject) complete() bool {
	for i := range d.copies {
		if !d.copies[i].open {
			return true
		}
	}
	return false
}
