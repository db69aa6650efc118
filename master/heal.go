package master

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// healer has objects copied again that have fewer copies than their puts asked for: because a segment is gone or lost, or
// because there was no other host when they were written. Who has a copy left is asked to copy it, as for any other task.
//
// It looks through the catalog only when something has happened that may have made objects thin, or may let them be helped,
// and does nothing at all where no object is to have more than one copy. Nothing of it is durable: a new leader looks anew.
// Its lock is held over calls into the catalog and the book of tasks.
type healer struct {
	on        bool
	bandwidth uint64 // bytes a second
	tasks     int    // that one client has at a time

	mu       sync.Mutex
	sign     uint64       // of the catalog when the copies under way were last judged by it
	looked   uint64       // of the catalog when the last look began
	lookAt   catalog.Time // no look begins before
	walk     *catalog.HealWalk
	found    []catalog.Thin // by the look under way: too few copies
	queue    []catalog.Thin // what is still to be asked for, in order
	active   map[string]errand
	asked    map[wire.UUID]int // tasks under way, by client
	coming   map[string]uint64 // bytes under way, by target
	unhelped int               // of the last look: without a host, or failed
	again    catalog.Time      // when those are looked at again
	budget   int64             // bytes that may be asked for now
	filled   catalog.Time      // when the budget was added to last
	began    catalog.Time      // of the healing under way; 0 is none
	before   HealInfo          // what there was at its beginning
	info     HealInfo
	room     float64 // bytes that may still be copied in this step
	full     float64 // share of a segment, and of the pool, above which nothing is copied

	segments uint64 // sign of those that steady knows
	steady   steadiness

	surplus []string     // objects with more copies than they are to have, found by looks
	kept    []string     // those that could not be trimmed yet
	beyond  bool         // there were more than are remembered
	trimAt  catalog.Time // when trimming goes on

	moves balancer
}

// HealInfo tells how far objects with too few copies have come.
type HealInfo struct {
	On        bool   `json:"on"`
	Waiting   int    `json:"waiting_objects"`  // known to have too few copies, and not asked for yet
	Copying   int    `json:"copying_objects"`  // asked for
	Unhelped  int    `json:"unhelped_objects"` // of the last look: there is no host without a copy that has room, or it failed
	Looks     uint64 `json:"looks"`            // through all objects
	Objects   uint64 `json:"copied_objects"`
	Bytes     uint64 `json:"copied_bytes"`
	Failures  uint64 `json:"failed_copies"`
	Cancelled uint64 `json:"cancelled_copies"` // because a segment came back, or one who is needed for it went
	Surplus   int    `json:"surplus_objects"`  // with more copies than they are to have
	Trimmed   uint64 `json:"trimmed_copies"`   // taken away of such

	Rebalance   string `json:"rebalance"`      // off, once or always
	Moving      int    `json:"moving_objects"` // from full segments to empty ones
	Moved       uint64 `json:"moved_objects"`
	MovedBytes  uint64 `json:"moved_bytes"`
	FailedMoves uint64 `json:"failed_moves"`

	Hot     int64  `json:"hot_objects"` // that have copies because they are read much
	Made    uint64 `json:"hot_copies_made"`
	Dropped uint64 `json:"hot_copies_dropped"` // because the object was read less
}

func newHealer(c *Config) *healer {
	return &healer{
		on: c.Heal, bandwidth: c.HealBandwidth, tasks: c.HealTasks, info: HealInfo{On: c.Heal}, full: healFull(c.HighWatermark),
		active: map[string]errand{}, asked: map[wire.UUID]int{}, coming: map[string]uint64{},
		moves: balancer{on: c.Rebalance, active: map[string]errand{}, shift: map[string]int64{}},
	}
}

// healFull is how full copies may make a segment, or the pool: less than what has others evicted.
func healFull(watermark float64) float64 {
	if watermark > 0 {
		return min(limits.HealFullShare, watermark)
	}
	return limits.HealFullShare
}

// checkHealing refuses settings that mean nothing.
func (c *Config) checkHealing() error {
	switch {
	case c.HealTasks < 1 || c.HealTasks > limits.HealTasksMax:
		return fmt.Errorf("--heal_tasks=%d: must be from 1 to %d", c.HealTasks, limits.HealTasksMax)
	case c.HealBandwidth < limits.HealBandwidthMin || c.HealBandwidth > limits.HealBandwidthMax:
		return fmt.Errorf("--heal_bandwidth=%d: must be from %d to %d bytes a second", c.HealBandwidth, limits.HealBandwidthMin, uint64(limits.HealBandwidthMax))
	}
	return nil
}

