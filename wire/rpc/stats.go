package rpc

import (
	"errors"
	"sync/atomic"
)

// Stats is what a server has done since it was made.
type Stats struct {
	ConnsOpen      int64  // connections at the moment
	ConnsAccepted  uint64 // connections ever served
	ConnsRefused   uint64 // connections closed at once, because there were too many
	ConnsUnwelcome uint64 // connections closed at once, because their address is not let in
	CallsRefused   uint64 // calls answered with an error, because their address had too many
	PeerConns      int    // the most connections that one address has at the moment
	PeerCalls      int64  // the most calls that one address has unanswered at the moment
	LargeBytes     int64  // what is held of large frames at the moment
	AcceptErrors   uint64 // accepts that failed, mostly for lack of descriptors
	Frames         uint64 // requests
	BytesIn        uint64 // bytes read
	BytesOut       uint64 // bytes written
	ProtocolErrors uint64 // connections closed for a broken or too large frame
	HalfFrames     uint64 // connections closed because a frame was not completed in time
	IdleClosed     uint64 // connections closed by the idle timeout
	SlowReaders    uint64 // connections closed because the peer did not read
	BusyClosed     uint64 // connections closed because all together held too much of large frames
}

type counters struct {
	connsOpen      atomic.Int64
	connsAccepted  atomic.Uint64
	connsRefused   atomic.Uint64
	connsUnwelcome atomic.Uint64
	callsRefused   atomic.Uint64
	acceptErrors   atomic.Uint64
	frames         atomic.Uint64
	bytesIn        atomic.Uint64
	bytesOut       atomic.Uint64
	protocolErrors atomic.Uint64
	halfFrames     atomic.Uint64
	idleClosed     atomic.Uint64
	slowReaders    atomic.Uint64
	busyClosed     atomic.Uint64
}

// ended counts why a connection ended, where that says something about the peer.
func (c *counters) ended(err error) {
	switch {
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrFrameTooLarge):
		c.protocolErrors.Add(1)
	case errors.Is(err, ErrHalfFrame):
		c.halfFrames.Add(1)
	case errors.Is(err, ErrIdle):
		c.idleClosed.Add(1)
	case errors.Is(err, ErrSlowReader):
		c.slowReaders.Add(1)
	case errors.Is(err, ErrBusy):
		c.busyClosed.Add(1)
	}
}

// Stats may be called at any time, from any goroutine.
func (s *Server) Stats() Stats {
	c := &s.counters
	peerConns, peerCalls := s.peers.Most()
	return Stats{
		ConnsUnwelcome: c.connsUnwelcome.Load(),
		CallsRefused:   c.callsRefused.Load(),
		PeerConns:      peerConns,
		PeerCalls:      peerCalls,
		LargeBytes:     s.largeBytes.Load(),
		ConnsOpen:      c.connsOpen.Load(),
		ConnsAccepted:  c.connsAccepted.Load(),
		ConnsRefused:   c.connsRefused.Load(),
		AcceptErrors:   c.acceptErrors.Load(),
		Frames:         c.frames.Load(),
		BytesIn:        c.bytesIn.Load(),
		BytesOut:       c.bytesOut.Load(),
		ProtocolErrors: c.protocolErrors.Load(),
		HalfFrames:     c.halfFrames.Load(),
		IdleClosed:     c.idleClosed.Load(),
		SlowReaders:    c.slowReaders.Load(),
		BusyClosed:     c.busyClosed.Load(),
	}
}
