package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/replication"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// history is what keeps the master's decisions. Without a journal nothing does, and nothing waits.
type history struct {
	journal journal
	term    term              // nil unless this master is one of several
	async   bool              // --ha_ack=async
	names   map[string][]byte // recovered names of the metadata server
}

// journal is what the master needs of replication.Journal.
type journal interface {
	catalog.Log
	AppendName(n replication.NameChange) (number uint64)
	AppendNote(n replication.Note)
	Last() (number uint64)
	Durable() (number uint64)
	Wait(ctx context.Context, number uint64) error
	After(number uint64, do func())
	Room(ctx context.Context) error
	OnDurable(f func(number uint64))
	Failed() <-chan struct{}
	Err() error
	Run(ctx context.Context) error
	Close() error
}

// term is what the master needs to know of its leadership.
type term interface {
	Leads() bool
	WaitLeading(ctx context.Context) error
	Created() int64
	Stats() replication.Stats
	Knows(s replication.Secret) bool
}

// askOnly are the calls that change nothing worth keeping: their replies wait for nobody. Every other reply waits until
// all that was decided up to then is durable, since it may tell of it.
var askOnly = func() (only [wire.NumCalls]bool) {
	for _, id := range [...]wire.CallID{
		wire.CallExistKey, wire.CallBatchExistKey, wire.CallGetReplicaList, wire.CallBatchGetReplicaList, wire.CallGetReplicaListByRegex,
		wire.CallPing, wire.CallFetchTasks, wire.CallServiceReady, wire.CallGetStorageConfig, wire.CallGetFsdir,
		wire.CallBatchQueryIp, wire.CallProbeKey, wire.CallBatchProbeKey, wire.CallGetReplicaListForAdmin,
		wire.CallBatchGetReplicaListForAdmin, wire.CallQueryTask, wire.CallQuerySegmentStatus, wire.CallQuerySegmentStatusById,
	} {
		only[id] = true
	}
	return only
}()

// The values of --ha_ack.
const (
	ackDurable = "durable"
	ackAsync   = "async"
)

// ackEarly are the calls that --ha_ack=async answers before their outcome is durable. What a failover takes back of them is
// an object, or the absence of one. The others give ranges to writers, or tell owners that theirs are not used any more:
// answered early, a failover would let bytes of one object pass for those of another.
var ackEarly = func() (early [wire.NumCalls]bool) {
	for _, id := range [...]wire.CallID{
		wire.CallPutEnd, wire.CallBatchPutEnd, wire.CallUpsertEnd, wire.CallBatchUpsertEnd,
		wire.CallPutRevoke, wire.CallBatchPutRevoke, wire.CallUpsertRevoke, wire.CallBatchUpsertRevoke,
		wire.CallRemove, wire.CallBatchRemove, wire.CallRemoveByRegex, wire.CallRemoveAll, wire.CallBatchReplicaClear,
	} {
		early[id] = true
	}
	return early
}()

// openHistory reads the journal and makes its catalog the service's.
func (s *Service) openHistory() error {
	if s.cfg.DataDir == "" {
		s.cat = catalog.New(s.cfg.catalog())
		if s.cfg.journal != nil {
			s.keep(s.cfg.journal, nil, new(replication.Notes))
			s.history.async = s.cfg.HAAck == ackAsync
		}
		return nil
	}
	journal, past, err := replication.Open(replication.Config{
		Dir: s.cfg.DataDir, Sync: replication.Sync(s.cfg.JournalSync), SyncEvery: s.cfg.JournalSyncEvery, ForceEmpty: s.cfg.ForceEmpty,
		Catalog: s.cfg.catalog(), Log: s.log,
	})
	if err != nil {
		return fmt.Errorf("--data_dir=%s: %w", s.cfg.DataDir, err)
	}
	s.cat = past.Catalog
	s.clock.StartAt(past.StartTime(s.clock.Now()))
	s.cat.Resume(s.clock.Now())
	s.keep(journal, past.Names, past.Notes)
	s.cat.CloseWindows(s.clock.Now())
	stats := s.cat.Stats()
	s.log.Info("the journal is taken up: owners of segments have to be heard again", zap.String("data_dir", s.cfg.DataDir),
		zap.Uint64("objects", stats.Keys), zap.Uint64("segments", stats.Segments), zap.Uint64("bytes", stats.AllocatedBytes),
		zap.Int("dropped_objects", len(past.Dropped)))
	return nil
}

// keep puts every decision from now on into a journal.
func (s *Service) keep(j journal, names map[string][]byte, notes *replication.Notes) {
	s.cat.SetLog(j)
	j.OnDurable(s.cat.Settled)
	s.history = history{journal: j, names: names}
	s.families.recall(notes)
	s.families.remembering(s.clock.Now, j.AppendNote)
}

// admit waits until there is room for another decision. waited tells that there is, and that it may have taken a while.
func (h *history) admit(id wire.CallID) (waited bool, err error) {
	if h.journal == nil || askOnly[id] {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.LogRoomMs*time.Millisecond)
	defer cancel()
	err = h.journal.Room(ctx)
	return err == nil, err
}

