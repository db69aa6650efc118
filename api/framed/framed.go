// Package framed says how short calls of api/mooncake/v1 go in frames instead of HTTP/2, on the same port: the same messages, the
// same answers and the same refusals, at a fraction of the work.
//
// It owns the numbers that stand for methods, and the byte before an answer. It refuses to know connections and frames, which
// are those of the protocol of published clients, and what a call means.
//
// Invariants: a number never changes its meaning; calls that take long or stream have none and stay with gRPC. Whoever opens a
// connection says Hello first: who does not know these frames hangs up, and nothing was done.
package framed

// Hello is the number of the first call of a connection. Its answer is Message and the newest Version that is spoken.
const Hello = 0x6d6f6f00

// Version is the one there is.
const Version = 1

// What the first byte of an answer says the rest is.
const (
	Message = 0 // the answer of the call
	Status  = 1 // a google.rpc.Status: the call is refused
)

// Methods are the full names of the calls that go in frames; the place of a name, from 1 on, is in its number.
var Methods = []string{
	"/mooncake.v1.Objects/Start",
	"/mooncake.v1.Objects/End",
	"/mooncake.v1.Objects/Revoke",
	"/mooncake.v1.Objects/Placements",
	"/mooncake.v1.Objects/Exists",
	"/mooncake.v1.Objects/Remove",
	"/mooncake.v1.Bundles/Begin",
	"/mooncake.v1.Bundles/Commit",
	"/mooncake.v1.Bundles/Abort",
	"/mooncake.v1.Bundles/Open",
	"/mooncake.v1.Bundles/Reclaim",
	"/mooncake.v1.Segments/Report",
}

var numbers = func() map[string]uint32 {
	all := map[string]uint32{}
	for i, method := range Methods {
		all[method] = Hello + 1 + uint32(i)
	}
	return all
}()

// Number gives the number of a method, if it goes in frames.
func Number(method string) (number uint32, ok bool) {
	number, ok = numbers[method]
	return number, ok
}

// Method gives the method that has a number, "" if none has.
func Method(number uint32) string {
	if at := number - Hello - 1; number > Hello && at < uint32(len(Methods)) {
		return Methods[at]
	}
	return ""
}
