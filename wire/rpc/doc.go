// Package rpc carries framed calls over TCP: the server side the wheels talk to, and a client for our own daemons.
//
// It owns connections, frames and their limits: a 20-byte request header or a 16-byte reply header, a body, an attachment
// that is read and dropped. It refuses to know what a body means; that is the Handler's business, as are the texts of its
// errors. It logs nothing: what happened is counted in Stats and, for one connection, told by Conn.Cause.
//
// One goroutine serves a connection. Per wake it reads once, handles every whole frame it finds, collects the replies in
// one buffer and writes once. A request may be parked: its reply comes later, from any goroutine, by Conn.Reply, which
// never waits for the peer.
//
// The only call under way of a Client reads its own answer, on its caller's goroutine; where several are under way one of them
// reads for all, and lets another one go on when it is answered or given up. A client at rest begins to read after a while.
//
// Invariants:
//   - Frames of one connection never interleave; each request gets at most one reply, in any order.
//   - Memory follows the bytes that arrived, never a length that was announced.
//   - A peer that does not read holds its own connection only: Conn.Reply queues up to a limit, then the connection ends.
//   - An idle connection is never dropped, unless asked for; a half frame is, after a while.
//   - A broken frame (magic, version, serialization, size) closes the connection without an answer. Everything else,
//     an unknown function included, is answered and the connection goes on.
//   - While a call of a Client waits for its answer somebody reads, and never more than one.
//   - When Server.Serve or Client.Close returns, none of their goroutines is left.
//
// Lock order: port.mu before output.mu. Server.mu and Client.mu are held together with no other.
//
//	srv := rpc.NewServer(rpc.ServerConfig{}, handler)
//	go srv.Serve(ctx, listener)
//
//	c, err := rpc.Dial(ctx, "127.0.0.1:50051", rpc.ClientConfig{})
//	code, body, err := c.Call(ctx, functionID, request)
package rpc
