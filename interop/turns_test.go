package interop

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// demand is what a test asks of the machine while it runs beside others.
type demand int

// The kinds of demand, in the order in which they have their turn: the longest come first, and short ones fill the end.
const (
	// elects is a test in which masters follow each other: mostly it waits for leases in etcd, but what it starts must come to
	// its turn in time, or leaders change that should not.
	elects demand = iota
	// waits is a test that mostly waits: for leases, for clients to be missed, for clients that are slow to leave.
	waits
	// works is a test that keeps about one processor busy.
	works
)

// partsPerCore is into how many parts a processor is divided, and parts is how many of them a test has for itself. On two processors
// two tests that work and one that waits are beside each other, or two that elect and one that works, or five that wait.
const partsPerCore = 5

func (l demand) parts() int {
	if *soak { // more of everything, and daemons that are slow
		return partsPerCore
	}
	return [...]int{elects: 3, waits: 2, works: 4}[l]
}

// turns divides the machine among tests that run beside each other.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn // sorted by demand, and by arrival
}

type turn struct {
	demand demand
	parts  int
	comes  chan struct{} // closed when it has come
}

// take waits for the parts of a test.
func (q *turns) take(l demand) *turn {
	own := &turn{l, l.parts(), make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, own)
	slices.SortStableFunc(q.waiting, func(a, b *turn) int { return int(a.demand - b.demand) })
	q.begin()
	q.mu.Unlock()
	<-own.comes
	return own
}

// give gives the parts back.
func (q *turns) give(own *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += own.parts
	q.begin()
}

// begin lets all go for whom there is room.
func (q *turns) begin() {
	q.waiting = slices.DeleteFunc(q.waiting, func(w *turn) bool {
		if w.parts > q.free {
			return false
		}
		q.free -= w.parts
		close(w.comes)
		return true
	})
}

// machine is what all tests share. A host with one processor is taken for one with two, since they wait more than they work.
var machine = turns{free: partsPerCore * max(2, runtime.GOMAXPROCS(0))}

// beside lets a test run beside others, after those that do not, and waits for its turn. A test that has subtests of this kind
// does not call it, but only t.Parallel. The time of a test contains what it has waited. When soaking, masters that follow each
// other have the machine for themselves: their times are compared with those of other days.
func beside(t *testing.T, l demand) {
	t.Helper()
	if *soak && l == elects {
		return
	}
	t.Parallel()
	came := time.Now()
	own := machine.take(l)
	t.Cleanup(func() { machine.give(own) })
	t.Logf("waited %v for its turn", time.Since(came).Round(100*time.Millisecond))
}

// TestTurns has many tests of all kinds take turns: never more than there is room for, and each comes to its turn.
func TestTurns(t *testing.T) {
	const room = 2 * partsPerCore
	q := turns{free: room}
	var mu sync.Mutex
	used, most := 0, 0
	add := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		used += n
		most = max(most, used)
	}
	var all sync.WaitGroup
	for n := range 300 {
		all.Go(func() {
			own := q.take(demand(n % 3))
			add(own.parts)
			runtime.Gosched()
			add(-own.parts)
			q.give(own)
		})
	}
	all.Wait()
	if most > room || used != 0 || q.free != room || len(q.waiting) != 0 {
		t.Errorf("at most %d of %d parts were taken; %d are taken, %d are free and %d wait in the end", most, room, used, q.free, len(q.waiting))
	}
}

// TestTurnsInOrder has others wait for one that works: the one that elects goes before those that came earlier, and what
// has no room does not keep out what has.
func TestTurnsInOrder(t *testing.T) {
	q := turns{free: works.parts()}
	first := q.take(works)
	var order sync.Mutex
	var got []demand
	var all sync.WaitGroup
	for n, l := range []demand{works, waits, elects} {
		all.Go(func() {
			own := q.take(l)
			order.Lock()
			got = append(got, l)
			order.Unlock()
			q.give(own)
		})
		eventually(t, 60*time.Second, "one more to wait", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.waiting) == n+1
		})
	}
	q.give(first)
	all.Wait()
	if want := []demand{elects, waits, works}; !slices.Equal(got, want) {
		t.Errorf("their turns came in the order %v, want %v", got, want)
	}
	large, small := &turn{works, 4, make(chan struct{})}, &turn{waits, 1, make(chan struct{})}
	q = turns{free: 2, waiting: []*turn{large, small}}
	q.begin()
	<-small.comes
	if q.free != 1 || !slices.Equal(q.waiting, []*turn{large}) {
		t.Errorf("%d parts are free and %d wait, want 1 and 1", q.free, len(q.waiting))
	}
}
