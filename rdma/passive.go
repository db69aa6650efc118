package rdma

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// Why a handshake was refused, for the counters.
const (
	refusedMalformed = iota // the request makes no sense
	refusedDevice           // a device that we do not have, or whose port is down
	refusedName             // meant for somebody else
	refusedStale            // ready for what is not connected
	refusedPeerLimit
	refusedLimit
	refusedVerbs // the device would not
	refusedClosed
	refusalClasses
)

var refusalNames = [refusalClasses]string{
	"malformed", "device", "name", "stale", "peer_limit", "limit", "verbs", "closed",
}

// refusal is a reason to refuse a peer, in its class and in words for the peer's log.
type refusal struct {
	class int
	text  string
}

func (r *refusal) Error() string { return r.text }

func refuse(class int, format string, args ...any) error {
	return &refusal{class: class, text: fmt.Sprintf(format, args...)}
}

// Accept answers a peer that wants to connect its queue pairs to ours, of which there will be as many. self is what the
// descriptor calls this process in nic paths. When it returns ours are ready; a refusal says why in ReplyMsg.
//
// A peer that repeats itself is given the same queue pairs, provided that nothing went over them yet: then its own cannot
// have been used either. One that comes with other queue pairs has restarted, and the old ones are destroyed.
func (f *Fabric) Accept(self string, req *descriptor.Connection) descriptor.Connection {
	answer, err := f.accept(self, req)
	if err == nil {
		return answer
	}
	class := refusedVerbs
	if r, ok := errors.AsType[*refusal](err); ok {
		class = r.class
	}
	f.count.refused[class].Add(1)
	f.cfg.Log.Info("RDMA peer refused", zap.String("peer", req.LocalNICPath), zap.String("wanted", req.PeerNICPath), zap.Error(err))
	return descriptor.Connection{ReplyMsg: err.Error()}
}

func (f *Fabric) accept(self string, req *descriptor.Connection) (descriptor.Connection, error) {
	server, device, ok := descriptor.SplitNICPath(req.PeerNICPath)
	if !ok {
		return descriptor.Connection{}, refuse(refusedMalformed, "invalid peer_nic_path %q: want server@device", req.PeerNICPath)
	}
	theirServer, theirDevice, ok := descriptor.SplitNICPath(req.LocalNICPath)
	if !ok {
		return descriptor.Connection{}, refuse(refusedMalformed, "invalid local_nic_path %q: want server@device", req.LocalNICPath)
	}
	r := f.rail(device)
	if r == nil {
		return descriptor.Connection{}, refuse(refusedDevice, "no RDMA device %q here", device)
	}
	if server != self {
		return descriptor.Connection{}, refuse(refusedName, "peer_nic_path %q is not ours, which is %q", req.PeerNICPath, descriptor.NICPath(self, device))
	}
	if err := checkQPs(req.QPNum); err != nil {
		return descriptor.Connection{}, err
	}
	key := peerKey{device: device, path: req.LocalNICPath}
	if req.Ready() {
		return descriptor.Connection{}, f.ready(key, req.QPNum)
	}
	if usable, _ := r.condition(); !usable {
		return descriptor.Connection{}, refuse(refusedDevice, "the port of RDMA device %q is down", device)
	}
	from, err := f.peerAddress(req, theirServer, theirDevice)
	if err != nil {
		return descriptor.Connection{}, err
	}
	p, err := f.enter(key, theirServer, r)
	if err != nil {
		return descriptor.Connection{}, err
	}
	defer p.mu.Unlock()
	if err := f.connect(p, from, req.QPNum); err != nil {
		if len(p.pairs) == 0 {
			f.end(p, restarted)
		}
		return descriptor.Connection{}, err
	}
	return answerFor(p, req), nil
}

// address is where a peer is reached.
type address struct {
	gid GID
	lid uint16
}

// checkQPs looks at the numbers of a peer's queue pairs, which have 24 bits.
func checkQPs(numbers []uint32) error {
	if len(numbers) == 0 || len(numbers) > limits.HandshakeQPs {
		return refuse(refusedMalformed, "%d queue pairs: want 1 to %d", len(numbers), limits.HandshakeQPs)
	}
	for _, n := range numbers {
		if n == 0 || n >= 1<<24 {
			return refuse(refusedMalformed, "%d is not the number of a queue pair", n)
		}
	}
	return nil
}

