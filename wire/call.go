package wire

import (
	"fmt"

	"mooncake/wire/pack"
)

// CallID numbers the calls of all releases densely, so that it can index a table.
type CallID uint8

// callInfo is what is known of a call without its Go types. A release that lacks the call borrows the layout of the
// nearest one that has it.
type callInfo struct {
	name      string
	id        uint32
	releases  DialectSet
	request   [numDialects]*pack.Type // nil: the call takes no arguments
	reply     [numDialects]*pack.Type
	ambiguous bool
}

// Call ties a call to the Go types of its arguments and its answer.
type Call[Req, Rep any] struct {
	ID            CallID
	decodeRequest func(body []byte, v Dialect, x *Req) error
	appendRequest func(dst []byte, v Dialect, x *Req) []byte
	decodeReply   func(body []byte, v Dialect, x *Rep) error
	appendReply   func(dst []byte, v Dialect, x *Rep) []byte
}

// DecodeRequest reads a request body of dialect d into req, whose former content is lost. After an error req holds
// whatever had been read.
func (c *Call[Req, Rep]) DecodeRequest(body []byte, d Dialect, req *Req) error {
	if err := c.decodeRequest(body, d.known(), req); err != nil {
		return fmt.Errorf("request of %s: %w", c.ID.Name(), err)
	}
	return nil
}

// AppendRequest appends a request body in dialect d.
func (c *Call[Req, Rep]) AppendRequest(dst []byte, d Dialect, req *Req) []byte {
	return c.appendRequest(dst, d.known(), req)
}

// DecodeReply reads a reply body of dialect d into rep, whose former content is lost.
func (c *Call[Req, Rep]) DecodeReply(body []byte, d Dialect, rep *Rep) error {
	if err := c.decodeReply(body, d.known(), rep); err != nil {
		return fmt.Errorf("reply of %s: %w", c.ID.Name(), err)
	}
	return nil
}

// AppendReply appends a reply body in dialect d.
func (c *Call[Req, Rep]) AppendReply(dst []byte, d Dialect, rep *Rep) []byte {
	return c.appendReply(dst, d.known(), rep)
}

// Name is the method's name without its class.
func (c CallID) Name() string {
	if int(c) >= NumCalls {
		return fmt.Sprintf("call %d", uint8(c))
	}
	return c.info().name
}

// String is Name.
func (c CallID) String() string { return c.Name() }

// info is the call's row of the table; a number that is no call has an empty one, which no release knows.
func (c CallID) info() *callInfo {
	if int(c) < NumCalls {
		return &callTable[c]
	}
	return &noCall
}

var noCall = callInfo{request: [numDialects]*pack.Type{noType, noType, noType}}

// noType heads no body: a literal of no bytes belongs to no type.
var noType = pack.NewType("", false)

// FunctionID is the call's number on the wire.
func (c CallID) FunctionID() uint32 { return c.info().id }

// Releases is the set of releases that have the call.
func (c CallID) Releases() DialectSet { return c.info().releases }

// AmbiguousReply tells whether V12 and V13 expect different replies to the very same request bytes: whoever answers must
// know the release by other means.
func (c CallID) AmbiguousReply() bool { return c.info().ambiguous }

// Accepts is the set of dialects that a request body can be in, judged by its type hash, its literal, and whether it
// announces compatible fields. The error says why it is none: pack.ErrHash for an unknown layout, pack.ErrLiteral for a
// literal that is not the hash's, pack.ErrShort for no head. A call without arguments takes any body.
func (c CallID) Accepts(body []byte) (DialectSet, error) {
	info := c.info()
	if info.request[V14] == nil {
		return info.releases, nil
	}
	var set DialectSet
	var newest Dialect
	cause := pack.ErrHash
	for d := V12; d <= V14; d++ {
		if !info.releases.Has(d) {
			continue
		}
		err := info.request[d].Check(body)
		if err == nil {
			set |= 1 << d
			newest = d
		} else if err != pack.ErrHash {
			cause = err
		}
	}
	if set == 0 {
		return 0, fmt.Errorf("request of %s: %w", c.Name(), cause)
	}
	return narrow(info, set, newest, pack.HasTotal(body)), nil
}

// narrow uses the total length: where only the newest of several layouts with one hash has compatible fields, a body that
// announces them is of that layout and a body that does not is of another.
func narrow(info *callInfo, set DialectSet, newest Dialect, hasTotal bool) DialectSet {
	if !info.request[newest].Compat() {
		return set
	}
	older := set &^ (1 << newest)
	switch {
	case hasTotal:
		return 1 << newest
	case older != 0:
		return older
	}
	return set
}

// UnavailableReply appends the reply of a call whose behaviour is not offered: its own reply type holding
// ErrUnavailableInCurrentMode (weight calls: WeightErrNotReady; RemoveAll: 0 removed). Batch calls answer it once for
// each item of the request, whose body must be given; a request that cannot be read gets an empty list.
func UnavailableReply(dst []byte, c CallID, d Dialect, request []byte) []byte {
	if int(c) >= NumCalls {
		return dst
	}
	return unavailable[c](dst, d.known(), request)
}
