// Package etcdsim is an etcd for simulations: a store in memory, and the unreliable way of each client to it. It is for
// tests; time is that of a testing/synctest bubble.
//
// It owns what etcd promises (one order of all transactions, revisions, leases that end up to half a second late, watches
// that tell everything in order or that it is compacted) and what the way to it does not: requests and answers are late,
// overtake each other, get lost, are made twice, and arrive after their sender has given up or died.
//
//	store := etcdsim.NewStore()
//	go store.Run(ctx)
//	link := store.Link(seed)
//	link.Cut(true, false) // nothing that this client sends arrives
package etcdsim
