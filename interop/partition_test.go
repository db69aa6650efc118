package interop

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// island is a master whose ways to etcd can be cut.
type island struct {
	*Master
	valves []*Valve
}

func (i *island) cut() {
	for _, v := range i.valves {
		v.Shut()
	}
}

func (i *island) join() {
	for _, v := range i.valves {
		v.Open()
	}
}

func startIsland(t *testing.T, r *Rig, members []*EtcdMember) *island {
	t.Helper()
	i := &island{}
	var ways []string
	for _, m := range members {
		ports, err := r.TakePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := StartValve(local(ports[0]), m.Client)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		i.valves = append(i.valves, v)
		ways = append(ways, v.Addr)
	}
	i.Master = joinMasters(t, r, strings.Join(ways, ";"))
	return i
}

// claims watches who says that it leads.
type claims struct {
	mu    sync.Mutex
	spans [][]span // by master
}

// span is a question that was answered with "I lead".
type span struct{ asked, answered time.Time }

func (c *claims) watch(n int, m *Master, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		s := span{asked: time.Now()}
		if strings.Contains(page(m, "/health"), `"service_ready":true`) {
			s.answered = time.Now()
			c.mu.Lock()
			c.spans[n] = append(c.spans[n], s)
			c.mu.Unlock()
		}
	}
}

// together finds a moment at which two led: one says so to a question that was asked after the other had said it, which in
// turn says it once more to a later question.
func (c *claims) together() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, of := range c.spans {
		for n := 1; n < len(of); n++ {
			for b, others := range c.spans {
				for _, o := range others {
					if a != b && o.asked.After(of[n-1].answered) && o.answered.Before(of[n].asked) && of[n].answered.Sub(of[n-1].asked) < time.Second {
						return fmt.Sprintf("master %d led at %v and at %v, and master %d between them", a, of[n-1].answered, of[n].asked, b)
					}
				}
			}
		}
	}
	return ""
}

// TestPartition cuts one of three masters off from etcd: first a standby, which says that it could not be promoted, and then
// the leader. At last the leader is killed, and two want to follow it. There is one leader at any time, the cut off one
// answers nothing that others could contradict, the client goes on by itself, and nothing that was acknowledged is lost.
func TestPartition(t *testing.T) {
	beside(t, elects)
	r := newRig(t)
	members, etcd := startEtcds(t, r)
	var masters []*island
	for range 3 {
		masters = append(masters, startIsland(t, r, members))
	}
	address := "etcd://" + etcd
	startStore(t, r, R13, StoreOptions{Master: address, SegmentBytes: 256 * mib})
	writer, reader := startStore(t, r, R13, StoreOptions{Master: address}), startStore(t, r, R14, StoreOptions{Master: address})
	seen := &claims{spans: make([][]span, len(masters))}
	over := make(chan struct{})
	var watching sync.WaitGroup
	for n, m := range masters {
		watching.Go(func() { seen.watch(n, m.Master, over) })
	}
	stop := sync.OnceFunc(func() { close(over); watching.Wait() })
	defer stop()
	f := Flood{Prefix: "partition", Threads: 1, Batch: 1, PaceMs: 5, SizeBytes: 500}
	if err := writer.StartFlood(f); err != nil {
		t.Fatal(err)
	}
	cutStandby(t, masters[2])
	for round := range repeat(1, 10) {
		cutLeader(t, masters, writer, f)
		if what := seen.together(); what != "" {
			t.Fatalf("round %d: %s", round, what)
		}
	}
	killed := killLeader(t, masters, writer, f)
	out, err := writer.StopFlood(f)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if what := seen.together(); what != "" {
		t.Fatalf("after the kill: %s", what)
	}
	var times figures
	_, first := recovery(out, loss{at: killed})
	times.add(firstPutDead, first)
	times.tell(t, promises)
	t.Logf("%d puts acknowledged, failed by code %s", len(out.Acked), codes(out.Failed))
	var items []Item
	for _, c := range out.Acked {
		items = append(items, f.Item(c.Lane, c.Number))
	}
	eventually(t, 60*time.Second, "the idle client to read", func() bool {
		got, err := reader.Get(items[0])
		return err == nil && got.Same
	})
	readAll(t, []*Store{writer, reader}, items)
}

// cutStandby cuts a standby off for a while.
func cutStandby(t *testing.T, m *island) {
	t.Helper()
	m.cut()
	began := time.Now()
	eventually(t, 60*time.Second, "a standby without etcd not to be ready", func() bool { return status(m.Master, "/readyz") == http.StatusServiceUnavailable })
	t.Logf("a standby without etcd is not ready after %v", time.Since(began).Round(time.Millisecond))
	m.join()
	began = time.Now()
	eventually(t, 60*time.Second, "the standby to be ready again", func() bool { return status(m.Master, "/readyz") == http.StatusOK })
	t.Logf("it is ready again after %v", time.Since(began).Round(time.Millisecond))
}

// cutLeader cuts the leader off until another leads and the writer goes on, and lets it come back as a standby.
func cutLeader(t *testing.T, masters []*island, writer *Store, f Flood) {
	t.Helper()
	leader := leading(t, masters)
	goesOn := goingOn(t, writer, f)
	leader.cut()
	began := time.Now()
	eventually(t, 60*time.Second, "another to lead", func() bool {
		for _, m := range masters {
			if m != leader && page(m.Master, "/role") == "leader" && status(m.Master, "/readyz") == http.StatusOK {
				return true
			}
		}
		return false
	})
	t.Logf("another leads %v after the leader was cut off", time.Since(began).Round(time.Millisecond))
	if role := page(leader.Master, "/role"); role == "leader" && status(leader.Master, "/readyz") == http.StatusOK {
		t.Errorf("the one that is cut off leads on")
	}
	goesOn()
	leader.join()
	eventually(t, 60*time.Second, "the one that was cut off to stand by", func() bool {
		return page(leader.Master, "/role") == "standby" && status(leader.Master, "/readyz") == http.StatusOK
	})
}

// killLeader kills the leader for good and waits until the writer goes on with one of the others.
func killLeader(t *testing.T, masters []*island, writer *Store, f Flood) (at time.Time) {
	t.Helper()
	leader := leading(t, masters)
	goesOn := goingOn(t, writer, f)
	at = time.Now()
	if err := leader.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	goesOn()
	return at
}

func leading(t *testing.T, masters []*island) *island {
	t.Helper()
	for _, m := range masters {
		if page(m.Master, "/role") == "leader" {
			return m
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// goingOn remembers how far the writer is. What it returns waits until it is further.
func goingOn(t *testing.T, writer *Store, f Flood) (wait func()) {
	t.Helper()
	before, _, err := writer.FloodState(f)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		eventually(t, 60*time.Second, "the writer to go on", func() bool {
			now, last, err := writer.FloodState(f)
			if err != nil {
				t.Fatal(err)
			}
			return now > before+100 && time.Since(last) < time.Second
		})
	}
}
