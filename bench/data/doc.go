// Package data moves objects through segment daemons and times them: by unchanged published clients, by the client in Go, and
// over a bare loopback connection, which is what the machine can do.
//
// It refuses to know which daemons hold the memory.
//
// Invariants: clients have no memory of their own in the pool, so that every byte crosses a socket. A put always writes a key
// that is new; what was written is removed outside of the timed part. What a client has read is compared, once a phase, with
// what was written. The rate is bytes over the time inside the calls, added up over clients, as bare connections are counted too.
package data
