package master

import (
	"time"

	"mooncake/internal/limits"
)

// parkedReply is a finished reply whose layout is not known yet. The connection goes on reading and answering; the
// reply leaves when the family is proved, or in the default layout when the hold is over.
type parkedReply struct {
	conn     *peerConn
	deadline time.Time
	fam      family
	encode   func(family)
}

// park keeps the reply until its family is known. It reports false when too many wait already, or when the answer came
// while the caller was deciding: the caller then encodes for the returned family at once.
func (r *familyRegistry) park(c *peerConn, now time.Time, encode func(family)) (family, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, wait := r.decide(c, now)
	if !wait {
		return f, false
	}
	if len(r.parked) >= limits.ParkedReplies {
		return r.byDefault(c), false
	}
	r.parked = append(r.parked, &parkedReply{conn: c, deadline: now.Add(limits.FamilyHoldMs * time.Millisecond), encode: encode})
	return familyUnknown, true
}

// takeReady removes from the parked replies those that can be written now. Called with r.mu held; the caller sends
// them after it let the lock go.
func (r *familyRegistry) takeReady(now time.Time) []*parkedReply {
	if len(r.parked) == 0 {
		return nil
	}
	var ready []*parkedReply
	kept := r.parked[:0]
	for _, p := range r.parked {
		f, wait := r.decide(p.conn, now)
		if wait && now.Before(p.deadline) {
			kept = append(kept, p)
			continue
		}
		if wait {
			f = r.guessed(p.conn, now)
		}
		p.fam = f
		ready = append(ready, p)
	}
	r.parked = clearTail(r.parked, kept)
	return ready
}

func send(ready []*parkedReply) {
	for _, p := range ready {
		p.encode(p.fam)
	}
}

// clearTail drops the references behind kept, which shares all's memory.
func clearTail(all, kept []*parkedReply) []*parkedReply {
	clear(all[len(kept):])
	return kept
}
