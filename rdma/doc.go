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
// The package knows nothing of segments, masters or the metadata they are published in, beyond the types of package
// descriptor.
package rdma
