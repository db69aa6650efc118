package master

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// Reader is an open connection over which members of a bundle were looked up less than a lease ago. A look-up does not say
// who makes it, so Clients are those that the connection has shown by other calls; a pure reader shows none.
type Reader struct {
	Address  netip.Addr
	Clients  []wire.UUID
	LastRead catalog.Time
}

// readings remembers the bundles that were last read over a connection. Members of a bundle are read one after another, so
// nearly always a key only has to be compared with one prefix. Its lock is a leaf.
type readings struct {
	mu   sync.Mutex
	last [limits.ReadingsPerConnection]bundleRead
	next int
}

// bundleRead is a bundle and when it was last read.
type bundleRead struct {
	prefix string // of its keys; "" is none
	at     catalog.Time
}

// note notes the look-up of a key.
func (r *readings) note(key string, now catalog.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.last {
		if rd := &r.last[i]; rd.prefix != "" && strings.HasPrefix(key, rd.prefix) {
			rd.at = now
			return
		}
	}
	if prefix := bundle.Prefix(key); prefix != "" {
		r.last[r.next] = bundleRead{strings.Clone(prefix), now}
		r.next = (r.next + 1) % len(r.last)
	}
}

// of tells when the bundle with this prefix was last read; 0 is never, or forgotten.
func (r *readings) of(prefix string) catalog.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.last {
		if r.last[i].prefix == prefix {
			return r.last[i].at
		}
	}
	return 0
}

// readersOf lists the connections over which a bundle was read since a time, the latest first.
func (r *familyRegistry) readersOf(id string, since catalog.Time) []Reader {
	r.mu.Lock()
	type reader struct {
		*peerConn
		peer netip.Addr
	}
	conns := make([]reader, 0, len(r.conns))
	for c := range r.conns {
		conns = append(conns, reader{c, c.peer})
	}
	r.mu.Unlock()
	var readers []Reader
	for _, c := range conns {
		if at := c.readings.of(id + "/"); at > since {
			readers = append(readers, Reader{c.peer, c.clients(), at})
		}
	}
	slices.SortFunc(readers, func(a, b Reader) int {
		return cmp.Or(cmp.Compare(b.LastRead, a.LastRead), a.Address.Compare(b.Address))
	})
	return readers
}
