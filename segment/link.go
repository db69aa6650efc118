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
	l.mu.Lock()
	addr, _, err := l.leader.now() // with the lock held: who comes later sees no earlier leader
	client := l.client
	if err != nil || client != nil && l.addr == addr {
		l.mu.Unlock()
		return client, err
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
	return l.keep(client, addr)
}

// keep makes a connection the one in use, unless another caller was faster or another master leads by now. A connection to a
// former leader never takes the place of one to the present leader, and is never handed out for it.
func (l *link) keep(client *rpc.Client, addr string) (*rpc.Client, error) {
	l.mu.Lock()
	present, _, err := l.leader.now()
	former := l.client
	switch {
	case err == nil && present != addr:
		l.mu.Unlock()
		client.Close()
		return nil, fmt.Errorf("%w: %s", errLeaderChanged, present)
	case former != nil && l.addr == addr: // two callers dialled at once: one connection is enough
		l.mu.Unlock()
		client.Close()
		return former, nil
	}
	l.client, l.addr = client, addr
	l.mu.Unlock()
	if former != nil {
		former.Close()
	}
	return client, nil
}

// errLeaderChanged says that a connection came too late.
var errLeaderChanged = errors.New("another master leads by now")

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
