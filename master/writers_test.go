package master

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// watchStep is something that happens to one connection of one client at a time in ms.
type watchStep struct {
	at    catalog.Time
	what  string // opens, closes (by the peer), closed (by this side), tick
	calls catalog.Time
}

// TestWriterIsGone follows the connections of client 1. Ticks come every 100 ms in between.
func TestWriterIsGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []watchStep
		gone  catalog.Time // -1: never
	}{
		{"killed while calling", []watchStep{{0, "opens", 0}, {1000, "closes", 900}}, 6000},
		{"killed 19 s after its last call", []watchStep{{0, "opens", 0}, {19_900, "closes", 0}}, 24_900},
		{"its pool dropped an idle connection", []watchStep{{0, "opens", 0}, {55_000, "closes", 0}}, -1},
		{"20 s say nothing", []watchStep{{0, "opens", 0}, {20_000, "closes", 0}}, -1},
		{"one of two connections stays", []watchStep{{0, "opens", 0}, {0, "opens", 0}, {1000, "closes", 900}}, -1},
		{"both close", []watchStep{{0, "opens", 0}, {0, "opens", 0}, {1000, "closes", 0}, {3000, "closes", 2900}}, 8000},
		{"an idle one closes, then the busy one", []watchStep{{0, "opens", 0}, {0, "opens", 0}, {60_000, "closes", 0}, {61_000, "closes", 60_900}}, 66_000},
		{"the busy one closes, then an idle one", []watchStep{{0, "opens", 0}, {0, "opens", 0}, {1000, "closes", 900}, {60_000, "closes", 0}}, -1},
		{"it comes back in time", []watchStep{{0, "opens", 0}, {1000, "closes", 900}, {5900, "opens", 0}}, -1},
		{"it comes back and dies", []watchStep{{0, "opens", 0}, {1000, "closes", 900}, {3000, "opens", 0}, {4000, "closes", 3500}}, 9000},
		{"this side hung up", []watchStep{{0, "opens", 0}, {1000, "closed", 900}}, -1},
		{"this side hung up on one of two", []watchStep{{0, "opens", 0}, {0, "opens", 0}, {1000, "closed", 900}, {2000, "closes", 1900}}, -1},
		{"after an unclear end it starts anew", []watchStep{{0, "opens", 0}, {1000, "closed", 900}, {2000, "opens", 0}, {3000, "closes", 2900}}, 8000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriterWatch()
			var told []catalog.Time
			now := catalog.Time(0)
			until := func(end catalog.Time) {
				for ; now < end; now += 100 {
					if now == 0 {
						continue
					}
					for _, who := range w.gone(now) {
						if who.Client != clientID(id(1)) || who.At > now-limits.WriterReturnMs {
							t.Fatalf("client %v is gone", who)
						}
						told = append(told, now)
					}
				}
			}
			for _, s := range c.steps {
				until(s.at)
				switch s.what {
				case "opens":
					w.carried(id(1))
				case "closes", "closed":
					w.left([]wire.UUID{id(1)}, s.calls, s.at, s.what == "closes")
				}
			}
			until(now + 100_000)
			want := []catalog.Time{c.gone}
			if c.gone < 0 {
				want = nil
			}
			if !slices.Equal(told, want) {
				t.Errorf("gone at %v, want %v", told, want)
			}
			for who, rec := range w.writers {
				if rec.open == 0 {
					t.Errorf("client %v without connections is remembered", who)
				}
			}
			if len(w.waiting) > 0 {
				t.Errorf("%d waits left", len(w.waiting))
			}
		})
	}
}

// TestWriterSharesConnection has two clients on one connection, as the stores of one process of 0.3.14: as long as it is
// open nothing is known of either.
func TestWriterSharesConnection(t *testing.T) {
	w := newWriterWatch()
	w.carried(id(1))
	w.carried(id(2))
	w.carried(id(1)) // a connection of its own
	if silent := w.left([]wire.UUID{id(1)}, 900, 1000, true); len(silent) != 0 {
		t.Fatalf("%v have no connection", silent)
	}
	if silent := w.left([]wire.UUID{id(1), id(2)}, 1900, 2000, true); len(silent) != 2 {
		t.Fatalf("%v have no connection, want both", silent)
	}
	if gone := w.gone(6900); len(gone) != 0 {
		t.Fatalf("%v are gone too early", gone)
	}
	if gone := w.gone(7000); len(gone) != 2 {
		t.Fatalf("%v are gone, want both", gone)
	}
}

// TestWriterWatchStandsStill lets the whole process stand still: whoever came back meanwhile was not heard yet.
func TestWriterWatchStandsStill(t *testing.T) {
	w := newWriterWatch()
	w.carried(id(1))
	w.gone(900)
	w.left([]wire.UUID{id(1)}, 900, 1000, true)
	w.gone(1100)
	for _, at := range []catalog.Time{60_000, 60_100, 62_000, 63_900, 64_800} {
		if gone := w.gone(at); len(gone) != 0 {
			t.Fatalf("gone at %d: a pause of the watch counted", at)
		}
	}
	if gone := w.gone(65_000); len(gone) != 1 {
		t.Fatal("not gone after the wait was made up for")
	}
}

// TestWriterWatchIsBounded forgets clients instead of keeping more waits than it may.
func TestWriterWatchIsBounded(t *testing.T) {
	w := newWriterWatch()
	for n := range uint64(limits.WritersWaiting + 10) {
		w.carried(id(n))
		w.left([]wire.UUID{id(n)}, 0, 1, true)
	}
	if len(w.waiting) != limits.WritersWaiting || len(w.writers) != limits.WritersWaiting {
		t.Fatalf("%d waits, %d clients", len(w.waiting), len(w.writers))
	}
	if gone := w.gone(1 + limits.WriterReturnMs); len(gone) != limits.WritersWaiting || len(w.writers) != 0 {
		t.Fatalf("%d gone, %d clients left", len(gone), len(w.writers))
	}
}

// TestWriterOutOfSight carries more ids on a connection than are remembered.
func TestWriterOutOfSight(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	for n := range uint64(limits.ClientsPerConnection + 1) {
		r.bind(c, id(n))
	}
	if r.writers.writers[id(0)] != nil || len(r.writers.writers) != limits.ClientsPerConnection {
		t.Fatalf("%d clients are watched", len(r.writers.writers))
	}
	d := conn(r, hostA, wire.CallGetReplicaList)
	r.bind(d, id(1))
	r.bind(c, id(1000)) // pushes client 1 out of c's list; d carries it still
	r.closed(d, t0)
	r.writers.left(d.clients(), 0, 1000, true)
	r.writers.gone(1100)
	if gone := r.writers.gone(1000 + limits.WriterReturnMs); len(gone) != 0 {
		t.Fatalf("%v are gone, though a connection that carried them is open", gone)
	}
}

func TestLeftByPeer(t *testing.T) {
	for cause, want := range map[error]bool{
		io.EOF: true, syscall.ECONNRESET: true, io.ErrUnexpectedEOF: true,
		rpc.ErrIdle: false, rpc.ErrClosed: false, rpc.ErrHalfFrame: false, rpc.ErrSlowReader: false,
		errors.Join(rpc.ErrProtocol): false,
	} {
		if got := leftByPeer(cause); got != want {
			t.Errorf("%v: %v, want %v", cause, got, want)
		}
	}
}
