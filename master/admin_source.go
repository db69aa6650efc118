package master

import (
	"mooncake/catalog"
	"mooncake/kvevents"
	"mooncake/metrics"
)

// AdminSource is what the admin pages show. Its methods may be called from any goroutine.
type AdminSource interface {
	metrics.Source
	BundleSource
	WorkloadSource
	TenantSource
	DrainSource
	PinSource
	InspectSource
	// Standing tells the role of this process in the cluster.
	Standing() Standing
	// Keys yields the readable keys and holds no lock while it does.
	Keys(yield func(key string) bool)
	// SegmentStatuses lists the mounted segments.
	SegmentStatuses() []catalog.SegmentStatus
	// Lookup returns the readable replicas of an object and grants a lease, like the look-up of a client.
	Lookup(key string) ([]catalog.Replica, error)
	// EventStats tells whether events about objects are published, and how many were.
	EventStats() (on bool, stats kvevents.Stats)
	// FilePath is where the file of an object lies that all clients share.
	FilePath(key string) string
}

// Standing is the role of a master. Without high availability it is always Alone.
type Standing struct {
	Role          string // leader or standby
	State         string // starting, standby, candidate, recovering, catching_up, leader_warmup or serving
	Ready         bool   // the object pages answer
	LeaderAddress string // "" when there is no election
	ViewVersion   uint64 // of the leader's record; meaningless without LeaderAddress
	Promotable    bool   // a standby that could lead at once
	Applied       uint64 // records of the log in this master
	Newest        uint64 // records of the log, when it was asked last
	Objects       uint64 // that this master has, or would if it led
	NoSpace       bool   // etcd is full: nothing is acknowledged
	Unacked       uint64 // decisions of a leader that are not in the log yet
}

// Alone is the standing of a master that knows no others.
var Alone = Standing{Role: "leader", State: "serving", Ready: true}

// adminHandler returns the admin pages of this master.
func (s *Service) adminHandler(*Server) *Admin {
	a := NewAdmin(s, s.calls, adminBuild)
	a.addDebug(s.callLog, s.cfg.Pprof)
	return a
}

// adminBuild is what /version and the build series say: the number of the protocol generation that clients ask for, and
// who answers.
var adminBuild = metrics.Build{Version: "2.0.0", Display: "mooncake (go)"}

// Standing implements AdminSource.
func (s *Service) Standing() Standing {
	alone := Alone
	alone.Objects = s.cat.KeyCount()
	return alone
}

// Keys implements AdminSource. Where tenants are told apart it is the keys of the default one.
func (s *Service) Keys(yield func(key string) bool) {
	for key := range s.cat.Keys {
		if tenant, plain := s.plainKey(key); tenant == defaultTenant && !yield(plain) {
			return
		}
	}
}

// SegmentStatuses implements AdminSource.
func (s *Service) SegmentStatuses() []catalog.SegmentStatus { return s.cat.Segments() }

// Segments implements metrics.Source.
func (s *Service) Segments() []metrics.Segment {
	mounted := s.cat.Segments()
	out := make([]metrics.Segment, len(mounted))
	for i, m := range mounted {
		out[i] = metrics.Segment{Name: m.Name, AllocatedBytes: m.Used, CapacityBytes: m.Size, Replicas: m.ObjectCount}
	}
	return out
}

// Lookup implements AdminSource.
func (s *Service) Lookup(key string) ([]catalog.Replica, error) {
	key, _ = s.keyOf(defaultTenant, key)
	_, replicas, err := s.cat.Get(s.clock.Now(), key, nil)
	return replicas, err
}

// FilePath implements AdminSource.
func (s *Service) FilePath(key string) string {
	key, _ = s.keyOf(defaultTenant, key)
	return s.cfg.fileOf(key)
}

// EventStats implements AdminSource.
func (s *Service) EventStats() (on bool, stats kvevents.Stats) {
	if s.events.publisher == nil {
		return false, kvevents.Stats{}
	}
	return true, s.events.publisher.Stats()
}
