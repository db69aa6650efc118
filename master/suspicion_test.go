package master

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// owned is a catalog with one client's segments.
type owned struct {
	mu       sync.Mutex
	segments []catalog.SegmentInfo
	suspects int
}

func (o *owned) SegmentsOf(catalog.UUID) []catalog.SegmentInfo {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.segments)
}

func (o *owned) Suspect(catalog.Time, catalog.UUID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.suspects++
	return true
}

func (o *owned) mount(endpoints ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.segments = nil
	for _, e := range endpoints {
		o.segments = append(o.segments, catalog.SegmentInfo{Segment: catalog.Segment{Endpoint: e}})
	}
}

// stage is a suspicion whose questions are answered by hand.
type stage struct {
	*suspicion
	owned
	asked   []string
	silent  map[string]bool
	lastly  time.Time // the last ping
	located map[string]string
	time    time.Time
	stalls  int  // questions over which this process stands still; afterwards it hears the answers
	dead    bool // there are none
}

var theOwner = catalog.UUID{Hi: 1, Lo: 1}

func newStage(endpoints ...string) *stage {
	s := &stage{silent: map[string]bool{}, located: map[string]string{}}
	s.suspicion = newSuspicion(&s.owned, NewClock(), zap.NewNop())
	s.ask = func(_ context.Context, address string) error {
		s.asked = append(s.asked, address)
		if s.stalls > 0 {
			s.stalls--
			s.time = s.time.Add(time.Minute)
			s.silent[address] = s.dead || s.stalls > 0
			return errors.New("too late")
		}
		if s.silent[address] {
			return errors.New("no answer")
		}
		return nil
	}
	s.locate = func(name string) (string, bool) { at, ok := s.located[name]; return at, ok }
	s.pinged = func(catalog.UUID) time.Time { return s.lastly }
	s.time = time.Now()
	s.now = func() time.Time { return s.time }
	s.owned.mount(endpoints...)
	return s
}

// settle works the queues off.
func (s *stage) settle() {
	for {
		select {
		case client := <-s.greetings:
			s.greet(context.Background(), client)
		case q := <-s.questions:
			s.answer(context.Background(), q)
		default:
			return
		}
	}
}

func TestSuspicion(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(s *stage)
		want int // how often the catalog is told
	}{
		{"a sign, and it does not answer", func(s *stage) {
			s.silent["a:1"] = true
			s.doubt(theOwner, 1)
		}, 1},
		{"a sign, and it answers", func(s *stage) { s.doubt(theOwner, 1) }, 0},
		{"it pinged after the sign", func(s *stage) {
			s.silent["a:1"] = true
			s.doubt(theOwner, 1)
			s.lastly = s.time.Add(time.Second)
		}, 0},
		{"of two endpoints one answers", func(s *stage) {
			s.owned.mount("a:1", "b:1")
			s.suspicion.mounted(theOwner)
			s.settle()
			s.silent["a:1"] = true
			s.doubt(theOwner, 1)
		}, 0},
		{"no sign", func(s *stage) { s.silent["a:1"] = true }, 0},
		{"somebody else's sign", func(s *stage) {
			s.silent["a:1"] = true
			s.doubt(catalog.UUID{Hi: 2}, 1)
		}, 0},
		{"a burst of given up writes", func(s *stage) {
			s.silent["a:1"] = true
			for n := range limits.RevokeBurst {
				s.revoked([]catalog.UUID{theOwner}, catalog.Time(10+n))
			}
		}, 1},
		{"one given up write", func(s *stage) {
			s.silent["a:1"] = true
			s.revoked([]catalog.UUID{theOwner}, 10)
		}, 0},
		{"given up writes now and then", func(s *stage) {
			s.silent["a:1"] = true
			for n := range 20 {
				s.revoked([]catalog.UUID{theOwner}, catalog.Time(10+n*limits.RevokeWindowMs))
			}
		}, 0},
		{"it has no segment any more", func(s *stage) {
			s.owned.mount()
			s.silent["a:1"] = true
			s.doubt(theOwner, 1)
		}, 0},
		{"this process stood still over the question", func(s *stage) {
			s.silent["a:1"] = true
			s.stalls = 1
			s.doubt(theOwner, 1)
		}, 0},
		{"this process stood still, and it does not answer then either", func(s *stage) {
			s.silent["a:1"], s.dead = true, true
			s.stalls = 1
			s.doubt(theOwner, 1)
		}, 1},
		{"this process stands still for ever", func(s *stage) {
			s.silent["a:1"] = true
			s.stalls = 100
			s.doubt(theOwner, 1)
		}, 1},
		{"a second sign later on", func(s *stage) {
			s.silent["a:1"] = true
			s.doubt(theOwner, 1)
			s.settle()
			s.doubt(theOwner, 1+limits.ProbeAgainMs)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage("a:1")
			s.suspicion.mounted(theOwner)
			s.settle()
			c.play(s)
			s.settle()
			if s.suspects != c.want {
				t.Errorf("suspected %d times, want %d; asked %q", s.suspects, c.want, s.asked)
			}
		})
	}
}

