package master

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/kvevents"
)

// EventConfig says whether and how subscribers are told of objects that come and go.
type EventConfig struct {
	On       bool
	Endpoint string // tcp://HOST:PORT
	Tenant   string // what the default tenant is called there
	Queue    int
	kvevents.Options
}

func (e *EventConfig) check() error {
	switch {
	case !e.On:
		return nil
	case e.Endpoint == "":
		return fmt.Errorf("--enable_kv_events needs --kv_events_bind_endpoint: tcp://HOST:PORT, where subscribers connect")
	case e.BackendID == "":
		return fmt.Errorf("--enable_kv_events needs --kv_events_backend_id: what subscribers know this cluster by")
	case e.Queue < 0 || e.Queue > math.MaxInt32:
		return fmt.Errorf("--kv_events_queue_capacity=%d is outside 0..%d", e.Queue, math.MaxInt32)
	}
	return nil
}

// addEvents lists the settings about events, as far as they matter.
func (c *Config) addEvents(add func(name string, value any)) {
	e := &c.Events
	if !e.On {
		return
	}
	add("enable_kv_events", e.On)
	add("kv_events_bind_endpoint", e.Endpoint)
	add("kv_events_backend_id", e.BackendID)
	add("kv_events_emit_legacy_compat", e.Legacy)
	add("kv_events_emit_object_key", e.ObjectKey)
	add("kv_events_queue_capacity", e.Queue)
}

// openEvents opens the socket for subscribers, if there is to be one.
func (c *Config) openEvents() (*kvevents.Publisher, error) {
	if !c.Events.On {
		return nil, nil
	}
	socket, err := kvevents.Listen(c.Events.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("--kv_events_bind_endpoint: %w", err)
	}
	return kvevents.New(c.Events.Options, socket, c.Events.Queue), nil
}

// events gathers what the catalog tells until it is durable: nobody is told of an object that a crash could take back. Its
// lock is a leaf.
type events struct {
	publisher *kvevents.Publisher // nil: nobody is told
	some      chan struct{}       // pending begins to fill

	mu      sync.Mutex
	pending []kvevents.Event
	lost    int
}

// watchObjects lets the catalog tell of objects, and begins the epoch of this leader.
func (s *Service) watchObjects() {
	s.cat.OnObject(s.hearObject)
	s.cat.OnlyWhenHeard(func() bool { return s.events.publisher != nil || s.watchers.count.Load() > 0 })
	if s.events.publisher == nil {
		return
	}
	epoch := uint64(s.history.view())
	if epoch == 0 {
		epoch = uint64(time.Now().UnixMilli()) // higher than that of the start before
	}
	s.events.publisher.Begin(epoch)
}

// hearObject is called under the catalog's lock.
func (s *Service) hearObject(o catalog.ObjectEvent) {
	s.watchers.hear(s, &o)
	if s.events.publisher == nil {
		return
	}
	tenant, key := s.plainKey(o.Key)
	_, group := s.plainKey(o.Group)
	if tenant == defaultTenant {
		tenant = s.cfg.Events.Tenant
	}
	e := kvevents.Event{Kind: kvevents.Stored, Tenant: strings.Clone(tenant), Medium: "cpu", Key: strings.Clone(key), Group: strings.Clone(group)}
	if o.Gone {
		e.Kind = kvevents.Removed
	}
	if o.Disk {
		e.Medium = "disk"
	}
	s.events.add(e)
}

func (e *events) add(x kvevents.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) >= limits.EventsQueueMax {
		e.lost++
		return
	}
	if e.pending = append(e.pending, x); len(e.pending) == 1 {
		ring(e.some)
	}
}

// ring tells the other side of a channel that holds one that there is something; it may know already.
func ring(some chan<- struct{}) {
	select {
	case some <- struct{}{}:
	default:
	}
}

// gathered calls do a while after there begins to be something, until ctx ends. While there is nothing nobody wakes up.
func gathered(ctx context.Context, some <-chan struct{}, while time.Duration, do func()) error {
	wait := time.NewTimer(while)
	defer wait.Stop()
	wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-some:
		}
		wait.Reset(while)
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
			do()
		}
	}
}

// cleared tells that nothing is left.
func (s *Service) cleared() {
	if s.events.publisher != nil && s.cat.Stats().Keys == 0 {
		s.events.add(kvevents.Event{Kind: kvevents.Cleared, Tenant: s.cfg.Events.Tenant})
	}
}

// publish passes on what is durable until ctx ends.
func (s *Service) publish(ctx context.Context) error {
	return gathered(ctx, s.events.some, limits.EventsFlushMs*time.Millisecond, func() {
		e := &s.events
		e.mu.Lock()
		pending, lost := e.pending, e.lost
		e.pending, e.lost = nil, 0
		e.mu.Unlock()
		if len(pending)+lost == 0 || s.history.wait() != nil || !s.history.leads() {
			return
		}
		e.publisher.Add(pending...)
		e.publisher.Lose(lost)
		e.publisher.Flush()
	})
}
