package rdma

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// pollBatch is how many completions are taken at a time.
const pollBatch = 64

// rail is one device that we are reached by, with the port and the address that were chosen on it.
type rail struct {
	f    *Fabric
	name string
	nic  nic
	caps deviceCaps

	loops   sync.WaitGroup
	closing sync.Once
	failed  error // of closing

	looking sync.Mutex    // one refresh at a time
	use     sync.RWMutex  // held for reading while something is made on the device, for writing to wait for that
	credits chan struct{} // one for each request of a copy: they share the completion queue

	mu      sync.Mutex
	verdict Verdict
	info    portInfo
	usable  bool
	gone    bool
	flights map[uint64]flight
	lastID  uint64
	owners  map[uint32]owner // by the number of the queue pair

	count railCounters
}

type railCounters struct {
	events                      [eventKinds]atomic.Uint64
	portDowns                   atomic.Uint64
	readOps, readBytes          atomic.Uint64
	writeOps, writeBytes        atomic.Uint64
	errors                      atomic.Uint64
	registeredBytes, registered atomic.Int64
	qps                         atomic.Int64
}

// owner is whom a queue pair belongs to: a peer, or nil for a route.
type owner struct {
	p  *peer
	qp queuePair
}

// flight is a work request that has not completed.
type flight struct {
	qp   queuePair
	done func(completion)
}

// openRail opens a device and starts to listen to it.
func openRail(f *Fabric, verbs layer, v Verdict) (*rail, error) {
	nic, err := verbs.open(v.Device, limits.RDMACompletions)
	if err != nil {
		return nil, err
	}
	r := &rail{
		f: f, name: v.Device, nic: nic, verdict: v, credits: make(chan struct{}, limits.RDMACopiesPerDevice),
		flights: map[uint64]flight{}, owners: map[uint32]owner{},
	}
	if r.caps, err = nic.caps(); err == nil {
		err = r.look()
	}
	if err != nil {
		_ = nic.close() // the first error is the one to tell
		return nil, err
	}
	r.loops.Go(r.completeUntilWoken)
	r.loops.Go(r.listenUntilWoken)
	return r, nil
}

// condition reports whether the rail carries traffic, and whether its device is there at all.
func (r *rail) condition() (usable, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usable, r.gone
}

func (r *rail) describe() descriptor.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return descriptor.Device{Name: r.name, GID: r.verdict.GID.String(), LID: r.info.lid}
}

// to makes the path from here to a peer's queue pair.
func (r *rail) to(gid GID, lid uint16, qp uint32) qpPath {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := &r.f.cfg
	return qpPath{
		port: r.verdict.Port, gidIndex: r.verdict.GIDIndex, pkeyIndex: r.verdict.PKeyIndex,
		mtuBytes: min(r.info.mtuBytes, cfg.MTU), trafficClass: cfg.TrafficClass, serviceLevel: cfg.ServiceLevel,
		peerGID: gid, peerLID: lid, peerQP: qp,
		timeout: cfg.Timeout, retry: cfg.Retry,
		readsServed: min(r.caps.readsServed, limits.RDMAReadsAtOnce), readsOut: min(r.caps.readsOut, limits.RDMAReadsAtOnce),
	}
}

// look reads port and address when the device is opened.
func (r *rail) look() error {
	info, err := r.nic.port(r.verdict.Port)
	if err != nil {
		return err
	}
	gid, err := r.nic.gid(r.verdict.Port, r.verdict.GIDIndex)
	if err != nil {
		return err
	}
	r.info, r.verdict.GID, r.usable = info, gid, info.active && !gid.IsZero()
	return nil
}

// refresh reads port and address again, and tells the owner and the peers when they are not what they were.
func (r *rail) refresh() {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	verdict, was, usable, gone := r.verdict, r.info, r.usable, r.gone
	r.mu.Unlock()
	if gone {
		return
	}
	info, err := r.nic.port(verdict.Port)
	var gid GID
	if err == nil {
		gid, err = r.nic.gid(verdict.Port, verdict.GIDIndex)
	}
	if err != nil {
		r.lose(err)
		return
	}
	if gid != verdict.GID {
		verdict.GIDIndex, gid = r.findAddress(verdict, gid)
	}
	moved := gid != verdict.GID && !gid.IsZero()
	works := info.active && !gid.IsZero()
	r.mu.Lock()
	r.info, r.usable, r.verdict.GIDIndex = info, works, verdict.GIDIndex
	if moved { // an address that is away for a while may come back, and peers know the old one
		r.verdict.GID = gid
	}
	r.mu.Unlock()
	if !moved && works == usable && info == was {
		return
	}
	if usable && !works {
		r.count.portDowns.Add(1)
	}
	r.f.cfg.Log.Info("RDMA port changed", zap.String("device", r.name), zap.Int("port", verdict.Port), zap.String("state", info.state),
		zap.Stringer("gid", gid), zap.Bool("usable", works), zap.Int("mtu", info.mtuBytes))
	if moved {
		r.f.doomRail(r, addressChanged)
		r.f.dropRoutes(r)
	}
	r.f.tellChanged()
}

// findAddress says which place of the table to use when the known one does not hold our address any more. The address may
// have got another place: the kernel keeps the old one blocked while queue pairs refer to it.
func (r *rail) findAddress(v Verdict, now GID) (int, GID) {
	for i := range limits.RDMAGIDSearch {
		if gid, err := r.nic.gid(v.Port, i); err != nil {
			break
		} else if gid == v.GID {
			return i, gid
		}
	}
	if r.f.cfg.Rechoose != nil {
		if again, err := r.f.cfg.Rechoose(r.name); err == nil && again.Port == v.Port && again.GIDIndex >= 0 {
			return again.GIDIndex, again.GID
		}
	}
	return v.GIDIndex, now
}

