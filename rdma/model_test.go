package rdma

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// modelNet is a verbs library without hardware: any number of devices on one wire, each of which can be opened by several
// processes. Work is done at once and completes at once, unless the test holds completions back.
type modelNet struct {
	t  testing.TB
	mu sync.Mutex

	devices map[string]*modelDevice
	nextQP  uint32
	nextKey uint32

	// limits and failures
	mrBytes   uint64
	qpsMax    int
	failVerbs map[string]syscall.Errno // by verb

	// what is there
	open, qps, regions int
	held               []func() // completions, while hold is set
	hold               bool
	posted             int
}

type modelDevice struct {
	name   string
	info   portInfo
	gids   []GID
	gone   bool
	opened []*modelNIC
	cut    bool // packets vanish without a word
}

func newModel(t testing.TB, devices ...string) *modelNet {
	m := &modelNet{t: t, devices: map[string]*modelDevice{}, nextQP: 16, nextKey: 7000, mrBytes: 1 << 40, failVerbs: map[string]syscall.Errno{}}
	for i, name := range devices {
		m.devices[name] = &modelDevice{
			name: name, gids: []GID{{0xfe, 0x80, 15: byte(i + 1)}, ipv4GID(byte(i + 1))},
			info: portInfo{active: true, state: StateActive, mtuBytes: 4096, link: LinkEthernet},
		}
	}
	return m
}

func ipv4GID(last byte) GID { return GID{10: 0xff, 11: 0xff, 12: 192, 13: 168, 14: 99, 15: last} }

// checkEmpty wants nothing to be left of what was made.
func (m *modelNet) checkEmpty() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != 0 || m.qps != 0 || m.regions != 0 {
		m.t.Errorf("left over: %d devices, %d queue pairs, %d regions", m.open, m.qps, m.regions)
	}
}

func (m *modelNet) verb(verb, device string) error {
	if errno := m.failVerbs[verb]; errno != 0 {
		return &VerbError{Verb: verb, Device: device, Errno: errno}
	}
	return nil
}

// set changes a device and tells those who have it open.
func (m *modelNet) set(device string, change func(d *modelDevice), e event) {
	m.mu.Lock()
	d := m.devices[device]
	change(d)
	opened := slices.Clone(d.opened)
	m.mu.Unlock()
	for _, n := range opened {
		n.events <- e
	}
}

// release lets the completions go that were held back.
func (m *modelNet) release() {
	m.mu.Lock()
	held := m.held
	m.held, m.hold = nil, false
	m.mu.Unlock()
	for _, complete := range held {
		complete()
	}
}

func (m *modelNet) openNIC(device string) (*modelNIC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.verb("ibv_open_device", device); err != nil {
		return nil, err
	}
	d := m.devices[device]
	if d == nil || d.gone {
		return nil, &VerbError{Verb: "ibv_open_device", Device: device, Errno: syscall.ENODEV}
	}
	n := &modelNIC{
		m: m, d: d, events: make(chan event, 64), arrived: make(chan struct{}, 1), woken: make(chan struct{}),
		pairs: map[uint32]*modelQP{},
	}
	d.opened = append(d.opened, n)
	m.open++
	return n, nil
}

type modelLayer struct{ m *modelNet }

func (l modelLayer) open(device string, _ int) (nic, error) {
	n, err := l.m.openNIC(device)
	if err != nil {
		return nil, err
	}
	return n, nil
}

type modelNIC struct {
	m       *modelNet
	d       *modelDevice
	events  chan event
	arrived chan struct{}
	woken   chan struct{}
	waking  sync.Once

	// under m.mu
	queue  []completion
	pairs  map[uint32]*modelQP
	mrs    []*modelMR
	closed bool
}

func (n *modelNIC) caps() (deviceCaps, error) {
	return deviceCaps{mrBytes: n.m.mrBytes, cqEntries: 32767, readsServed: 128, readsOut: 128}, n.m.verb("ibv_query_device", n.d.name)
}

func (n *modelNIC) port(int) (portInfo, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if n.d.gone {
		return portInfo{}, &VerbError{Verb: "ibv_query_port", Device: n.d.name, Errno: syscall.EIO}
	}
	return n.d.info, n.m.verb("ibv_query_port", n.d.name)
}

func (n *modelNIC) gid(_, index int) (GID, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if index < 0 || index >= len(n.d.gids) {
		return GID{}, &VerbError{Verb: "ibv_query_gid", Device: n.d.name, Errno: syscall.EINVAL}
	}
	return n.d.gids[index], nil
}

func (n *modelNIC) register(mem []byte, iova uint64, remote bool) (memoryRegion, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if err := n.m.verb("ibv_reg_mr", n.d.name); err != nil {
		return nil, err
	}
	if uint64(len(mem)) > n.m.mrBytes {
		return nil, &VerbError{Verb: "ibv_reg_mr", Device: n.d.name, Errno: syscall.ENOMEM}
	}
	n.m.nextKey++
	mr := &modelMR{n: n, mem: mem, iova: iova, remote: remote, key: n.m.nextKey}
	n.mrs = append(n.mrs, mr)
	n.m.regions++
	return mr, nil
}

func (n *modelNIC) createQP(int) (queuePair, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if n.closed {
		n.m.t.Errorf("a queue pair on %s, which is closed", n.d.name)
	}
	if err := n.m.verb("ibv_create_qp", n.d.name); err != nil {
		return nil, err
	}
	if n.m.qpsMax > 0 && n.m.qps >= n.m.qpsMax {
		return nil, &VerbError{Verb: "ibv_create_qp", Device: n.d.name, Errno: syscall.ENOMEM}
	}
	n.m.nextQP++
	n.m.qps++
	qp := &modelQP{n: n, num: n.m.nextQP}
	n.pairs[qp.num] = qp
	return qp, nil
}

