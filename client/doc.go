// Package client is a client of a Mooncake master in Go: objects and rollout bundles, written to and read from the memory of
// segments over TCP. What it writes the published clients can read, and the reverse.
//
// It owns the calls of api/mooncake/v1, by gRPC or, the short ones, in frames (api/framed), the transfers with segments, and
// trying again. It refuses to know how a master decides. It gives no memory to the pool and needs none beside what it is handed.
//
// Invariants:
//   - No call answers with less than was asked for: there is an error, or all bytes.
//   - What can be tried again is, with pauses that grow and are drawn at random, until the context's deadline; without one,
//     for Config.Timeout.
//   - Bytes are handed out only if the lease on their place lived until they were read.
//   - An object is readable only after all copies that it was given are written.
//   - Several connections share the transfer of a large object.
//
// A Client may be used by any number of goroutines. Close ends its connections, and the goroutine that reads each of those to
// masters.
package client
