package master

import (
	"sync"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// writerWatch tells from connections which clients are gone. A client without a segment never pings, so the connections
// that carry its id are the only sign of life there is.
//
// A client is known to be gone when every connection that ever carried its id was closed by the peer, the last of them
// less than limits.WriterHangUpMs after the client's last call, and none carried it again within limits.WriterReturnMs.
// Later hang-ups say nothing: the pool of a published client drops idle connections by itself. Nor does a connection
// that this side closed, or one that stays open because other clients share it.
//
// Its lock is a leaf. It may be taken under the family registry's.
type writerWatch struct {
	mu      sync.Mutex
	writers map[wire.UUID]*watched
	waiting []hangUp // oldest first
	last    catalog.Time
}

// watched is a client id that some connection carries, or carried until a moment ago.
type watched struct {
	open     int
	lastCall catalog.Time // as far as the closed connections tell
	unclear  bool         // one of its connections went in a way that says nothing
	hangUps  uint64       // how often it was left without a connection: tells which wait is meant
}

// hangUp is a client left without a connection.
type hangUp struct {
	id    wire.UUID
	at    catalog.Time
	count uint64
}

func newWriterWatch() *writerWatch { return &writerWatch{writers: map[wire.UUID]*watched{}} }

// carried notes that one more connection carries the id.
func (w *writerWatch) carried(id wire.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec := w.writers[id]
	if rec == nil {
		rec = &watched{}
		w.writers[id] = rec
	}
	rec.open++
}

// outOfSight notes that a connection carries more ids than are remembered, and that this one was forgotten.
func (w *writerWatch) outOfSight(id wire.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec := w.writers[id]
	if rec == nil {
		return
	}
	rec.unclear = true
	if rec.open--; rec.open <= 0 {
		delete(w.writers, id)
	}
}

// left notes the end of a connection that carried ids, whose last call came at lastCall, and returns those that no other
// connection carries. byPeer tells that the peer ended it.
func (w *writerWatch) left(ids []wire.UUID, lastCall, now catalog.Time, byPeer bool) (silent []wire.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		rec := w.writers[id]
		if rec == nil {
			continue
		}
		rec.open--
		rec.lastCall = max(rec.lastCall, lastCall)
		rec.unclear = rec.unclear || !byPeer
		if rec.open > 0 {
			continue
		}
		if rec.unclear || now-rec.lastCall >= limits.WriterHangUpMs || len(w.waiting) >= limits.WritersWaiting {
			delete(w.writers, id)
		} else {
			rec.hangUps++
			w.waiting = append(w.waiting, hangUp{id: id, at: now, count: rec.hangUps})
		}
		if byPeer {
			silent = append(silent, id)
		}
	}
	return silent
}

// gone returns the clients that are now known to be gone, each once, and since when. It is to be called every limits.SweepMs; after a
// longer pause this process stood still, and whoever waits gets the time back: his return may lie unread in a socket.
func (w *writerWatch) gone(now catalog.Time) (gone []catalog.Departure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pause := now - w.last; w.last != 0 && pause > limits.SweepGapMs {
		for i := range w.waiting {
			w.waiting[i].at = min(w.waiting[i].at+pause, now)
		}
	}
	w.last = now
	done := 0
	for _, h := range w.waiting {
		if now-h.at < limits.WriterReturnMs {
			break
		}
		done++
		if rec := w.writers[h.id]; rec != nil && rec.open == 0 && rec.hangUps == h.count {
			delete(w.writers, h.id)
			gone = append(gone, catalog.Departure{Client: clientID(h.id), At: h.at})
		}
	}
	if done > 0 {
		w.waiting = append(w.waiting[:0:0], w.waiting[done:]...)
	}
	return gone
}
