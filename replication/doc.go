// Package replication keeps the history of a catalog: the ordered log of its Changes, and the snapshots that make old
// parts of the log unnecessary.
//
// It owns the order of the history, the encoding of Changes at rest, when an entry counts as durable, and how a catalog is
// built again from what was kept. It refuses to know what a Change means, who asked for it, and any protocol of clients.
//
// Invariants:
//   - Entries are numbered from 1 without gaps. An entry is durable only when all before it are.
//   - What was reported durable is read back by the next Open, in the same order and with the same content.
//   - An entry that was not reported durable is read back as a whole or not at all.
//   - Nothing is read back that was never appended: each record carries a CRC32C, its own number and the identity of its
//     journal.
//   - A log that cannot write any more says so once (Failed) and accepts nothing from then on. It never reports durable
//     what it did not write.
//
// Locks: Log.mu is a leaf. Append takes it for a copy of some hundred bytes; writing happens outside it.
//
// A Journal keeps the log in files of one directory, see docs/journal.md. A Term keeps it in etcd for as long as this master
// leads, and a Member decides when that is, see docs/ha.md.
package replication
