package tcp

import "sync/atomic"

// counters are kept by the connections while they work and read by whoever shows them.
type counters struct {
	reads, writes         atomic.Uint64
	readBytes, writeBytes atomic.Uint64
	refused               atomic.Uint64
	stalled               atomic.Uint64
	broken                atomic.Uint64
	accepted              atomic.Uint64
	turnedAway            atomic.Uint64
	active                atomic.Int64
}

// Stats are the counts of a server since it was made.
type Stats struct {
	// Reads and Writes are requests served to the end, ReadBytes and WriteBytes their bodies.
	Reads, Writes         uint64
	ReadBytes, WriteBytes uint64
	// Refused counts requests for ranges or with codes that are not served.
	Refused uint64
	// Stalled counts connections dropped because a request stood still.
	Stalled uint64
	// Broken counts connections whose peer went away inside a request.
	Broken uint64
	// Accepted counts connections, TurnedAway those closed at once because there were too many.
	Accepted, TurnedAway uint64
	// Active is the number of connections now.
	Active int64
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	c := &s.stats
	return Stats{
		Reads: c.reads.Load(), Writes: c.writes.Load(),
		ReadBytes: c.readBytes.Load(), WriteBytes: c.writeBytes.Load(),
		Refused: c.refused.Load(), Stalled: c.stalled.Load(), Broken: c.broken.Load(),
		Accepted: c.accepted.Load(), TurnedAway: c.turnedAway.Load(), Active: c.active.Load(),
	}
}