// Healing implements InspectSource.
func (s *Service) Healing() HealInfo {
	h := s.healer
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.info
	out.Moving = len(h.moves.active)
	out.Waiting, out.Copying, out.Unhelped = len(h.queue)+len(h.found), len(h.active), h.unhelped
	out.Surplus, out.Rebalance = len(h.surplus)+len(h.kept), h.moves.mode()
	out.Hot, out.Made, out.Dropped = s.heat.grown.Load(), s.heat.made.Load(), s.heat.dropped.Load()
	return out
}

// stepHeal brings the healing on: it hears how copies ended, looks for thin objects when there is a reason, and asks for
// copies as far as the bounds allow.
func (s *Service) stepHeal(now catalog.Time) {
	h := s.healer
	if !h.on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.hearCopies(now)
	s.beginLook(now)
	if h.walk != nil {
		s.lookThrough(now)
	}
	h.fill(now)
	s.askForHealing(now)
	s.trimSurplus(now)
	h.tellEnd(s.log, now)
}

// noticeSegments takes up which segments came and went.
func (s *Service) noticeSegments(now catalog.Time) {
	h := s.healer
	h.mu.Lock()
	defer h.mu.Unlock()
	if sign := s.cat.SegmentSign(); sign != h.segments {
		h.segments = sign
		h.steady.notice(now, s.cat.AllSegments())
	}
}

// hearCopies takes up how the copies under way ended.
func (s *Service) hearCopies(now catalog.Time) {
	h := s.healer
	hear(s.tasks, h.active, func(key string, e errand, done bool) {
		h.forget(e)
		if !done {
			h.info.Failures++
			h.unhelped++
			h.again = max(h.again, now+limits.HealAgainMs)
			return
		}
		h.info.Objects++
		h.info.Bytes += e.size * uint64(len(e.to))
		if object, copies, _ := s.cat.ThinCopies(key, nil); len(copies) > object.Wanted {
			h.spare(key) // a segment came back meanwhile
		}
	})
}

// spare notes an object that has more copies than it is to have. What is beyond the bound is found by another look.
func (h *healer) spare(key string) {
	if len(h.surplus)+len(h.kept) >= limits.HealQueue {
		h.beyond = true
		return
	}
	h.surplus = append(h.surplus, key)
}

// forget takes a copy that is over off the sums.
func (h *healer) forget(e errand) {
	if h.asked[e.client]--; h.asked[e.client] == 0 {
		delete(h.asked, e.client)
	}
	for _, target := range e.to {
		if h.coming[target] -= e.size; h.coming[target] == 0 {
			delete(h.coming, target)
		}
	}
}

// fill adds to the budget what the bandwidth allows since the last time, up to a second's worth.
func (h *healer) fill(now catalog.Time) {
	second := int64(h.bandwidth)
	passed := min(int64(now-h.filled), 1000)
	if h.filled == 0 || passed < 0 {
		passed = 1000
	}
	h.budget, h.filled = min(second, h.budget+second/1000*passed), now
}

// askForHealing asks for copies in the order of the queue. What its owners have no place for at the moment keeps its turn.
func (s *Service) askForHealing(now catalog.Time) {
	h := s.healer
	if len(h.queue) == 0 {
		return
	}
	targets := s.healTargets(now)
	usable, allocated := s.cat.Filled()
	h.room = h.full*float64(usable) - float64(allocated)
	for _, e := range h.active {
		h.room -= float64(e.size) * float64(len(e.to))
	}
	var kept []catalog.Thin
	at := 0
	for ; at < len(h.queue) && h.budget > 0 && len(kept) < limits.HealTasksMax; at++ {
		switch s.healOne(now, h.queue[at].Key, targets) {
		case healLater:
			kept = append(kept, h.queue[at])
		case healNowhere:
			h.unhelped++
			h.again = max(h.again, now+limits.HealAgainMs)
		}
	}
	h.queue = append(kept, h.queue[at:]...)
}

// What becomes of an object that is to be healed.
const (
	healAsked   = iota // or there is nothing to do
	healLater          // those who could copy it have enough to do
	healNowhere        // no host without a copy has room, the pool has none, or nobody can copy it
)

