package master

import (
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// thrift gives memory back to the system once much of what the catalog held is free and it has come to rest. While objects
// come and go the memory is kept: it will be wanted again, and taking it anew costs more than keeping it.
type thrift struct {
	giveBack func() // blocks for some milliseconds

	peak  uint64 // most that was held since the last time
	held  uint64 // as last seen
	since catalog.Time
}

// look is told, every now and then, how many bytes the records of the catalog hold.
func (t *thrift) look(now catalog.Time, held uint64) {
	t.peak = max(t.peak, held)
	if held != t.held {
		t.held, t.since = held, now
		return
	}
	if free := t.peak - held; free < limits.ThriftBytes || free < t.peak/limits.ThriftShare || now-t.since < limits.ThriftRestMs {
		return
	}
	t.giveBack()
	t.peak, t.since = held, now
}
