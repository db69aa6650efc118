package master

import "mooncake/wire"

// errand is a task that this master itself asked for, and what is to be known when it ends.
type errand struct {
	task, client wire.UUID
	size         uint64
	from         string   // of a move
	to           []string // segments that get a copy
}

// hear takes up how errands ended. What is over is taken off the book; ended is told, and whether it was done.
func hear[K comparable](tasks *taskBook, active map[K]errand, ended func(key K, e errand, done bool)) {
	for key, e := range active {
		t, known := tasks.query(e.task)
		done := known && t.Status == wire.TaskStatusSuccess
		if known && !done && t.Status != wire.TaskStatusFailed {
			continue
		}
		delete(active, key)
		ended(key, e, done)
	}
}

// purpose says that the master itself wants a copy: of what, and whether because it is read much.
type purpose struct {
	key string
	hot bool
}

// purposeOf tells whether a copy of an object that is under way was asked for by the master itself.
func (b *taskBook) purposeOf(key string) (p purpose, own bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.own[key]; t != nil {
		return t.purpose, true
	}
	return p, false
}

// disown forgets what a task that is over was for.
func (b *taskBook) disown(t *task) {
	if b.own[t.purpose.key] == t {
		delete(b.own, t.purpose.key)
	}
}
