package master

import (
	"strconv"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

// TestExpiryHoldsNobodyUp lets a client with 200,000 objects pass through all stages until it is gone. The calls of others
// are to be answered within 100 ms on a quiet machine; the test allows three hundred times that, for machines that are not.
func TestExpiryHoldsNobodyUp(t *testing.T) {
	const objects, promised, room = 200_000, 100 * time.Millisecond, 300
	b := newBed(t, func(c *Config) {
		c.ClientActiveTTL, c.ClientSuspicionTTL, c.ClientLostTTL = 5*time.Second, time.Second, time.Second
	})
	doomed, other := b.client(wire.V13), b.client(wire.V13)
	other.mount("kept", 1<<45, mib)
	other.put("mine", 10)
	doomed.mount("doomed", 1<<44, 256*mib)
	fill(t, b, objects, doomed, other)
	var slowest struct {
		call string
		took time.Duration
	}
	calls := 0
	timed := func(call string, do func()) {
		start := time.Now()
		do()
		calls++
		if took := time.Since(start); took > slowest.took {
			slowest.call, slowest.took = call, took
		}
	}
	alive := wire.PingReply{Value: wire.PingResponse{ClientStatus: wire.ClientStatusOK}}
	waitFor(t, "the end of the client and of all it had", func() bool {
		timed("ping", func() { expect(t, "ping", other.ping(), alive) })
		timed("exist", func() { expect(t, "exist", other.exists("mine"), true) })
		timed("get", func() { expect(t, "get", other.get("mine").Err, 0) })
		timed("miss", func() { other.get("doomed/1") })
		s := b.service.Stats()
		return s.ExpiredClients == 1 && s.Keys == 1 && s.AllocatedBytes == 10
	})
	t.Logf("%d calls, the slowest was a %s of %v", calls, slowest.call, slowest.took)
	if slowest.took > room*promised {
		t.Errorf("a %s took %v", slowest.call, slowest.took)
	}
	expect(t, "stage of the other client", b.stageOf(other), catalog.StageActive)
}

// fill stores objects on the peer's segment, past the wire, while both ping.
func fill(t *testing.T, b *bed, objects int, p, other *peer) {
	t.Helper()
	options := catalog.PutOptions{Replicas: 1, Preferred: []string{"doomed"}}
	for n := range objects {
		key, now := "doomed/"+strconv.Itoa(n), b.service.clock.Now()
		if _, err := b.service.cat.PutStart(now, clientID(p.id), key, 500, &options, nil); err != nil {
			t.Fatal(err)
		}
		if err := b.service.cat.PutEnd(now, clientID(p.id), key, 0, false, catalog.ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
		if n%500 == 0 {
			p.ping()
			other.ping()
		}
	}
}
