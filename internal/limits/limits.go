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
