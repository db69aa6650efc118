package master

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdsim"
	"mooncake/internal/linear"
)

// simPlan is how a simulated cluster runs, and what of the product's rules is taken away from it.
type simPlan struct {
	async bool // --ha_ack=async: what was answered may be taken back, what was read may not
	small bool // the pool is too small: objects are evicted

	unfenced bool // etcd does not look at the condition on the leader's key
	unbound  bool // answers are given however long the lease was not renewed
	early    bool // answers do not wait for the log
	visible  bool // readers see what is not durable
	rash     bool // a leader that is silent is taken for one whose process is gone
}

// What a simulation consists of.
const (
	simLasts   = 7 * time.Second // with faults
	simHeals   = 4 * time.Second // a leader must be there by then
	simMasters = 3
	simClients = 4
	simOwners  = 2
	simKeys    = 8
	simTTL     = 2 * time.Second
	simLease   = 300 * time.Millisecond
	simLeader  = "mooncake-store/sim/master_view"
	simPrefix  = "/mooncake-go/sim/"
	simSegment = 1 << 18
	simSmall   = 1 << 13
)

// planOf gives every fifth seed a cluster that answers early, and another fifth a small pool.
func planOf(seed uint64) simPlan { return simPlan{async: seed%5 == 0, small: seed%5 == 1} }

// world is one run of a simulated cluster: masters that share a log in a simulated etcd, owners of segments, clients that
// put, read and remove, and a hand that hurts all of them. Everything random follows from the seed. Goroutines that are due
// at the same moment may run in any order, so a seed nearly always, but not surely, leads to the same run.
type world struct {
	t       *testing.T
	seed    uint64
	plan    simPlan
	store   *etcdsim.Store
	nodes   []*node
	ram     map[string]*ram // by endpoint
	history linear.History
	began   time.Time
	log     *zap.Logger
	end     context.Context // ends clients and owners
	version atomic.Uint64
	term    atomic.Int64 // newest
	terms   atomic.Int64
	records atomic.Int64
	answers atomic.Int64
	checked atomic.Int64 // reads of which the bytes were compared

	mu      sync.Mutex
	lines   bytes.Buffer // what happened, for a failure
	broken  []string
	removed map[string]int64 // by key: when the last forced removal ended; the end of time while one is under way
}

func newWorld(t *testing.T, seed uint64, plan simPlan) *world {
	w := &world{t: t, seed: seed, plan: plan, store: etcdsim.NewStore(), ram: map[string]*ram{}, began: time.Now(), removed: map[string]int64{}}
	w.log = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m"}), (*simSink)(w), zap.InfoLevel))
	w.store.Applied = w.applied
	if plan.unfenced {
		w.store.Ignores = func(c etcdkv.Condition) bool { return c.Key == simLeader && c.Created != 0 }
	}
	for i := range simMasters {
		dice := w.dice("node", uint64(i))
		w.nodes = append(w.nodes, &node{
			w: w, name: fmt.Sprintf("m%d:1", i), dice: dice,
			bootAt: dice.Int64N(1 << 50), rate: 1 + (dice.Float64()-0.5)/100,
		})
	}
	for i := range simOwners {
		w.ram[simEndpoint(i)] = &ram{}
	}
	return w
}

func simEndpoint(owner int) string { return fmt.Sprintf("10.0.0.%d:1", owner) }

// dice gives somebody numbers of his own.
func (w *world) dice(who string, n uint64) *rand.Rand {
	h := w.seed
	for _, c := range []byte(who) {
		h = h*1099511628211 ^ uint64(c)
	}
	return rand.New(rand.NewPCG(h, n))
}

func (w *world) now() int64 { return int64(time.Since(w.began)) }

// note writes down what happens.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.lines, "%9.4f ", time.Since(w.began).Seconds())
	fmt.Fprintf(&w.lines, format+"\n", args...)
}

// breach notes that something happened that must not.
func (w *world) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note("BROKEN %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, text)
}

// simSink takes the logs of the masters.
type simSink world

func (s *simSink) Write(p []byte) (int, error) {
	(*world)(s).note("%s", bytes.TrimSpace(p))
	return len(p), nil
}

func (s *simSink) Sync() error { return nil }

// applied sees every key that is put into etcd, and under which conditions: the log grows by one record after another, each
// of the leader of the moment.
func (w *world) applied(keys *etcdsim.Keys, kv etcdkv.KV, conditions []etcdkv.Condition) {
	switch {
	case kv.Key == simLeader:
		if old, there := keys.Get(simLeader); there {
			w.breach("the leader's key is written over: %q by %q", old.Value, kv.Value)
		}
		w.term.Store(kv.Created)
		w.terms.Add(1)
		w.note("%s leads: term %d", kv.Value, kv.Created)
	case strings.HasPrefix(kv.Key, simPrefix):
		leader, _ := keys.Get(simLeader)
		i := slices.IndexFunc(conditions, func(c etcdkv.Condition) bool { return c.Key == simLeader })
		if i < 0 || conditions[i].Created != leader.Created {
			w.breach("%s is written under %v in term %d", kv.Key, conditions, leader.Created)
		}
		if strings.HasPrefix(kv.Key, simPrefix+"log/") {
			w.records.Add(1)
			if _, there := keys.Get(kv.Key); there {
				w.breach("%s is written over", kv.Key)
			}
		}
	}
}

// answered sees every answer at the moment at which it is given: whoever gives it leads.
func (w *world) answered(place string, term int64) {
	w.answers.Add(1)
	if newest := w.term.Load(); newest != term {
		w.breach("%s answers in term %d, the newest is %d", place, term, newest)
	}
}

// leader is the node that the key of the moment names; nil when there is none.
func (w *world) leader() *node {
	kv, there := w.store.Read(simLeader)
	if !there {
		return nil
	}
	return w.node(string(kv.Value))
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// ram is the memory of a segment: which object's bytes lie where.
type ram struct {
	mu    sync.Mutex
	parts []ramPart
}

type ramPart struct{ from, to, version uint64 }

func (r *ram) write(from, to, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []ramPart
	for _, p := range r.parts {
		if p.to <= from || to <= p.from {
			parts = append(parts, p)
			continue
		}
		if p.from < from {
			parts = append(parts, ramPart{p.from, from, p.version})
		}
		if to < p.to {
			parts = append(parts, ramPart{to, p.to, p.version})
		}
	}
	r.parts = append(parts, ramPart{from, to, version})
}

// holds tells whether all bytes of a range are those of one object, and whose else there are.
func (r *ram) holds(from, to, version uint64) (all bool, others []ramPart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes := uint64(0)
	for _, p := range r.parts {
		a, b := max(p.from, from), min(p.to, to)
		switch {
		case a >= b:
		case p.version == version:
			bytes += b - a
		default:
			others = append(others, p)
		}
	}
	return bytes == to-from, others
}
