// Package master is the daemon that knows where every byte is and touches none.
//
// It owns the call port(s) for published clients, the admin HTTP server and the HTTP metadata server, and the clock.
// What a call means is decided by package catalog; in which layout it is spoken is decided here, per request, by function
// id and type hash, and for the six calls whose replies differ behind equal requests by the family registry (family.go).
// A reply whose layout is not known yet is parked (hold.go); the connection goes on reading meanwhile.
//
// It refuses to know the bytes of objects, how changes are stored, and how space is chosen.
//
// Invariants: every listener is bound before any serves; a handler never blocks on another client; a call whose
// behaviour is not built answers the "unavailable" code of its own reply type.
//
// Lock order: the family registry's lock is a leaf; no call into the catalog or onto a connection is made under it.
// The locks of the log of calls (call_log.go) are leaves too, but for the log that is written under one of them.
//
//	s, err := master.New(master.DefaultConfig(), zap.NewNop())
//	if err != nil { … }
//	err = s.Run(ctx) // until ctx ends
package master