// lose marks the device as gone; Run clears away what is left of it.
func (r *rail) lose(why error) {
	r.mu.Lock()
	first := !r.gone
	r.gone, r.usable = true, false
	r.mu.Unlock()
	if !first {
		return
	}
	r.f.cfg.Log.Warn("RDMA device is gone", zap.String("device", r.name), zap.Error(why))
	r.f.tellChanged()
	nudge(r.f.kicked)
}

// newPair makes a queue pair for a peer of the table, or for a path of ours when p is nil.
func (r *rail) newPair(sendWRs int, p *peer) (queuePair, error) {
	release, err := r.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	qp, err := r.nic.createQP(sendWRs)
	if err != nil {
		return nil, err
	}
	r.count.qps.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[qp.number()] = owner{p, qp}
	return qp, nil
}

// hold keeps the device from being closed until release.
func (r *rail) hold() (release func(), err error) {
	r.use.RLock()
	if _, gone := r.condition(); gone {
		r.use.RUnlock()
		return nil, fmt.Errorf("device %s is gone", r.name)
	}
	return r.use.RUnlock, nil
}

// settle waits for whatever is being made on a device that is gone; nothing more will be.
func (r *rail) settle() {
	r.use.Lock()
	r.use.Unlock() //lint:ignore SA2001 an empty section is a barrier
}

// post hands work to a queue pair; done is called once, on the goroutine that polls or on one that retires the queue pair.
// An error means that nothing was posted and done will not be called.
func (r *rail) post(qp queuePair, w work, done func(completion)) error {
	r.mu.Lock()
	r.lastID++
	w.id = r.lastID
	r.flights[w.id] = flight{qp: qp, done: done}
	r.mu.Unlock()
	err := qp.post(w)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	_, ours := r.flights[w.id]
	delete(r.flights, w.id)
	r.mu.Unlock()
	if !ours { // retired meanwhile, and done was told
		return nil
	}
	return err
}

// retire destroys a queue pair. When it returns the device touches no memory for it any more, and every request that had
// not completed has been told that it never will.
func (r *rail) retire(qp queuePair) {
	if err := qp.close(); err != nil {
		r.f.cfg.Log.Warn("queue pair not destroyed", zap.String("device", r.name), zap.Uint32("qp", qp.number()), zap.Error(err))
	}
	var left []flight
	r.mu.Lock()
	if r.owners[qp.number()].qp == qp { // else it was retired before, and its number may be another's
		delete(r.owners, qp.number())
		r.count.qps.Add(-1)
	}
	for id, fl := range r.flights {
		if fl.qp == qp {
			left = append(left, fl)
			delete(r.flights, id)
		}
	}
	r.mu.Unlock()
	for _, fl := range left {
		fl.done(completion{status: statusNeverCompleted})
	}
}

// doomPair marks the peer of a queue pair for Run to reap, if the queue pair is still the one that was meant.
func (r *rail) doomPair(number uint32, meant queuePair, why uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, found := r.owners[number]; found && o.p != nil && (meant == nil || o.qp == meant) {
		o.p.doom(why)
		nudge(r.f.kicked)
	}
}

// completeUntilWoken takes completions and tells those who wait for them.
func (r *rail) completeUntilWoken() {
	batch := make([]completion, pollBatch)
	for {
		count, err := r.nic.poll(batch)
		for _, c := range batch[:max(count, 0)] {
			r.complete(c)
		}
		if err == nil && count == 0 {
			err = r.nic.waitCompletion()
		}
		if err != nil {
			if !errors.Is(err, errWoken) {
				r.lose(err)
			}
			return
		}
	}
}

func (r *rail) complete(c completion) {
	r.mu.Lock()
	fl, known := r.flights[c.id]
	delete(r.flights, c.id)
	r.mu.Unlock()
	if known { // else of a queue pair that was retired
		fl.done(c)
	}
}

// listenUntilWoken acts on what the device reports by itself.
func (r *rail) listenUntilWoken() {
	for {
		e, err := r.nic.waitEvent()
		if err != nil {
			if !errors.Is(err, errWoken) {
				r.lose(err)
			}
			return
		}
		r.count.events[e.kind].Add(1)
		r.f.cfg.Log.Debug("RDMA event", zap.String("device", r.name), zap.String("event", e.name), zap.Int("port", e.port), zap.Uint32("qp", e.qp))
		switch e.kind {
		case eventPort:
			r.refresh()
		case eventDevice:
			r.lose(errors.New(e.name))
		case eventQP:
			r.doomPair(e.qp, nil, pairFailed)
		}
	}
}

// close ends the loops, destroys what queue pairs are left, and closes the device. It is done once.
func (r *rail) close() error {
	r.closing.Do(func() {
		r.mu.Lock()
		r.gone, r.usable = true, false
		r.mu.Unlock()
		r.settle()
		r.nic.wake()
		r.loops.Wait()
		r.mu.Lock()
		left := slices.Collect(maps.Values(r.owners))
		r.mu.Unlock()
		for _, o := range left { // of handshakes under way
			r.retire(o.qp)
		}
		r.failed = r.nic.close()
	})
	return r.failed
}
