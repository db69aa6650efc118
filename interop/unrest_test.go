package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// actor is one client of a mixed workload. A victim is killed and stopped at random, and starts again.
type actor struct {
	u       *unrest
	name    string
	release Release
	segment int64 // bytes of its own; only victims have some
	victim  bool
	dice    *rand.Rand

	mu     sync.Mutex // guards what the tormentor looks at
	client *Client
	doomed bool // killed, and not started again yet

	store *Store
	made  int
	alive []Item // stored, as far as the actor knows
	tried []Key  // written without success
}

// unrest is a workload under random kills and stops of clients.
type unrest struct {
	t     *testing.T
	rig   *Rig
	m     *Master
	until time.Time

	mu     sync.Mutex
	counts map[string]int
}

func (u *unrest) count(what string) {
	u.mu.Lock()
	u.counts[what]++
	u.mu.Unlock()
}

// TestUnrest lets clients of three releases work while others, some with memory of their own, are killed and stopped at
// random: no read brings wrong bytes, no key stays blocked, and in the end nothing is allocated.
func TestUnrest(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{
		V12Port: true, ClientTTLSec: 3, LeaseMs: 1000,
		Flags: []string{"--client_lost_ttl_sec=5", "--put_start_discard_timeout_sec=60", "--put_start_release_timeout_sec=90"},
	})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 96 * mib})
	u := &unrest{t: t, rig: r, m: m, until: time.Now().Add(time.Duration(repeat(20, 600)) * time.Second), counts: map[string]int{}}
	var actors []*actor
	for n, release := range []Release{R12, R13, R14} {
		actors = append(actors,
			&actor{u: u, release: release, name: "steady-" + release.String()},
			&actor{u: u, release: release, name: "victim-" + release.String(), victim: true, segment: int64(n%2) * 32 * mib})
	}
	var working, tormenting sync.WaitGroup
	over := make(chan struct{})
	for n, a := range actors {
		a.dice = rand.New(rand.NewPCG(uint64(n), 20))
		a.start()
		working.Go(a.work)
	}
	tormenting.Go(func() { u.torment(actors, over) })
	working.Wait()
	close(over)
	tormenting.Wait()
	t.Logf("%v", u.counts)
	for _, reason := range []string{"leased", "pinned", "in_flight", "own_bundle", "no_segment"} {
		t.Logf("refused, %s: %v", reason, refusals(t, m, reason))
	}
	if u.counts["put"] == 0 || u.counts["get"] == 0 || u.counts["killed"]+u.counts["stopped"] == 0 {
		t.Errorf("nothing to see: %v", u.counts)
	}
	u.settle(actors)
}

// start brings a client up, for the first time or again.
func (a *actor) start() {
	c, err := a.u.rig.StartClient(a.release)
	if err != nil {
		a.u.t.Error(err)
		return
	}
	a.mu.Lock()
	a.client, a.doomed = c, false
	a.mu.Unlock()
	rpc := a.u.m.RPC
	if a.release == R12 {
		rpc = a.u.m.RPCv12
	}
	a.store = nil
	st, code, err := c.Setup(StoreOptions{Master: rpc, SegmentBytes: a.segment, BufferBytes: 16 * mib})
	if err == nil && code == codeOK {
		a.store = st
	} else if !a.isDoomed() {
		a.u.t.Errorf("%s: setup: code %d, %v", a.name, code, err)
	}
}

func (a *actor) isDoomed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doomed
}

func (a *actor) work() {
	for time.Now().Before(a.u.until) && !a.u.t.Failed() {
		var err error
		if a.store != nil {
			err = a.step()
		}
		switch {
		case a.isDoomed():
			a.start()
		case err != nil:
			a.u.t.Errorf("%s: %v", a.name, err)
		case a.store == nil:
			return
		}
	}
}

// step does one thing. A failure that the unrest explains is none.
func (a *actor) step() error {
	switch dice := a.dice.IntN(20); {
	case dice < 8 || len(a.alive) == 0:
		return a.put()
	case dice < 15:
		return a.read(a.alive[a.dice.IntN(len(a.alive))])
	case dice < 16:
		return a.upsert()
	case dice < 17 && !a.victim:
		return a.bundle()
	default:
		return a.remove()
	}
}

func (a *actor) put() error {
	i := Item{Key: key("unrest/%s/%d", a.name, a.made), Size: 1 + a.dice.Int64N(400_000), Seed: int64(a.made)}
	a.made++
	copies := 1 + a.dice.IntN(2)
	code, err := a.store.Put(i, Config{"replica_num": copies})
	a.u.count("put")
	if err != nil || code != codeOK {
		a.tried = append(a.tried, i.Key)
		a.u.count(fmt.Sprint("put failed: ", code))
		return err
	}
	a.alive = append(a.alive, i)
	return nil
}