func (n *modelNIC) poll(into []completion) (int, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	count := copy(into, n.queue)
	n.queue = n.queue[count:]
	return count, nil
}

func (n *modelNIC) waitCompletion() error {
	select {
	case <-n.arrived:
		return nil
	case <-n.woken:
		return errWoken
	}
}

func (n *modelNIC) waitEvent() (event, error) {
	select {
	case e := <-n.events:
		return e, nil
	case <-n.woken:
		return event{}, errWoken
	}
}

func (n *modelNIC) wake() { n.waking.Do(func() { close(n.woken) }) }

func (n *modelNIC) close() error {
	n.wake()
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if n.closed {
		n.m.t.Errorf("%s closed twice", n.d.name)
		return nil
	}
	if len(n.pairs) > 0 || len(n.mrs) > 0 {
		n.m.t.Errorf("%s closed with %d queue pairs and %d regions", n.d.name, len(n.pairs), len(n.mrs))
	}
	n.closed = true
	n.m.open--
	n.d.opened = slices.DeleteFunc(n.d.opened, func(o *modelNIC) bool { return o == n })
	return nil
}

type modelMR struct {
	n      *modelNIC
	mem    []byte
	iova   uint64
	remote bool
	key    uint32
}

func (r *modelMR) keys() (lkey, rkey uint32) { return r.key, r.key }

func (r *modelMR) close() error {
	r.n.m.mu.Lock()
	defer r.n.m.mu.Unlock()
	before := len(r.n.mrs)
	r.n.mrs = slices.DeleteFunc(r.n.mrs, func(o *modelMR) bool { return o == r })
	if len(r.n.mrs) == before {
		r.n.m.t.Errorf("region %d closed twice", r.key)
	}
	r.n.m.regions--
	return nil
}

type modelQP struct {
	n   *modelNIC
	num uint32

	// under m.mu
	to             qpPath
	ready, failed  bool
	closed         bool
	received, sent uint32
}

func (q *modelQP) number() uint32 { return q.num }

func (q *modelQP) connect(to qpPath) error {
	q.n.m.mu.Lock()
	defer q.n.m.mu.Unlock()
	if err := q.n.m.verb("ibv_modify_qp", q.n.d.name); err != nil {
		return err
	}
	q.to, q.ready = to, true
	return nil
}

func (q *modelQP) status() (qpStatus, error) {
	q.n.m.mu.Lock()
	defer q.n.m.mu.Unlock()
	return qpStatus{ready: q.ready && !q.failed, received: q.received, sent: q.sent}, nil
}

func (q *modelQP) post(w work) error {
	m := q.n.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.verb("ibv_post_send", q.n.d.name); err != nil {
		return err
	}
	if q.closed || !q.ready {
		return &VerbError{Verb: "ibv_post_send", Device: q.n.d.name, Errno: syscall.EINVAL}
	}
	m.posted++
	complete := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if q.closed {
			return
		}
		q.n.queue = append(q.n.queue, completion{id: w.id, status: m.carry(q, w)})
		nudge(q.n.arrived)
	}
	if m.hold {
		m.held = append(m.held, complete)
		return nil
	}
	q.n.queue = append(q.n.queue, completion{id: w.id, status: m.carry(q, w)})
	nudge(q.n.arrived)
	return nil
}

// carry does the work and says how it ended.
func (m *modelNet) carry(q *modelQP, w work) Status {
	if q.failed {
		return StatusFlushed
	}
	other := m.find(q)
	if other == nil || !q.n.d.info.active || !other.n.d.info.active || q.n.d.cut || other.n.d.cut {
		q.failed = true
		return StatusRetryExceeded
	}
	q.sent++
	if w.length > 0 {
		remote := other.n.reach(w.rkey, w.remote, w.length, true)
		local := q.n.reach(w.lkey, w.local, w.length, false)
		if remote == nil {
			q.failed, other.failed = true, true
			other.n.events <- event{kind: eventQP, name: "access error", qp: other.num}
			return StatusRemoteAccess
		}
		if local == nil {
			q.failed = true
			return 4
		}
		if w.op == opRead {
			copy(local, remote)
		} else {
			copy(remote, local)
		}
	}
	other.received++
	return StatusSuccess
}

// find looks for the queue pair at the other end, if it is connected back.
func (m *modelNet) find(q *modelQP) *modelQP {
	for _, d := range m.devices {
		if d.gone || !slices.Contains(d.gids, q.to.peerGID) {
			continue
		}
		for _, n := range d.opened {
			if other := n.pairs[q.to.peerQP]; other != nil && other.ready && !other.failed && other.to.peerQP == q.num {
				return other
			}
		}
	}
	return nil
}

// reach finds memory by the addresses under which it was registered; that holds for local memory too.
func (n *modelNIC) reach(key uint32, at uint64, length uint32, remote bool) []byte {
	for _, r := range n.mrs {
		if off := at - r.iova; r.key == key && (r.remote || !remote) && at >= r.iova && off+uint64(length) <= uint64(len(r.mem)) {
			return r.mem[off : off+uint64(length)]
		}
	}
	return nil
}

func (q *modelQP) close() error {
	q.n.m.mu.Lock()
	defer q.n.m.mu.Unlock()
	if q.closed {
		return fmt.Errorf("queue pair %d closed twice", q.num)
	}
	q.closed = true
	delete(q.n.pairs, q.num)
	q.n.m.qps--
	return nil
}
