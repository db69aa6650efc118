package master

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

// strangeLog tells of requests whose arguments no known release lays out like that: once for each peer, call and hash.
// What it remembers is bounded; when that is used up it says so once, and the rest is only counted. Its lock is a leaf.
type strangeLog struct {
	mu   sync.Mutex
	told map[strangeRequest]struct{}
	full bool // the log has the line that says so
}

// strangeRequest is what one line of the log is about. A peer is an address: a client's connections come and go.
type strangeRequest struct {
	peer netip.Addr
	metrics.Arguments
}

// first tells whether a line is due, and whether it is the one that says that no more follow.
func (l *strangeLog) first(r strangeRequest) (line, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, told := l.told[r]; told || l.full {
		return false, false
	}
	if len(l.told) >= limits.StrangeArgumentsTold {
		l.full = true
		return true, true
	}
	if l.told == nil {
		l.told = map[strangeRequest]struct{}{}
	}
	l.told[r] = struct{}{}
	return true, false
}

// hashOf is the hash at the head of a body, as it is without its lowest bit, which says whether a head of more follows.
// It is 0 in a body that is too short to have one.
func hashOf(body []byte) uint32 {
	if len(body) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(body) &^ 1
}

// strange counts a request that is refused for the layout of its arguments, and tells of it.
func (s *Service) strange(peer netip.Addr, id wire.CallID, body []byte, cause error) {
	a := metrics.Arguments{FunctionID: id.FunctionID(), Hash: hashOf(body)}
	s.calls.CountStrange(a)
	line, last := s.strangers.first(strangeRequest{peer, a})
	switch {
	case last:
		s.log.Warn("too many peers with arguments of unknown layouts: from now on they are only counted",
			zap.String("action", "unknown_arguments"), zap.Int("told", limits.StrangeArgumentsTold))
	case line:
		s.log.Warn("the arguments of a call are laid out as in no known release; such calls of this peer are answered with error 4",
			zap.String("action", "unknown_arguments"), zap.String("peer", peer.String()), zap.String("call", id.Name()),
			zap.String("function_id", metrics.HexLabel(a.FunctionID)), zap.String("hash", metrics.HexLabel(a.Hash)), zap.Error(cause))
	}
}