// decided notes on the connection that the reply of a call has to wait for everything decided so far. An error says that
// the log does not take it.
func (h *history) decided(p *peerConn, id wire.CallID) error {
	switch {
	case h.journal == nil || askOnly[id]:
	case h.async && ackEarly[id]:
		return h.journal.Err()
	case p.started == startedOnly:
		p.waits = max(p.waits, p.after)
	default:
		p.waits = h.journal.Last()
	}
	return nil
}

// started tells what the call under way has done: when it only began writes, whoever asked for them need not wait for all
// that was decided.
type started uint8

const (
	startedNothing started = iota
	startedOnly
	startedAndMore
)

// begun notes that a write was begun, about which nobody may be told before the log is durable up to a number.
func (p *peerConn) begun(after uint64) {
	if p.started == startedNothing {
		p.started = startedOnly
	}
	p.after = max(p.after, after)
}

// refused notes that a write was refused: the reason may be something that is not durable.
func (p *peerConn) refused() { p.started = startedAndMore }

// Settle holds the replies of a connection until what they tell is durable.
func (p *port) Settle(c *rpc.Conn) error {
	if pc, ok := c.Tag.(*peerConn); ok && pc.waits != 0 {
		number := pc.waits
		pc.waits = 0
		if err := p.history.waitFor(number); err != nil {
			return err
		}
	}
	return p.history.waitLeading()
}

// waitLeading returns when an answer may be given. A master that may have been replaced tells nobody anything.
func (h *history) waitLeading() error {
	if h.term == nil || h.term.Leads() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.LogRoomMs*time.Millisecond)
	defer cancel()
	return h.term.WaitLeading(ctx)
}

// leads tells whether an answer may be given now.
func (h *history) leads() bool { return h.term == nil || h.term.Leads() }

// view is the number of the leadership, which clients compare; 0 without any.
func (h *history) view() int64 {
	if h.term == nil {
		return 0
	}
	return h.term.Created()
}

// afterwards runs do when everything decided so far is durable: at once without a journal, never if that fails.
func (h *history) afterwards(do func()) {
	if h.journal == nil {
		do()
		return
	}
	h.journal.After(h.journal.Last(), do)
}

// wait returns when everything decided so far is durable.
func (h *history) wait() error {
	if h.journal == nil {
		return nil
	}
	return h.waitFor(h.journal.Last())
}

// waitFor returns when everything up to a number is durable. Nobody is kept waiting for ever.
func (h *history) waitFor(number uint64) error {
	if h.journal.Durable() >= number {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.LogRoomMs*time.Millisecond)
	defer cancel()
	return h.journal.Wait(ctx, number)
}

// start writes the journal from now on, until the function it returns is called: after everybody who decides has ended.
func (h *history) start() (stop func() error) {
	if h.journal == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.journal.Run(ctx) }()
	return func() error {
		cancel()
		return errors.Join(<-ended, h.journal.Close())
	}
}

// watch ends the master when its decisions cannot be kept any more: it would have to lie.
func (h *history) watch(ctx context.Context) error {
	if h.journal == nil {
		return nil
	}
	select {
	case <-h.journal.Failed():
		return h.journal.Err()
	case <-ctx.Done():
		return nil
	}
}

// name keeps a step of the metadata server.
func (h *history) name(key string, value []byte, removed bool) {
	if h.journal != nil {
		h.journal.AppendName(replication.NameChange{Name: key, Value: value, Removed: removed})
	}
}

// catalog gives the rules of the catalog.
func (c *Config) catalog() catalog.Config {
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	var graceMs int64
	if c.HA {
		graceMs = limits.ResumeGraceMs
	}
	return catalog.Config{
		ResumeGraceMs: graceMs,
		LeaseMs:       ms(c.LeaseTTL), SoftPinMs: ms(c.SoftPinTTL), MaxSoftPinMs: ms(c.MaxSoftPinTTL),
		ClientActiveTTLMs: ms(c.ClientActiveTTL), ClientSuspicionTTLMs: ms(c.ClientSuspicionTTL), ClientLostTTLMs: ms(c.ClientLostTTL),
		SuspectMissedPingsMs: ms(c.suspectAfter), WriterQuarantineMs: limits.WriterQuarantineMs,
		PutDiscardMs: ms(c.PutDiscard), PutReleaseMs: ms(c.PutRelease),
		BundleStagingIdleMs: ms(c.BundleStagingIdle), HideDamagedBundles: c.HideDamagedBundles, Retention: c.BundleRetention,
		EvictionRatio: c.EvictionRatio, HighWatermark: c.HighWatermark, AllowEvictSoftPinned: c.AllowEvictSoftPinned,
		Offload: c.Offload, OffloadOnEvict: c.OffloadOnEvict, OffloadForce: c.OffloadForce,
		OffloadQueueMax: c.OffloadQueue, OffloadCapRatio: c.OffloadCapRatio,
		PromoteOnHit: c.PromoteOnHit, PromoteThreshold: uint8(min(max(c.PromoteThreshold, 1), 255)), PromoteQueueMax: c.PromoteQueue, PromotePerBeat: c.PromotePerBeat,
		Sums: c.Checksum, TenantWatermark: c.TenantWatermark, TenantsEvictOnPut: c.TenantsEvictOnPut,
		Seed: uint64(time.Now().UnixNano()),
	}
}
