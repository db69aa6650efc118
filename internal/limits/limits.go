// Package limits holds every bound of the project in one place: frames, keys, queues, connections and loops.
// A constant lives here, with the reason for its value, so that an operator or a maintainer can see at a glance what
// the daemons refuse and why. It imports nothing and everything may import it.
package limits

// catalog/alloc

// AllocLargeBytes is the size from which a range is taken from the high end of a segment instead of the low end. Two
// orders of magnitude separate the small objects of a training step (up to some 100 kB) from the large ones (10 MiB and
// more); keeping them at opposite ends stops the small ones from crumbling the holes that the large ones need.
const AllocLargeBytes = 1 << 20

// AllocBlockExtents is how many free extents one block of the index holds before it is split: 256 extents of 16 bytes are
// one 4 KiB size class of Go's heap, short enough to shift in well under a microsecond.
const AllocBlockExtents = 256

// internal/hostport

// AddressTextBytesMax is the longest address text that is looked at: a DNS name ends at 253 characters, an IPv6 address
// with zone and brackets well before, and a port adds six.
const AddressTextBytesMax = 320

// internal/rawconn

// RawCallBytes is the largest read or write done as a raw system call. The garbage collector cannot stop the world while
// one runs; copying 64 KiB takes some 10 µs, which it does not notice, while 1 MiB would take up to 300 µs.
const RawCallBytes = 64 << 10

// RawPieces is how many buffers one gathered write may have: a header, a scratch part and two pieces of body are all that
// any of our protocols puts into one packet.
const RawPieces = 4

// internal/acceptloop

// AcceptPauseMinMs and AcceptPauseMaxMs bound the pause after a failed accept. The first is short enough not to be
// noticed after a single reset; the second keeps a daemon without descriptors from spinning, yet back within a second.
const (
	AcceptPauseMinMs = 5
	AcceptPauseMaxMs = 1000
)

// master: which layout a client reads.
const (
	// FamilyHoldMs is how long an ambiguous reply waits for the proof of its reader's release. The probe is answered
	// 1.5 s after the mount at the latest in all that was measured; a client gives a call up after 30 s.
	FamilyHoldMs = 5000
	// FamilyHangUpMs is how soon after a reply a hang-up counts as "could not read it": a client that cannot decode
	// closes at once, an orderly close takes a call more.
	FamilyHangUpMs = 200
	// FamilyAddresses bounds the addresses whose last proved family is remembered; beyond it any one is forgotten and
	// the configured default holds for it.
	FamilyAddresses = 65536
	// ParkedReplies bounds the replies that wait for a proof, over all connections. The wheels have one call a
	// connection in flight, so this is a thousand connections of clients that mounted in the last seconds.
	ParkedReplies = 1024
	// ClientsPerConnection bounds the client ids remembered of one connection: a 0.3.14 process shares connections
	// among all its stores, of which a handful is usual. The oldest is forgotten.
	ClientsPerConnection = 256
	// PatternBytes bounds a key pattern; patterns are typed by people or built from one key.
	PatternBytes = 64 << 10
	// PatternMatchMs bounds the time one key may take against a pattern that backtracks without end.
	PatternMatchMs = 50
)
