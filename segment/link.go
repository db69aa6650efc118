package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mooncake/internal/limits"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// link is one connection to the master: made when a call needs it, dropped when a call finds it broken or another master
// leads, made again by the next. It never waits on its own; who calls again and when is the caller's affair.
type link struct {
	leader *leader
	// hasty gives up a call under way as soon as another master leads. Else the former one may still answer it.
	hasty bool
	times *callTimes

	mu     sync.Mutex
	client *rpc.Client
	addr   string // of client
}

// refusal is an answer of the master that says no. The connection is fine.
type refusal struct {
	call wire.CallID
	code wire.ErrorCode
}

func (r *refusal) Error() string { return fmt.Sprintf("master refuses %s: %s", r.call.Name(), r.code) }

// refused gives the code of a refusal.
func refused(err error) (wire.ErrorCode, bool) {
	var r *refusal
	if errors.As(err, &r) {
		return r.code, true
	}
	return 0, false
}

func (l *link) connect(ctx context.Context) (*rpc.Client, error) {
	addr, _, err := l.leader.now()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	client := l.client
	if client != nil && l.addr == addr {
		l.mu.Unlock()
		return client, nil
	}
	l.client = nil
	l.mu.Unlock()
	if client != nil {
		client.Close() // it is of a master that leads no more
	}
	ctx, cancel := context.WithTimeout(ctx, limits.SegmentDialMs*time.Millisecond)
	defer cancel()
	client, err = rpc.Dial(ctx, addr, rpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.client != nil { // two callers dialled at once: one connection is enough
		spare := client
		client = l.client
		l.mu.Unlock()
		spare.Close()
		return client, nil
	}
	l.client, l.addr = client, addr
	l.mu.Unlock()
	return client, nil
}

// broken forgets the client if it is still the one in use.
func (l *link) broken(client *rpc.Client) {
	l.mu.Lock()
	if l.client == client {
		l.client = nil
	}
	l.mu.Unlock()
	client.Close()
}

func (l *link) close() {
	l.mu.Lock()
	client := l.client
	l.client = nil
	l.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// call makes one call within SegmentCallMs. The request goes out in the layout of 13, which 12 and 14 read as well in
// every call a daemon makes; the reply is read in that layout and, where a master of 12 answers otherwise, in its own.
func call[Req, T any](ctx context.Context, l *link, c *wire.Call[Req, wire.Exp[T, wire.ErrorCode]], req *Req) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, limits.SegmentCallMs*time.Millisecond)
	defer cancel()
	if l.hasty {
		_, reign, _ := l.leader.now() // without a master connect fails
		defer context.AfterFunc(reign, cancel)()
	}
	client, err := l.connect(ctx)
	if err != nil {
		return none, err
	}
	began := time.Now()
	code, body, err := client.Call(ctx, c.ID.FunctionID(), c.AppendRequest(nil, wire.V13, req))
	if err != nil {
		l.broken(client)
		return none, fmt.Errorf("%s: %w", c.ID.Name(), err)
	}
	l.times.observe(c.ID.Name(), time.Since(began))
	if code != rpc.CodeOK {
		return none, &rpc.CallError{Call: c.ID.Name(), Code: code, Text: rpc.ErrorText(body)}
	}
	var reply wire.Exp[T, wire.ErrorCode]
	if err := c.DecodeReply(body, wire.V13, &reply); err != nil {
		if c.DecodeReply(body, wire.V12, &reply) != nil {
			return none, err
		}
	}
	if reply.Err != 0 {
		return none, &refusal{call: c.ID, code: reply.Err}
	}
	return reply.Value, nil
}
