package rdma

import "time"

// Stats is what happened since the fabric was opened, and what there is now.
type Stats struct {
	// Devices has an entry for each rail, listed or not.
	Devices []DeviceStats
	// Peers has an entry for each connection that a peer opened, Paths one for each that we opened.
	Peers []PeerStats
	Paths []PathStats
	// QPs is the number of queue pairs of peers, of at most QPsMax.
	QPs, QPsMax int
	// Accepted counts handshakes that made queue pairs, Repeated those that were given the ones they had, Restarted the
	// peers that came again with other queue pairs, Readied the frames that say that the peer's own are ready.
	Accepted, Repeated, Restarted, Readied uint64
	// Refused counts refused handshakes by reason, Disconnected the peers whose queue pairs were destroyed by reason.
	Refused, Disconnected map[string]uint64
	// ProbesAnswered and ProbesFailed count the probes of peers.
	ProbesAnswered, ProbesFailed uint64
	// CopyRetries counts pieces of copies that were tried again over another path, CopyFailures copies that failed.
	CopyRetries, CopyFailures uint64
}

// DeviceStats is about one rail.
type DeviceStats struct {
	// Name, Port, GID and LID are what peers connect to.
	Name string
	Port int
	GID  string
	LID  uint16
	// State is the port's state in the words of sysfs, or GONE. Usable reports whether it carries traffic.
	State  string
	Usable bool
	// MTUBytes is the port's MTU.
	MTUBytes int
	// QPs are the queue pairs there are, Regions and RegisteredBytes the registered memory.
	QPs, Regions, RegisteredBytes int64
	// PortDowns counts how often the port stopped to carry traffic; Events the device's reports by kind.
	PortDowns uint64
	Events    map[string]uint64
	// What our own copies moved, and the requests of theirs that failed.
	ReadOps, ReadBytes, WriteOps, WriteBytes, Errors uint64
}

// PeerStats is about one connection that a peer opened. What it reads and writes only the devices count.
type PeerStats struct {
	// Path is the peer's nic path, Device ours.
	Path, Device string
	// QPs is the number of queue pairs, Acked whether the peer said that its own are ready.
	QPs   int
	Acked bool
	// Since is when it connected, Answered when it last answered a probe: zero if it never did.
	Since, Answered time.Time
	// Probes counts the probes sent.
	Probes uint64
}

// PathStats is about one connection that we opened.
type PathStats struct {
	// Path is the peer's nic path, Device ours.
	Path, Device string
	// Outstanding is the number of requests under way.
	Outstanding int
	// Bytes is what was moved, Errors the requests that failed.
	Bytes, Errors uint64
}

var eventKindNames = [eventKinds]string{eventOther: "other", eventPort: "port", eventQP: "queue_pair", eventDevice: "device"}

// Stats gives the counts of this moment.
func (f *Fabric) Stats() Stats {
	c := &f.count
	s := Stats{
		QPsMax:   f.cfg.QPsMax,
		Accepted: c.accepted.Load(), Repeated: c.repeated.Load(), Restarted: c.restarted.Load(), Readied: c.readied.Load(),
		Refused: map[string]uint64{}, Disconnected: map[string]uint64{},
		ProbesAnswered: c.probesAnswered.Load(), ProbesFailed: c.probesFailed.Load(),
		CopyRetries: c.copyRetries.Load(), CopyFailures: c.copyFailures.Load(),
	}
	for i, name := range refusalNames {
		s.Refused[name] = c.refused[i].Load()
	}
	for i, name := range reasonNames {
		if uint32(i) != alive {
			s.Disconnected[name] = c.reaped[i].Load()
		}
	}
	f.mu.Lock()
	s.QPs = f.qps
	f.mu.Unlock()
	for _, r := range f.rails {
		s.Devices = append(s.Devices, r.stats())
	}
	for _, p := range f.snapshot() {
		s.Peers = append(s.Peers, p.stats())
	}
	s.Paths = f.routes.stats()
	return s
}

func (r *rail) stats() DeviceStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.count
	s := DeviceStats{
		Name: r.name, Port: r.verdict.Port, GID: r.verdict.GID.String(), LID: r.info.lid, State: r.info.state, Usable: r.usable,
		MTUBytes: r.info.mtuBytes, QPs: c.qps.Load(), Regions: c.registered.Load(), RegisteredBytes: c.registeredBytes.Load(),
		PortDowns: c.portDowns.Load(), Events: map[string]uint64{},
		ReadOps: c.readOps.Load(), ReadBytes: c.readBytes.Load(), WriteOps: c.writeOps.Load(), WriteBytes: c.writeBytes.Load(),
		Errors: c.errors.Load(),
	}
	if r.gone {
		s.State = "GONE"
	}
	for kind, name := range eventKindNames {
		s.Events[name] = c.events[kind].Load()
	}
	return s
}

func (p *peer) stats() PeerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PeerStats{Path: p.key.path, Device: p.key.device, QPs: len(p.pairs), Acked: p.acked, Since: p.since, Probes: p.probes.Load()}
	if at := p.answered.Load(); at != 0 {
		s.Answered = time.UnixMilli(at)
	}
	return s
}
