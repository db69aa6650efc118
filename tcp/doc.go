// Package tcp is Transfer Engine's TCP transport: it serves ranges of memory and reads and writes those of others.
//
// It owns the data port's protocol (a 24-byte request, for acknowledged requests an 8-byte status, and a plain stream of
// bytes), the regions a server may touch, and the connections an initiator keeps. It refuses to know what the bytes
// are, who a master is, and how an endpoint is found.
//
// Invariants:
//   - A request touches only bytes inside one registered region, whatever address and size it names.
//   - Bytes go between socket and region without a copy; only what arrives together with a request (up to 8 KiB) passes
//     through a small buffer, because its destination is not known before.
//   - A refused request is answered (if its framing has answers) and its connection closed; the body is not read.
//   - A connection between requests is never dropped for being idle: a real client would lose its next request. One that
//     stops inside a request is dropped after Progress without a single byte.
//   - A receive low-water mark is never above what the body still lacks, and is back at 1 before the next request.
//   - After RemoveRegion returned, no request touches the region's memory.
//   - An initiator never uses a connection again that failed once, and repeats a request at most once, on a fresh
//     connection; both requests are idempotent.
//
// Locks: Server.mu and Dialer.mu guard membership only (connections, regions, peers) and are never held during I/O. None
// of them is taken while another is held.
//
//	server := tcp.NewServer(tcp.ServerConfig{Options: tcp.DefaultOptions()})
//	err := server.AddRegion(base, arena, nil)
//	err = server.Serve(ctx, listener)
//
//	dialer := tcp.NewDialer(tcp.DialerConfig{Options: tcp.DefaultOptions()})
//	err = dialer.Read(ctx, target, addr, buf)
package tcp