// peerAddress takes the peer's address from its request, or, as real processes do, from its descriptor.
func (f *Fabric) peerAddress(req *descriptor.Connection, server, device string) (address, error) {
	text, lid := req.LocalGID, req.LocalLID
	if text == "" {
		if f.cfg.PeerGID == nil {
			return address{}, refuse(refusedMalformed, "local_gid is empty")
		}
		found, err := f.cfg.PeerGID(server, device)
		if err != nil {
			return address{}, refuse(refusedMalformed, "local_gid is empty, and the device is not in the descriptor of %s: %v", server, err)
		}
		text, lid = found.GID, found.LID
	}
	gid, err := gidFromText(text)
	if err != nil {
		return address{}, refuse(refusedMalformed, "invalid local_gid: %v", err)
	}
	return address{gid: gid, lid: lid}, nil
}

// gidFromText reads the form that GID.String writes.
func gidFromText(text string) (GID, error) {
	var g GID
	octets := strings.Split(text, ":")
	if len(octets) != len(g) {
		return GID{}, fmt.Errorf("%q is not %d pairs of hexadecimal digits", text, len(g))
	}
	for i, octet := range octets {
		value, err := hex.DecodeString(octet)
		if err != nil || len(value) != 1 {
			return GID{}, fmt.Errorf("%q is not two hexadecimal digits", octet)
		}
		g[i] = value[0]
	}
	if g.IsZero() {
		return GID{}, errors.New("it is all zero")
	}
	return g, nil
}

// ready takes note that a peer's queue pairs are ready.
func (f *Fabric) ready(key peerKey, numbers []uint32) error {
	f.mu.Lock()
	p := f.peers[key]
	f.mu.Unlock()
	if p == nil {
		return refuse(refusedStale, "stale ready_ack: %s is not connected", key.path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || !slices.Equal(p.theirs, numbers) {
		return refuse(refusedStale, "stale ready_ack: %s is connected with other queue pairs", key.path)
	}
	p.acked = true
	f.count.readied.Add(1)
	return nil
}

// connect brings queue pairs of a locked peer up towards the peer's.
func (f *Fabric) connect(p *peer, from address, numbers []uint32) error {
	if len(p.pairs) > 0 {
		if slices.Equal(p.theirs, numbers) && untouched(p) {
			f.count.repeated.Add(1)
			return nil
		}
		f.count.restarted.Add(1)
		f.cfg.Log.Info("RDMA peer comes again", zap.String("peer", p.key.path), zap.String("device", p.key.device))
		f.disconnect(p)
	}
	if err := f.reserve(p.server, len(numbers)); err != nil {
		return err
	}
	p.since = f.cfg.now()
	for _, number := range numbers {
		qp, err := p.rail.newPair(1, p)
		if err == nil {
			if err = qp.connect(p.rail.to(from.gid, from.lid, number)); err != nil {
				p.rail.retire(qp)
			}
		}
		if err != nil {
			for _, made := range p.pairs {
				p.rail.retire(made)
			}
			p.pairs = nil
			f.unreserve(p.server, len(numbers))
			return err
		}
		p.pairs = append(p.pairs, qp)
	}
	p.theirs = slices.Clone(numbers)
	f.count.accepted.Add(1)
	f.cfg.Log.Info("RDMA peer connected", zap.String("peer", p.key.path), zap.String("device", p.key.device), zap.Int("qps", len(numbers)))
	return nil
}

// untouched reports whether a peer's queue pairs are ready and as they were made. Anything that went over them has moved
// their packet numbers, and a peer that starts anew at 0 would have its first writes taken for repetitions of old ones.
func untouched(p *peer) bool {
	if p.doomed.Load() != alive {
		return false
	}
	for _, qp := range p.pairs {
		if s, err := qp.status(); err != nil || !s.ready || s.received != 0 || s.sent != 0 {
			return false
		}
	}
	return true
}

func answerFor(p *peer, req *descriptor.Connection) descriptor.Connection {
	own := p.rail.describe()
	answer := descriptor.Connection{
		LocalGID: own.GID, LocalLID: own.LID, LocalNICPath: req.PeerNICPath, PeerNICPath: req.LocalNICPath,
	}
	for _, qp := range p.pairs {
		answer.QPNum = append(answer.QPNum, qp.number())
	}
	if req.ReadyAck != nil {
		answer.ReadyAck = new(bool)
	}
	return answer
}
