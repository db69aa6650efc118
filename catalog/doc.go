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
// liveness of clients are not in Changes, nor are hand-outs; a new leader starts them on the safe side.
//
// # Invariants
//
//   - A byte of a segment is free, part of exactly one replica, or in quarantine: named by a replica that is gone, while
//     somebody may still write or read it.
//   - With a log, nobody is told of a range before the log has whatever freed it, and either the write itself or a window
//     around the range. Who leads next finds the windows in the log and keeps what is free in them closed for a while.
//   - A replica is seen by readers only when it is complete and its segment is mounted. A segment that goes takes its
//     replicas out of sight at once; their records are tidied afterwards in slices.
//   - An object without a replica on a mounted segment is absent for every call, tidied or not.
//   - A silent client passes the stages suspect, suspected, lost and gone (see Stage); until it is gone its records are
//     kept, and its first sign of life brings all of it back but what was removed or written anew meanwhile.
//   - A range of a segment has one owner: ranges of segments at one endpoint do not overlap, unless by a silent client's,
//     which then is gone.
//   - Allocated bytes are the sum of the sizes of all replicas on mounted segments; ranges in quarantine count apart, and
//     so do lost segments.
//   - The range of a write whose writer may be alive, or died less than WriterQuarantineMs ago, is not reused.
//   - A range whose address a replica list named less than a lease ago is not reused while there is any other room: free
//     ranges, or such as eviction makes. Only bundles that nobody has read yet are kept before it. Then the range that was
//     handed out longest ago is taken, and counted: its reader may see the bytes of another object.
//   - A write that replaces an object has ranges of its own, and a record beside it that takes its place at the end. Where
//     there is no room for a value of the same size it goes over the old one, which a failure then loses.
//   - The sum of an object is that of its present value, found in a complete replica of it. A replica that had another one
//     twice is gone for good, and its range in quarantine until a request ends that, or its segment goes.
//   - The records of one group, or of one bundle whose keys carry no group, form a unit. Eviction takes a unit whole, and
//     never one with a leased, pinned or unfinished member, nor a bundle that is still being written. Units that share a
//     bundle go together.
//   - A bundle is known from the keys of its members (see package bundle). Its record is made by Changes alone; who read it,
//     and that its writer is dead, only this leader knows. It outlives its last member by a bounded time.
//   - What is evicted comes from lists in this order: bundles of no use, the rest by age, soft pinned objects, bundles that
//     nobody has read. The last list is only for a put that would be refused otherwise. In each list the workloads that
//     have more than their soft limit come first, the lowest priority before the others.
//   - Every object belongs to one workload, or to none. The bytes and keys of all workloads add up to those of the pool, also
//     while objects are being accounted for under other rules. A put never takes its workload above the hard limit, and
//     leaves what others reserved free, unless the rules changed or memory went: then it makes neither worse, and Sweep mends it.
//   - All objects go by one Change where little stays (see clearing); who looks while they are gone through sees each of them until
//     that Change, and what he reads stays as long as his lease, or is held back if the removal is by force. Where many are being read,
//     it is held back in pieces until the last lease is over, those with a byte of it.
//   - What outlives the life that its workload gives it goes like a forced removal, whoever reads it.
//
// # Locks
//
// Catalog.mu, then the mutex of one shard; never two shards, but for the Change that takes all objects away: it holds those of all,
// taken in their order. All changes happen under Catalog.mu; a shard's write lock is
// taken for the moment in which something changes that readers see. Readers take a shard's read lock only, and raise
// leases and times of hand-outs by an atomic maximum. The stage of a segment is an atomic too. Long work (sweeps, eviction, listing) gives Catalog.mu up between slices.
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
