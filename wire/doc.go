// Package wire is the vocabulary between a Mooncake store client and its master: message types, calls, error codes, and
// their bytes in the three published layouts.
//
// It owns one Go struct per message type, the richest of all releases, and one table of calls. It refuses to know
// connections, frames and what a call means. The types, calls and codecs (*.gen.go) are generated from spec/types.json
// and spec/rpcs.json by the program in gen; what the oldest layout says differently is folded in fold.go alone.
//
// Invariants:
//   - A decoder overwrites the whole struct it is given: fields that a layout lacks are zero.
//   - Nothing decoded points into the body.
//   - A reply to V12 never shows what that release cannot read.
//   - What a codec writes, the same codec reads back to an equal value, and what a published wheel wrote is written
//     again byte for byte.
//
// The package has no state and no locks.
//
//	id, ok := wire.Lookup(functionID)
//	dialects, err := id.Accepts(body)          // which layouts this body can be in
//	var req wire.PutStartRequest
//	err = wire.PutStart.DecodeRequest(body, wire.V13, &req)
//	reply = wire.PutStart.AppendReply(reply, wire.V13, &wire.PutStartReply{Err: wire.ErrInvalidParams})
package wire

//go:generate go run ./gen -spec spec -out .
