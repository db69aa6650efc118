// Package catalog is the truth of a cluster: which objects there are, where their replicas lie, which segments and
// clients exist, and what may be removed to make room.
//
// It refuses to know the clock (the caller passes the time), sockets, disks, goroutines and the encoding of the wire.
//
// # Decide and apply
//
// Every call that changes something runs in two steps. The first, on the leader only, decides: it may look at leases,
// ages, liveness and dice, and puts its whole outcome into Changes. The second applies the Changes: that step is
// deterministic and total and looks at nothing but what Changes have built. Whoever applies the same Changes in the
// same order has the same objects, replicas, offsets, free ranges, segments, groups and pins. Leases, ages and the
// liveness of clients are not in Changes; a new leader starts them on the safe side.
//
// # Invariants
//
//   - A byte of a segment is free, part of exactly one replica, or in quarantine: named by a replica that is gone, while
//     somebody may still write or read it.
//   - A replica is seen by readers only when it is complete and its segment is mounted. A segment that goes takes its
//     replicas out of sight at once; their records are tidied afterwards in slices.
//   - An object without a replica on a mounted segment is absent for every call, tidied or not.
//   - Allocated bytes are the sum of the sizes of all replicas on mounted segments; ranges in quarantine count apart.
//   - The records of one group, or of one bundle whose keys carry no group, form a unit. Eviction takes a unit whole, and
//     never one with a leased, pinned or unfinished member, nor a bundle that is still being written.
//
// # Locks
//
// Catalog.mu, then the mutex of one shard; never two shards. All changes happen under Catalog.mu; a shard's write lock is
// taken for the moment in which something changes that readers see. Readers take a shard's read lock only, and raise
// leases by an atomic maximum. Long work (sweeps, eviction, listing) gives Catalog.mu up between slices.
//
// # Memory
//
// Records live outside the Go heap in spans of 1 MiB and name each other by 32-bit numbers, so ten million objects cost
// the garbage collector nothing. A pointer into a record must not outlive the lock it was found under.
//
// # Example
//
//	c := catalog.New(catalog.Config{LeaseMs: 10_000, ClientActiveTTLMs: 10_000, PutDiscardMs: 30_000, PutReleaseMs: 600_000})
//	_ = c.MountSegment(now, client, catalog.Segment{ID: id, Name: "host:1", Base: 4096, Size: 1 << 30})
//	replicas, err := c.PutStart(now, writer, "key", 1000, &catalog.PutOptions{Replicas: 1}, nil)
//	// … the writer fills the ranges …
//	err = c.PutEnd(now, writer, "key", 0, false, catalog.ReplicaTypeAll)
package catalog
