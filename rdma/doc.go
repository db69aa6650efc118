// Package rdma is the verbs side of the data plane: it finds the RDMA devices of the host, decides which of them a segment
// is published on and says why, checks that the memory may be pinned, and (built with libibverbs) registers the memory,
// brings queue pairs up and moves bytes.
//
// Devices are found in sysfs alone, without libibverbs, in every build: [Scan] reads, [Choose] decides. Choose is a pure
// function of what was read and of a [Wish], so a table of verdicts can be golden. Its invariants:
//
//   - what is chosen has an ACTIVE port, a known link layer, a GID, and full membership of its partition;
//   - without names exactly one device is chosen; with names exactly these, in that order, or an error and nothing;
//   - the order in which devices are listed decides nothing.
//
// What sysfs holds is not trusted: every read is bounded, links are followed only inside the root, and what does not parse
// becomes the reason why a port is refused.
//
//	devices, err := rdma.Scan("/")
//	wish, err := rdma.ParseWish("", os.Getenv)
//	wish.NUMA = rdma.ArenaNUMA(arena)
//	choice, err := rdma.Choose(devices, wish)
//	log.Info(choice.Table()) // also after an error
//	rails := choice.Chosen()
//
// A [Fabric] is what a process has on the chosen devices. Memory is registered under addresses that need not be its own
// ([Fabric.Register]), peers connect their queue pairs to as many of ours ([Fabric.Accept]) and from then on read and write
// by themselves, and copies of our own go the other way ([Fabric.Read], [Fabric.Write]). libibverbs is behind the interface
// layer, in the files verbs*.go, with a model of it in the tests; all that decides is above. Its invariants:
//
//   - a handle of the library is closed once, after everything that was made with it, and used by nobody afterwards;
//   - when a queue pair is retired no device touches memory for it any more, and all its requests have been told their end;
//   - a peer's queue pairs are counted before they are made and until they are destroyed, and never exceed the limits;
//   - a peer that repeats a handshake gets queue pairs that nothing went over, old or new;
//   - a peer that does not answer an empty write is gone: it would not say so, and its queue pairs would stay for ever;
//   - Read and Write return only when no device touches the caller's memory; what fails goes over another path, then fails
//     with [ErrUnreachable];
//   - a device that is lost is given back completely, and the others go on.
//
// Locks, outer before inner: peer.mu, Fabric.mu; peer.mu, rail.mu; rail.looking, rail.use, rail.mu; route.closing, rail.mu;
// Region.mu, rail.mu. routeTable.mu is taken alone. None is held while a peer is asked.
//
//	fabric, err := rdma.OpenFabric(rdma.Config{Rails: rails})
//	region, err := fabric.Register(ctx, arena, base, nil)
//	go fabric.Run(ctx) // as one of the daemon's actors
//	devices, buffers := region.Publish() // again whenever fabric.Changed() yields
//	answer := fabric.Accept(self, request)
//
// The package knows nothing of segments, masters or the metadata they are published in, beyond the types of package
// descriptor.
package rdma
