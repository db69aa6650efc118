// Package segment is the daemon that gives a node's memory to the pool: an arena of shared memory, the ports by which
// peers read and write it, and the conversation with a master that keeps it in the pool.
//
// It owns the arena and its identity (client id, segment id, base, size, name, ports), the order of starting and leaving,
// the heartbeat, the execution of copy and move tasks, and what is made of the state of RDMA devices. It refuses to know what lies in the arena: objects, keys and
// leases are the master's business.
//
// Invariants:
//   - Nothing is announced before every port is open and the identity is on file; nothing is unbound before it has been
//     withdrawn.
//   - One arena has one daemon, by a file lock. An arena is taken up again only by a daemon of the same identity, with
//     the state that was sealed into it; anything else is refused, never mixed.
//   - The announced base is drawn anew with every new segment, so an address of an earlier one is out of bounds here.
//   - Pings wait for nothing but the master: metadata, remounts and copies have goroutines of their own.
//   - A daemon told to speak RDMA does so or does not start. A peer is answered with the protocol that it speaks itself, and
//     a descriptor's devices and keys are always of one moment.
//   - Memory is registered while anything is announced, and unmapped only when it is no longer.
//   - Where several masters share a pool, the one whose key is in etcd is asked; while nobody leads, the last one is.
//   - The daemon never gives up on a master. It ends when told to, or when a port of its own fails.
//   - Run returns only after everything it started has ended, within a bound even when nobody answers.
//
// Lock order: Daemon.publishing, held while a metadata server is asked, by goroutines that wait for just that; rails.mu, under
// which the fabric's figures are read and health.mu is taken. link.mu, leader.mu and health.mu are leaves.
//
//	cfg := segment.DefaultConfig()
//	cfg.LocalHostname, cfg.SegmentBytes = "10.0.0.7", 8<<30
//	d, err := segment.Open(ctx, cfg, log)
//	...
//	err = d.Run(ctx) // cancel ctx to leave; cancel with cause segment.ErrStay to come back later
package segment