// TestNeverReached has an endpoint that never answered: it may be a name, or lie behind a wall. Silence means nothing then.
func TestNeverReached(t *testing.T) {
	s := newStage("a:1", "some name")
	s.silent["a:1"] = true
	s.suspicion.mounted(theOwner)
	s.settle()
	s.doubt(theOwner, 1)
	s.settle()
	if s.suspects != 0 || !slices.Equal(s.asked, []string{"a:1"}) {
		t.Fatalf("suspected %d times, asked %q", s.suspects, s.asked)
	}
}

// TestAsksWhereTheMetadataSays asks the handshake port of the metadata server's entry, not the name.
func TestAsksWhereTheMetadataSays(t *testing.T) {
	s := newStage("node-7")
	s.located["node-7"] = "h:12"
	s.suspicion.mounted(theOwner)
	s.settle()
	s.silent["h:12"] = true
	s.doubt(theOwner, 1)
	s.settle()
	if s.suspects != 1 || !slices.Equal(s.asked, []string{"h:12", "h:12"}) {
		t.Fatalf("suspected %d times, asked %q", s.suspects, s.asked)
	}
}

// TestOneReporterIsNotEnough sends signs without end: the owner is asked once a second, and as it answers nothing comes
// of it.
func TestOneReporterIsNotEnough(t *testing.T) {
	s := newStage("a:1")
	s.suspicion.mounted(theOwner)
	s.settle()
	s.asked = nil
	for ms := range catalog.Time(10_000) {
		s.revoked([]catalog.UUID{theOwner}, ms+1)
		s.settle()
	}
	if s.suspects != 0 || len(s.asked) > 10 {
		t.Fatalf("suspected %d times, asked %d times", s.suspects, len(s.asked))
	}
}

// TestQuestionsAreBounded has more signs than can be asked about.
func TestQuestionsAreBounded(t *testing.T) {
	s := newStage("a:1")
	for n := range uint64(limits.ProbesWaiting + 100) {
		id := catalog.UUID{Hi: 3, Lo: n}
		s.owners[id] = &owner{reached: map[string]bool{"a:1": true}}
		s.doubt(id, 1)
	}
	if n := len(s.questions); n != limits.ProbesWaiting {
		t.Fatalf("%d questions wait", n)
	}
}

func TestManyMountsAreOneGreeting(t *testing.T) {
	endpoints := []string{"a:1", "b:1", "c:1"}
	s := newStage(endpoints...)
	for _, e := range endpoints {
		s.silent[e] = true
	}
	for range 1000 {
		s.suspicion.mounted(theOwner)
	}
	s.settle()
	if !slices.Equal(s.asked, endpoints) {
		t.Fatalf("a thousand mounts asked %d times (%v), want each endpoint once", len(s.asked), s.asked[:min(len(s.asked), 8)])
	}
	// What is mounted while a greeting runs may have come too late for it: there is one more, for all of it.
	s.asked = nil
	ask, during := s.ask, true
	s.ask = func(ctx context.Context, address string) error {
		if during {
			during = false
			s.owned.mount("a:1", "b:1", "c:1", "d:1")
			for range 1000 {
				s.suspicion.mounted(theOwner)
			}
		}
		return ask(ctx, address)
	}
	s.suspicion.mounted(theOwner)
	s.settle()
	if want := []string{"a:1", "b:1", "c:1", "a:1", "b:1", "c:1", "d:1"}; !slices.Equal(s.asked, want) || !s.knows(theOwner, "d:1") {
		t.Fatalf("asked %v, want %v", s.asked, want)
	}
	// And a mount after that asks again what stayed silent.
	s.asked = nil
	s.suspicion.mounted(theOwner)
	s.settle()
	if !slices.Equal(s.asked, endpoints) {
		t.Fatalf("asked %v, want %v", s.asked, endpoints)
	}
}

func TestGreetingOfOneThatWentAndCameBack(t *testing.T) {
	s := newStage("a:1")
	back := false
	s.ask = func(context.Context, string) error {
		if !back {
			back = true
			s.forget(theOwner)
			s.suspicion.mounted(theOwner)
			return errors.New("of the one that went")
		}
		return nil
	}
	s.suspicion.mounted(theOwner)
	s.settle()
	if !s.knows(theOwner, "a:1") {
		t.Fatal("the one that came back was not asked")
	}
}
