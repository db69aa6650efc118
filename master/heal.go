package master

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"go.uber.org/zap"

	"mooncake/bundle"
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
	sign     uint64 // of the catalog when the last look began
	walk     *catalog.HealWalk
	found    []catalog.Thin // by the look under way
	queue    []catalog.Thin // what is still to be asked for, in order
	active   map[string]healing
	asked    map[wire.UUID]int // tasks under way, by client
	coming   map[string]uint64 // bytes under way, by target
	unhelped int               // of the last look: without a host, or failed
	again    catalog.Time      // when those are looked at again
	budget   int64             // bytes that may be asked for now
	filled   catalog.Time      // when the budget was added to last
	began    catalog.Time      // of the healing under way; 0 is none
	before   HealInfo          // what there was at its beginning
	info     HealInfo

	moves balancer
}

// healing is one copy that was asked for.
type healing struct {
	task    wire.UUID
	client  wire.UUID
	size    uint64
	targets []string
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
	Cancelled uint64 `json:"cancelled_copies"` // because a segment came back, or the one who was asked went

	Moving      int    `json:"moving_objects"` // from full segments to empty ones
	Moved       uint64 `json:"moved_objects"`
	MovedBytes  uint64 `json:"moved_bytes"`
	FailedMoves uint64 `json:"failed_moves"`
}

func newHealer(c *Config) *healer {
	return &healer{
		on: c.Heal, bandwidth: c.HealBandwidth, tasks: c.HealTasks, info: HealInfo{On: c.Heal},
		active: map[string]healing{}, asked: map[wire.UUID]int{}, coming: map[string]uint64{},
		moves: balancer{on: c.Rebalance, active: map[string]moving{}, shift: map[string]int64{}},
	}
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
	sign := s.cat.HealSign()
	if sign == 0 {
		h.sign, h.walk, h.found, h.queue, h.unhelped = 0, nil, nil, nil, 0
	}
	if sign != h.sign || h.unhelped > 0 && now >= h.again && h.walk == nil && len(h.queue) == 0 {
		if sign != h.sign {
			s.cancelCopies()
		}
		h.sign, h.walk, h.found, h.unhelped, h.again = sign, new(catalog.HealWalk), nil, 0, now+limits.HealAgainMs
	}
	if h.walk != nil {
		s.lookForThin(now)
	}
	h.fill(now)
	s.askForHealing(now)
	h.tellEnd(s.log, now)
}

// hearCopies takes up how the copies under way ended.
func (s *Service) hearCopies(now catalog.Time) {
	h := s.healer
	for key, a := range h.active {
		t, known := s.tasks.query(a.task)
		switch {
		case known && t.Status == wire.TaskStatusSuccess:
			h.info.Objects++
			h.info.Bytes += a.size * uint64(len(a.targets))
		case !known || t.Status == wire.TaskStatusFailed:
			h.info.Failures++
			h.unhelped++
			h.again = max(h.again, now+limits.HealAgainMs)
		default:
			continue
		}
		h.over(key, a)
	}
}

// over forgets a copy under way.
func (h *healer) over(key string, a healing) {
	delete(h.active, key)
	if h.asked[a.client]--; h.asked[a.client] == 0 {
		delete(h.asked, a.client)
	}
	for _, target := range a.targets {
		if h.coming[target] -= a.size; h.coming[target] == 0 {
			delete(h.coming, target)
		}
	}
}

// cancelCopies takes back what nobody has begun and is not needed any more, because a segment is back, and what was asked
// of those who are gone themselves.
func (s *Service) cancelCopies() {
	h := s.healer
	for key, a := range h.active {
		_, copies, thin := s.cat.ThinCopies(key, nil)
		owns := slices.ContainsFunc(copies, func(c catalog.Copy) bool { return wireID(c.Segment.Client) == a.client })
		if thin && owns {
			continue
		}
		if s.tasks.cancel(s.clock.Now(), a.task, "not needed any more") || !owns {
			h.info.Cancelled++
			h.over(key, a)
		}
	}
}

// lookForThin goes on with the look through the catalog. When it is done what it found is the queue: fewest copies first,
// what belongs to one bundle together.
func (s *Service) lookForThin(now catalog.Time) {
	h := s.healer
	for range limits.HealSlices {
		var more bool
		if h.found, more = s.cat.ThinSlice(h.walk, h.found); len(h.found) > 2*limits.HealQueue {
			h.cut()
		}
		if more {
			continue
		}
		h.cut()
		h.queue, h.found, h.walk = h.found, nil, nil
		h.info.Looks++
		if len(h.queue) > 0 && h.began == 0 {
			h.began, h.before = now, h.info
			s.log.Warn("objects have fewer copies than they were put with", zap.String("action", "heal_begins"), zap.Int("objects", len(h.queue)),
				zap.Int("fewest_copies", h.queue[0].Copies))
		}
		return
	}
}

// cut brings what was found into order, and leaves out what is beyond the bound: the next look finds it.
func (h *healer) cut() {
	slices.SortFunc(h.found, func(a, b catalog.Thin) int {
		return cmp.Or(cmp.Compare(a.Copies, b.Copies), cmp.Compare(bundle.Prefix(a.Key), bundle.Prefix(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	if len(h.found) > limits.HealQueue {
		clear(h.found[limits.HealQueue:])
		h.found = h.found[:limits.HealQueue]
		h.unhelped++ // there is more to do
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
	targets := s.healTargets()
	var kept []catalog.Thin
	at := 0
	for ; at < len(h.queue) && h.budget > 0 && len(kept) < limits.HealTasksMax; at++ {
		switch s.healOne(h.queue[at].Key, targets) {
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
	healNowhere        // no host without a copy has room, or nobody can copy it
)

// healOne asks for the missing copies of one object.
func (s *Service) healOne(key string, targets []healTarget) int {
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
	if len(names) == 0 {
		return healNowhere
	}
	tenant, plain := s.plainKey(key)
	id, code := s.askForCopy(tenant, plain, source, names, dynamicLease{})
	if code != 0 {
		return healLater // too many tasks wait
	}
	a := healing{id, wireID(source.Client), thin.Size, names}
	h.active[key] = a
	h.asked[a.client]++
	for _, name := range names {
		h.coming[name] += thin.Size
	}
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

// healTargets lists the segments that take copies. A task names a segment by its name, so one that shares it is none.
func (s *Service) healTargets() (targets []healTarget) {
	named := map[string]int{}
	list := s.cat.AllSegments()
	for i := range list {
		named[list[i].Name]++
	}
	for i := range list {
		if st := &list[i]; named[st.Name] == 1 && st.Status == catalog.SegmentOK && st.Stage == catalog.StageActive {
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
		best, least := -1, limits.HealFullShare
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
