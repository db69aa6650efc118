package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// wireCall makes one call at a master in the layout of 13, as a client of no release would.
func wireCall[Req, Rep any](ctx context.Context, c *rpc.Client, call *wire.Call[Req, Rep], req *Req) (rep Rep, err error) {
	code, body, err := c.Call(ctx, call.ID.FunctionID(), call.AppendRequest(nil, wire.V13, req))
	if err != nil {
		return rep, err
	}
	if code != rpc.CodeOK {
		return rep, errors.New(rpc.ErrorText(body))
	}
	return rep, call.DecodeReply(body, wire.V13, &rep)
}

// ask makes one call on a connection of its own.
func ask(addr string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := rpc.Dial(ctx, addr, rpc.ClientConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = wireCall(ctx, c, &wire.ExistKey, &wire.ExistKeyRequest{Key: "probe"})
	return err
}

// firstAnswer asks at a master until a call is answered, which only a leader does, and tells how long that took. Each
// attempt may take longer than the one before, for machines on which everything takes long.
func firstAnswer(addr string, since time.Time, took *time.Duration) error {
	for limit := 50 * time.Millisecond; ; limit = min(limit*5/4, 5*time.Second) {
		err := ask(addr, limit)
		*took = time.Since(since)
		if err == nil {
			return nil
		}
		if *took > 60*time.Second {
			return fmt.Errorf("nobody answers at %s: %w", addr, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// figures collects measured times by what was measured; any number of tests may add to it.
type figures struct {
	mu  sync.Mutex
	all map[string][]time.Duration
}

func (f *figures) add(what string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string][]time.Duration{}
	}
	f.all[what] = append(f.all[what], d)
}

// tell logs the median and the longest of each, and fails the test where the longest is far from the promise: on a busy
// machine three times as long, and ten seconds, are still right.
func (f *figures) tell(t *testing.T, promised map[string]time.Duration) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, d := range f.all {
		slices.Sort(d)
		longest := d[len(d)-1]
		t.Logf("%s: median %v, longest %v of %d", what, d[len(d)/2].Round(time.Millisecond), longest.Round(time.Millisecond), len(d))
		if p, ok := promised[what]; ok && longest > 3*p+10*time.Second {
			t.Errorf("%s took %v, promised are %v", what, longest, p)
		}
	}
}
