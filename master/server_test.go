package master

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	"mooncake/wire"
)

// TestStopWithClientsAttached stops a master that has idle clients, one that waits for a held reply, one in the middle of a
// frame and an HTTP connection kept open. All are cut, and the ports are free for the next one.
func TestStopWithClientsAttached(t *testing.T) {
	b := newBed(t, func(c *Config) { c.MetadataServer = true })
	idle := b.client(wire.V13)
	idle.mount("node", 1<<44, mib)
	waiting := b.peerFrom(addressA, wire.V12)
	waiting.setUp()
	sendCall(waiting, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"})
	waitFor(t, "the parked reply", func() bool { return b.parked() == 1 })
	half := b.line(b.Ports().RPC, addressB)
	if _, err := half.Write(requestFrame(0, 1, nil)[:9]); err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	resp, err := web.Get("http://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	slow, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(b.Ports().Metadata))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := slow.Write([]byte("GET /meta")); err != nil {
		t.Fatal(err)
	}

	b.stop()
	for name, l := range map[string]*line{"the waiting client": waiting.caller.(*line), "the half frame": half} {
		if err := l.ended(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := try(idle, &wire.ExistKey, &wire.ExistKeyRequest{Key: "k"}); err == nil {
		t.Error("a stopped master answers")
	}
	web.CloseIdleConnections()
	cfg := b.cfg.With(b.Ports())
	newBed(t, func(c *Config) { *c = cfg })
	if lines := b.complaints(); len(lines) != 0 {
		t.Errorf("logged: %q", lines)
	}
}

// TestRestartedMasterAsksForAll starts anew on the same ports: clients are told to mount again, and it works on.
func TestRestartedMasterAsksForAll(t *testing.T) {
	for _, d := range dialects {
		b := newBed(t)
		p := b.client(d)
		seg := p.mount("node", 1<<44, mib)
		p.put("k", 1)
		b.stop()
		cfg := b.cfg.With(b.Ports())
		next := newBed(t, func(c *Config) { *c = cfg })
		again := next.client(d)
		again.id = p.id
		expect(t, "ping", again.ping().Value.ClientStatus, wire.ClientStatusNeedRemount)
		remount := wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id}
		expect(t, "remount", invoke(again, &wire.ReMountSegment, &remount).Err, 0)
		expect(t, "ping", again.ping().Value.ClientStatus, wire.ClientStatusOK)
		expect(t, "what was there", again.get("k").Err, wire.ErrObjectNotFound)
		again.put("k", 1)
	}
}
