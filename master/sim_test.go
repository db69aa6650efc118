package master

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run the simulated cluster with this seed only")
	simSeeds = flag.Int("seeds", 200, "run the simulated cluster with so many seeds")
)

// simJudges is how long the judgment of one key may take. It takes milliseconds.
const simJudges = time.Minute

// TestSimulatedCluster runs masters, clients and owners in a world that hurts them, in virtual time, with one seed after
// another. With MOONCAKE_RANDOM the seeds are others every time; a failure prints its own.
func TestSimulatedCluster(t *testing.T) {
	first, count := uint64(1), uint64(*simSeeds)
	if os.Getenv("MOONCAKE_RANDOM") != "" {
		first = rand.Uint64N(1 << 40)
	}
	if *simSeed != 0 {
		first, count = *simSeed, 1
	}
	var mu sync.Mutex
	var sum simFigures
	t.Cleanup(func() {
		t.Logf("%d seeds from %d: %+v", count, first, sum)
		if sum.Terms < int64(count) || sum.Checked < int64(count) {
			t.Errorf("too little happened: %+v", sum)
		}
	})
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := simulate(t, seed, planOf(seed))
			if len(w.broken) > 0 {
				t.Errorf("seed %d breaks what is promised:\n  %s\nrepeat it with: go test ./master -run '^TestSimulatedCluster$' -args -seed %d\n%s",
					seed, strings.Join(w.broken, "\n  "), seed, w.lines.String())
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(w)
		})
	}
}

// simFigures are what happened in several simulations.
type simFigures struct{ Terms, Records, Answers, Calls, Checked int64 }

func (f *simFigures) add(w *world) {
	f.Terms += w.terms.Load()
	f.Records += w.records.Load()
	f.Answers += w.answers.Load()
	f.Calls += int64(w.history.Len())
	f.Checked += w.checked.Load()
}

// TestSimulationSees takes one rule after another away and expects that some seed shows what the rule is for.
func TestSimulationSees(t *testing.T) {
	for _, c := range []struct {
		what string
		plan simPlan
	}{
		{"a log without the condition on the leader's key", simPlan{unfenced: true}},
		{"answers without a bound", simPlan{unbound: true}},
		{"answers that do not wait for the log", simPlan{early: true}},
		{"readers that see what is not durable", simPlan{visible: true}},
		{"silence that is taken for an end", simPlan{rash: true}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			const enough = 300
			for seed := range uint64(enough) {
				if w := simulate(t, seed+1, c.plan); len(w.broken) > 0 {
					t.Logf("seed %d: %s", w.seed, w.broken[0])
					return
				}
			}
			t.Errorf("%d seeds show nothing", enough)
		})
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// simulate runs one world and judges it.
func simulate(t *testing.T, seed uint64, plan simPlan) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, plan)
		w.run()
	})
	bad, err := w.history.Check(simJudges)
	if err != nil {
		w.broken = append(w.broken, err.Error())
	}
	for _, key := range bad {
		w.broken = append(w.broken, fmt.Sprintf("no store that loses nothing answers like this about %s:\n%s", key, w.history.Text(key)))
	}
	return w
}

func (w *world) run() {
	storing, endStore := context.WithCancel(context.Background())
	var store, crowd sync.WaitGroup
	store.Go(func() { w.store.Run(storing) })
	var end context.CancelFunc
	w.end, end = context.WithCancel(context.Background())
	for _, n := range w.nodes {
		pass(time.Duration(n.dice.Int64N(int64(time.Millisecond))))
		n.start()
	}
	for i := range simOwners {
		c := w.newClient(100 + i)
		crowd.Go(func() { c.own(i) })
	}
	for i := range simClients {
		c := w.newClient(i)
		crowd.Go(c.run)
	}
	w.hurt(w.dice("fault", 0))
	w.note("all is well again")
	pass(simHeals)
	answered := w.answers.Load()
	pass(time.Second)
	if w.answers.Load() == answered {
		w.breach("nobody leads %v after all is well", simHeals)
	}
	last := w.newClient(50)
	last.sweepUp()
	end()
	crowd.Wait()
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			p.kill()
			<-p.ended
		}
	}
	endStore()
	store.Wait()
}

// hurt does harm for a while, and undoes all of it.
func (w *world) hurt(dice *rand.Rand) {
	var undone sync.WaitGroup
	busy := make([]bool, len(w.nodes))
	var mu sync.Mutex
	for end := time.Now().Add(simLasts); time.Now().Before(end); {
		pass(50*time.Millisecond + time.Duration(dice.Int64N(int64(1200*time.Millisecond))))
		i := dice.IntN(len(w.nodes))
		if leader := w.leader(); leader != nil && dice.IntN(5) < 3 {
			for j, n := range w.nodes {
				if n == leader {
					i = j
				}
			}
		}
		fault, long := dice.IntN(12), time.Duration(dice.Int64N(int64(4*time.Second)))
		if dice.IntN(3) > 0 {
			long /= 8
		}
		way := 1 + dice.IntN(3)
		mu.Lock()
		free := !busy[i]
		busy[i] = true
		mu.Unlock()
		if !free {
			continue
		}
		undone.Go(func() {
			w.harm(w.nodes[i], fault, way, long)
			mu.Lock()
			busy[i] = false
			mu.Unlock()
		})
	}
	undone.Wait()
}

// harm does one kind of harm to one node, or to all of them, and undoes it after a while.
func (w *world) harm(n *node, fault, way int, long time.Duration) {
	p := n.running()
	if p == nil {
		return
	}
	switch fault {
	case 0, 1:
		w.note("%s is killed for %v", n.name, long)
		p.kill()
		<-p.ended
		pass(long)
		n.start()
	case 2:
		w.note("%s is asked to leave, for %v", n.name, long)
		p.leave()
		<-p.ended
		pass(long)
		n.start()
	case 3, 4, 5:
		w.note("%s is stopped for %v", n.name, long)
		p.link.Freeze()
		if w.plan.rash {
			p.hangUp()
		}
		pass(long)
		p.link.Thaw()
		w.note("%s goes on", n.name)
	case 6, 7:
		w.note("%s is cut off (%d) for %v", n.name, way, long)
		p.link.Cut(way&1 != 0, way&2 != 0)
		pass(long)
		p.link.Cut(false, false)
	case 10, 11:
		w.note("%s is cut off (%d) for %v, and killed then", n.name, way, long/4)
		p.link.Cut(way&1 != 0, way&2 != 0)
		pass(long / 4)
		p.kill()
		<-p.ended
		n.start()
	case 8:
		w.note("%s has a slow way for %v", n.name, long)
		p.link.Slow(700*time.Millisecond, 0.1)
		pass(long)
		p.link.Slow(0, 0)
	case 9:
		w.note("etcd stands still for %v", long/2)
		w.store.CompactAll()
		w.store.Stall(true)
		pass(long / 2)
		w.store.Stall(false)
	}
}
