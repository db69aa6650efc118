// Package calls makes load for a master: calls of published clients, written with package wire, one connection a goroutine, and
// one call at a time on each, as a published client makes them.
//
// It owns a client id for each owner of memory, segments that exist in the books of the master only, the pings that keep
// both, and keys with running numbers. It refuses to know which master answers: everything goes over the wire. No byte of
// an object is written or read.
//
// Invariants: every answer is looked at. The first one of a connection in a load is decoded in full; the others are walked
// over without taking memory, which tells refusals and broken answers: decoding everything would cost the machine more than
// some masters need to answer. A put counts as one operation (start and end), and so does a batch, whatever it holds.
// Everything ends with the context.
//
//	session, err := calls.Open(ctx, calls.Config{Address: "127.0.0.1:50051", Pid: pid})
//	defer session.Close()
//	_, err = session.Fill(ctx, 100_000)
//	outcome, err := session.Run(ctx, calls.Load{Kind: calls.Get, Connections: 8, For: time.Second})
package calls