func (a *actor) read(i Item) error {
	got, err := a.store.Get(i)
	a.u.count("get")
	switch {
	case err != nil:
		return err
	case got.Size == 0:
		a.u.count("get: nothing") // lost with its owner, hidden or evicted
	case !got.Same:
		return fmt.Errorf("%q brought wrong bytes, %d of %d", i.Key, got.Size, i.Size)
	}
	return nil
}

// upsert replaces an object by one of another or the same size. Nobody else reads the key.
func (a *actor) upsert() error {
	n := a.dice.IntN(len(a.alive))
	i := a.alive[n]
	i.Seed += 1_000_000
	if a.dice.IntN(2) == 0 {
		i.Size = 1 + a.dice.Int64N(400_000)
	}
	code, err := a.store.Upsert(i)
	a.u.count("upsert")
	if err != nil {
		a.alive = append(a.alive[:n], a.alive[n+1:]...) // which of the two values is there nobody knows
		a.tried = append(a.tried, i.Key)
		return err
	}
	if code != codeOK {
		a.u.count(fmt.Sprint("upsert failed: ", code))
		return a.read(a.alive[n]) // the old value stays
	}
	a.alive[n] = i
	return a.read(i)
}

func (a *actor) remove() error {
	n := a.dice.IntN(len(a.alive))
	i := a.alive[n]
	a.alive = append(a.alive[:n], a.alive[n+1:]...)
	a.tried = append(a.tried, i.Key)
	var code int
	err := a.store.Call(&code, "remove", i.Key, true)
	a.u.count("remove")
	return err
}

func (a *actor) bundle() error {
	b := Bundle{Rows: 20 + a.dice.IntN(60), Seed: a.made, Chunk: 32 << 10}
	a.made++
	a.u.count("bundle")
	h, _, _, err := a.store.PutBundle(b)
	if err == nil {
		var diff string
		if diff, _, err = a.store.GetBundle(h, b, nil, nil); err == nil && diff != "" {
			return fmt.Errorf("bundle of %d rows differs: %s", b.Rows, diff)
		}
		err = errors.Join(err, a.store.CleanBundle(h))
	}
	if errors.Is(err, ErrWorker) {
		a.u.count("bundle failed") // a member lies with a client that is away
		return nil
	}
	return err
}

// torment kills and stops victims until the work is over, and leaves nobody stopped.
func (u *unrest) torment(actors []*actor, over <-chan struct{}) {
	dice := rand.New(rand.NewPCG(1, 2))
	var victims []*actor
	for _, a := range actors {
		if a.victim {
			victims = append(victims, a)
		}
	}
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(300+dice.IntN(1500)) * time.Millisecond):
		}
		a := victims[dice.IntN(len(victims))]
		if dice.IntN(2) == 0 {
			a.signal(u, "killed", syscall.SIGKILL)
			continue
		}
		if !a.signal(u, "stopped", syscall.SIGSTOP) {
			continue
		}
		select {
		case <-over:
		case <-time.After(time.Duration(200+dice.IntN(8000)) * time.Millisecond):
		}
		a.signal(u, "resumed", syscall.SIGCONT)
	}
}

func (a *actor) signal(u *unrest, what string, sig syscall.Signal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil || a.doomed {
		return false
	}
	if sig == syscall.SIGKILL {
		a.doomed = true
	}
	u.count(what)
	return a.client.Signal(sig) == nil
}

// settle ends the victims and looks at what is left: every key ever tried takes a new value, and after a removal of
// everything nothing is allocated.
func (u *unrest) settle(actors []*actor) {
	u.t.Helper()
	var keys []Key
	for _, a := range actors {
		if a.victim {
			a.client.Kill()
		}
		keys = append(keys, a.tried...)
	}
	s := startStore(u.t, u.rig, R13, StoreOptions{Master: u.m.RPC})
	for n, k := range keys {
		if n%max(1, len(keys)/300) != 0 {
			continue
		}
		i := Item{Key: k, Size: 10, Seed: int64(n)}
		eventually(u.t, 60*time.Second, fmt.Sprintf("%q takes a value", k), func() bool {
			if code, err := s.Put(i, nil); err != nil || code != codeOK {
				return false
			}
			got, err := s.Get(i)
			return err == nil && got.Size != 0
		})
	}
	eventually(u.t, 60*time.Second, "nothing is allocated", func() bool {
		var removed int
		if err := s.Call(&removed, "remove_all", true); err != nil {
			u.t.Fatal(err)
		}
		return metric(u.t, u.m, "master_allocated_bytes") == 0 && metric(u.t, u.m, "master_key_count") == 0
	})
	eventually(u.t, 120*time.Second, "no quarantine is left", func() bool {
		return metric(u.t, u.m, "mooncake_go_quarantined_bytes") == 0
	})
}
