// Package kvevents tells subscribers over ZeroMQ which objects came and went, in the form of release 0.3.14.
//
// It owns the form of an event (Options, Event), the socket to which subscribers connect (Listen), and the queue between the
// master and both (Publisher). It knows nothing of objects, and refuses to wait for a subscriber: one that is too slow misses
// messages, which the sequence shows.
//
// A message has three frames: an empty topic, its number as 8 bytes big endian, and [time in ms, [event, …], rank] in
// MessagePack. Numbers rise by one within an epoch, which is that of the leader and is in every event as leader_epoch.
// Every subscription begins with one message of its own, a single event "cleared": whatever the subscriber knew before may
// be old. It carries the epoch, and the number that the last message of all had, so that the next one is one higher. Over a
// restart or a failover a subscriber therefore sees no gap, but one such reset.
//
// Invariants: numbers of an epoch have no gap but for what was dropped; no subscriber holds more than limits allow.
//
// Lock order: Publisher.mu, then Socket.mu.
//
//	s, _ := kvevents.Listen("tcp://127.0.0.1:0")
//	p := kvevents.New(kvevents.Options{BackendID: "b", ObjectKey: true}, s, 0)
//	go p.Run(ctx)
//	p.Begin(epoch)
//	p.Add(kvevents.Event{Kind: kvevents.Stored, Tenant: "default", Medium: "cpu", Key: "k"})
//	p.Flush()
package kvevents
