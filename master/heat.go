package master

import (
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// Modes of copies on demand.
const (
	dynamicOff     = "off"
	dynamicObserve = "observe" // says what it would do
	dynamicEnforce = "enforce"
)

// dynamicLease is what a copy made on demand carries: whose idea it was, and for which value of the object.
type dynamicLease struct {
	id    wire.UUID
	epoch uint64
}

// heat counts the reads of objects, and lets those that are read much get another copy. Nothing of it is durable: a new
// leader counts anew. Its locks are leaves.
type heat struct {
	mode      string
	window    catalog.Time
	threshold uint32
	most      int
	seed      maphash.Seed
	shards    []heatShard
	hot       chan hotKey

	mu     sync.Mutex
	leases map[dynamicLease]catalog.Time // issued, and when each is over
	acts   map[string]action             // what was done last about a key

	grown         atomic.Int64  // objects that have copies made on demand
	made, dropped atomic.Uint64 // such copies
}

type heatShard struct {
	mu     sync.Mutex
	window catalog.Time
	reads  map[string]uint32
	coolAt catalog.Time // when the window of those that have copies on demand is over
	grown  map[string]grown
}

type hotKey struct {
	tenant, key, kept string
}

// action is the last copy that was asked for of a key.
type action struct {
	at, until catalog.Time // nothing more before until
	copies    int          // there were
}

func newHeat(c *Config) *heat {
	h := &heat{
		mode: c.DynamicMode, window: catalog.Time(max(c.HeatWindow, time.Second).Milliseconds()), most: max(1, c.MaxMemoryReplicas),
		seed: maphash.MakeSeed(), leases: map[dynamicLease]catalog.Time{}, acts: map[string]action{},
	}
	h.threshold = uint32(max(1, min(math.Ceil(c.AdmissionQPS*float64(h.window)/1000), math.MaxUint32)))
	if h.mode != dynamicOff {
		h.shards = make([]heatShard, limits.HeatShards)
		h.hot = make(chan hotKey, limits.HeatQueue)
	}
	return h
}

func (h *heat) shardOf(kept string) *heatShard {
	return &h.shards[maphash.String(h.seed, kept)%uint64(len(h.shards))]
}

// read counts a read of an object that has few copies, or such as were made on demand. When it is the one too many the key is
// looked at; a full queue drops it, and the next window counts anew.
func (h *heat) read(now catalog.Time, tenant, key, kept string, copies int) {
	if h.mode == dynamicOff || copies >= h.most && h.grown.Load() == 0 {
		return
	}
	sh := h.shardOf(kept)
	sh.mu.Lock()
	if g, grew := sh.grown[kept]; grew {
		g.reads++
		sh.grown[kept] = g
	}
	if copies >= h.most {
		sh.mu.Unlock()
		return
	}
	if at := now - now%h.window; at != sh.window || sh.reads == nil {
		sh.window, sh.reads = at, map[string]uint32{}
	}
	n, known := sh.reads[kept]
	if !known {
		kept = strings.Clone(kept) // it may be a part of a whole message
	}
	if known || len(sh.reads) < limits.HeatKeys/limits.HeatShards {
		n++
		sh.reads[kept] = n
	}
	sh.mu.Unlock()
	if n == h.threshold {
		select {
		case h.hot <- hotKey{tenant, strings.Clone(key), strings.Clone(kept)}:
		default:
		}
	}
}

// may tells whether a key that became hot gets another copy now, and notes that it does.
func (h *heat) may(now catalog.Time, kept string, copies int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, known := h.acts[kept]
	if !known && len(h.acts) >= limits.HeatKeys || h.grown.Load() >= limits.HeatGrown {
		return false
	}
	if known && now >= a.until && copies <= a.copies && now < a.at+limits.HeatBlockMs {
		a.until = a.at + limits.HeatBlockMs // the copy did not stay: there is no room for it
		h.acts[kept] = a
	}
	if known && now < a.until {
		return false
	}
	h.acts[kept] = action{at: now, until: now + limits.HeatPauseMs, copies: copies}
	return true
}

// issue makes a lease for a copy on demand.
func (h *heat) issue(now catalog.Time, epoch uint64) dynamicLease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := dynamicLease{newTaskID(), epoch}
	h.leases[l] = now + limits.HeatLeaseMs
	return l
}

// holds tells whether a lease is in force for an object whose value is of the given time.
func (h *heat) holds(now catalog.Time, l dynamicLease, epoch uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.leases[l]
	return ok && now < until && epoch == l.epoch
}

// issued tells whether a lease is known, in force or over a short while ago.
func (h *heat) issued(l dynamicLease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.leases[l]
	return ok
}

// forget drops what is over long ago.
func (h *heat) forget(now catalog.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l, until := range h.leases {
		if until+limits.HeatKeptMs < now {
			delete(h.leases, l)
		}
	}
	for key, a := range h.acts {
		if a.until+limits.HeatKeptMs < now {
			delete(h.acts, key)
		}
	}
}

// serveHot looks at the keys that became hot, a bounded number at a time.
func (s *Service) serveHot(now catalog.Time) {
	if s.heat.mode == dynamicOff {
		return
	}
	for range limits.HeatBatch {
		select {
		case k := <-s.heat.hot:
			s.replicateHot(now, k)
		default:
			s.heat.forget(now)
			return
		}
	}
}

// replicateHot asks for one more copy of a key, if there is a place for it.
func (s *Service) replicateHot(now catalog.Time, k hotKey) {
	o, replicas, err := s.cat.Peek(k.kept, nil)
	replicas = inMemory(replicas)
	if err != nil || len(replicas) == 0 || len(replicas) >= s.heat.most {
		return
	}
	target := s.coolTarget(o.Size, replicas)
	if target == "" {
		return
	}
	if s.heat.mode == dynamicObserve {
		s.log.Info("a copy on demand would be made", zap.String("key", shortened(k.key)), zap.Int("copies", len(replicas)), zap.String("target", target))
		return
	}
	if !s.heat.may(now, k.kept, len(replicas)) {
		return
	}
	lease := s.heat.issue(now, uint64(s.cat.ValueTime(k.kept)))
	source := replicas[maphash.String(s.heat.seed, k.kept)%uint64(len(replicas))].Segment
	if _, code := s.askForCopy(k.tenant, k.key, source, []string{target}, lease, purpose{k.kept, true}); code != 0 {
		s.log.Warn("a copy on demand could not be asked for", zap.String("key", shortened(k.key)), zap.String("code", code.String()))
		return
	}
	s.log.Info("a copy on demand is asked for", zap.String("key", shortened(k.key)), zap.Int("copies", len(replicas)), zap.String("source", source.Name), zap.String("target", target))
}

// coolTarget chooses the segment for another copy: one that has none and is not too full with it, on another host if there
// is one, the emptiest among those.
func (s *Service) coolTarget(size uint64, replicas []catalog.Replica) (name string) {
	hosts, names := map[string]bool{}, map[string]bool{}
	for i := range replicas {
		hosts[replicas[i].Segment.HostID], names[replicas[i].Segment.Name] = true, true
	}
	best, apart := 2.0, false
	for _, st := range s.cat.Segments() {
		if names[st.Name] || !takes(&st) || st.Stage != catalog.StageActive || st.LargestFree < size {
			continue
		}
		use := float64(st.Used+size) / float64(st.Size)
		other := !hosts[st.HostID] || st.HostID == ""
		if use >= limits.HeatFullShare || apart && !other {
			continue
		}
		if other && !apart || use < best {
			name, best, apart = st.Name, use, other
		}
	}
	return name
}