// healOne asks for the missing copies of one object.
func (s *Service) healOne(now catalog.Time, key string, targets []healTarget) int {
	h := s.healer
	if _, busy := h.active[key]; busy {
		return healAsked
	}
	thin, copies, isThin := s.cat.ThinCopies(key, nil)
	if !isThin {
		return healAsked
	}
	source := h.sourceOf(copies)
	switch {
	case source == nil:
		return healNowhere
	case h.asked[wireID(source.Client)] >= h.tasks:
		return healLater
	}
	names := h.places(&thin, copies, targets)
	if len(names) == 0 || h.room < float64(thin.Size)*float64(len(names)) {
		return healNowhere
	}
	tenant, plain := s.plainKey(key)
	id, code := s.askForCopy(tenant, plain, source, names, dynamicLease{}, purpose{key: key})
	if code != 0 {
		return healLater // too many tasks wait
	}
	e := errand{task: id, client: wireID(source.Client), size: thin.Size, to: names}
	h.active[key] = e
	h.asked[e.client]++
	for _, name := range names {
		h.coming[name] += thin.Size
	}
	if len(names) < thin.Wanted-thin.Copies { // for the others there is no host now
		h.unhelped++
		h.again = max(h.again, now+limits.HealAgainMs)
	}
	h.room -= float64(thin.Size) * float64(len(names))
	h.budget -= int64(min(thin.Size*uint64(len(names)), 1<<62))
	return healAsked
}

// sourceOf chooses who copies an object: an owner that answers and has least to do.
func (h *healer) sourceOf(copies []catalog.Copy) (source *catalog.SegmentInfo) {
	first := rand.IntN(max(1, len(copies)))
	for i := range copies {
		c := &copies[(first+i)%len(copies)]
		if c.Stage == catalog.StageActive && (source == nil || h.asked[wireID(c.Segment.Client)] < h.asked[wireID(source.Client)]) {
			source = c.Segment
		}
	}
	return source
}

// healTarget is a segment that can take copies.
type healTarget struct {
	name, host        string
	used, size, large uint64
}

// healTargets lists the segments that take copies. A task names a segment by its name, so one that shares it is none; nor is
// one whose host comes and goes.
func (s *Service) healTargets(now catalog.Time) (targets []healTarget) {
	named := map[string]int{}
	list := s.cat.AllSegments()
	for i := range list {
		named[list[i].Name]++
	}
	for i := range list {
		st := &list[i]
		if named[st.Name] == 1 && st.Status == catalog.SegmentOK && st.Stage == catalog.StageActive && s.healer.steady.takes(now, st.ID, st.Host()) {
			targets = append(targets, healTarget{st.Name, st.Host(), st.Used, st.Size, st.LargestFree})
		}
	}
	return targets
}

// places chooses where the missing copies go: to hosts that have none, the emptiest first. None is filled beyond the share
// at which others would be evicted for it.
func (h *healer) places(thin *catalog.Thin, copies []catalog.Copy, targets []healTarget) (names []string) {
	hosts := map[string]bool{}
	for i := range copies {
		hosts[copies[i].Host] = true
	}
	for len(names) < thin.Wanted-thin.Copies {
		best, least := -1, h.full
		for i := range targets {
			t := &targets[i]
			use := float64(t.used+h.coming[t.name]+thin.Size) / float64(t.size)
			if !hosts[t.host] && t.large >= thin.Size && use < least {
				best, least = i, use
			}
		}
		if best < 0 {
			return names
		}
		names = append(names, targets[best].name)
		hosts[targets[best].host] = true
	}
	return names
}

// tellEnd says in the log that a healing is over.
func (h *healer) tellEnd(log *zap.Logger, now catalog.Time) {
	if h.began == 0 || h.walk != nil || len(h.queue) > 0 || len(h.active) > 0 {
		return
	}
	log.Info("objects were copied again", zap.String("action", "heal_ends"), zap.Uint64("objects", h.info.Objects-h.before.Objects),
		zap.Uint64("bytes", h.info.Bytes-h.before.Bytes), zap.Uint64("failed", h.info.Failures-h.before.Failures), zap.Int("left", h.unhelped),
		zap.Int64("took_ms", int64(now-h.began)))
	h.began = 0
}

// cancel ends a task that nobody has fetched yet.
func (b *taskBook) cancel(now catalog.Time, id wire.UUID, why string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byID[id]
	if t == nil || t.status != wire.TaskStatusPending {
		return false
	}
	b.withdraw(t)
	b.end(now, t, wire.TaskStatusFailed, why)
	return true
}
