package master

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/replication"
	"mooncake/wire"
)

func startEtcd(t testing.TB) *etcdfake.Server {
	t.Helper()
	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	return etcd
}

// newMember starts a master of a cluster.
func newMember(t testing.TB, etcd *etcdfake.Server, edits ...func(*Config)) *bed {
	t.Helper()
	return newMemberWith(t, etcd, func(*Server) {}, edits...)
}

// newMemberWith is newMember for one that is prepared before it runs.
func newMemberWith(t testing.TB, etcd *etcdfake.Server, prepare func(*Server), edits ...func(*Config)) *bed {
	t.Helper()
	cfg := DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.MetadataHost = "127.0.0.1", "127.0.0.1", "127.0.0.1"
	cfg.RPCPort, cfg.MetricsPort, cfg.MetadataPort, cfg.GRPCPort = 0, 0, 0, 0
	cfg.ClientActiveTTL, cfg.suspectAfter, cfg.LeaderTTL = time.Hour, time.Hour, time.Minute
	cfg.HA, cfg.HAConnString = true, etcd.Address()
	for _, edit := range edits {
		edit(&cfg)
	}
	core, logs := observer.New(zap.InfoLevel)
	srv, err := Listen(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	srv.cluster.linger, srv.cluster.successor = 0, 100*time.Millisecond
	prepare(srv)
	b := &bed{Server: srv, t: t, logs: logs}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("a member ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("a member does not stop")
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bed) awaitState(state string) {
	b.t.Helper()
	waitFor(b.t, "a member that is "+state, func() bool {
		s := b.cluster.Standing()
		return s.State == state && (s.Ready || state != "serving" && s.Promotable)
	})
	waitFor(b.t, "a member that the others know", func() bool {
		_, err := b.cluster.member.SecretOf(b.t.Context(), replication.View{Address: b.cluster.self})
		return err == nil
	})
}

func adminGet(t *testing.T, b *bed, path string) (status int, text string, header http.Header) {
	t.Helper()
	resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// TestStandby looks at a master that does not lead: it passes clients on to the one that does, and its pages say so.
func TestStandby(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	p := second.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	expect(t, "get through the standby", p.get("k").Err, 0)
	ping := invoke(p, &wire.Ping, &wire.PingRequest{ClientID: p.id})
	expect(t, "view in a ping", uint64(ping.Value.ViewVersionID), first.cluster.Standing().ViewVersion)

	leader := "127.0.0.1:" + strconv.Itoa(first.Ports().RPC)
	status, text, header := adminGet(t, second, "/get_all_keys")
	expect(t, "status of a service page", status, http.StatusServiceUnavailable)
	expect(t, "body", text, `{"success":false,"error_code":-1011,"error_message":"service plane is not active"}`)
	expect(t, "header", header.Get("X-Mooncake-Leader"), leader)
	for path, want := range map[string]string{"/role": "standby", "/ha_status": "standby", "/health": `"leader_address":"` + leader, "/leader": `"present":true`} {
		if status, text, _ := adminGet(t, second, path); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	waitFor(t, "the standby to have all records", func() bool {
		status, text, _ := adminGet(t, second, "/readyz")
		var r struct {
			Applied uint64 `json:"applied_sequence"`
			Newest  uint64 `json:"leader_sequence"`
		}
		return json.Unmarshal([]byte(text), &r) == nil && status == http.StatusOK && r.Applied == r.Newest && r.Applied >= 3
	})
	if _, text, _ = adminGet(t, first, "/get_all_keys"); text != "k\n" {
		t.Errorf("keys at the leader: %q", text)
	}
	if _, text, _ = adminGet(t, second, "/metrics"); !strings.Contains(text, "master_ha_is_leader 0") || !strings.Contains(text, "master_ha_ready 1") {
		t.Error("the standby's metrics do not say what it is")
	}
}

// TestHandOver lets a leader leave: a client on an open connection, of which a part of a request has come, does not
// notice; everything is there, and what was begun goes on.
func TestHandOver(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	owner := first.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	writer := first.client(wire.V14)
	writer.put("before", mib)
	expect(t, "a put's start", writer.putStart("during", mib).Err, 0)
	half := first.peerFrom("127.0.0.9", wire.V13)
	half.prove()
	l := half.caller.(*line)
	request := requestFrame(l.seq, wire.ExistKey.ID.FunctionID(), wire.ExistKey.AppendRequest(nil, wire.V13, &wire.ExistKeyRequest{Key: "before"}))
	if _, err := l.Write(request[:len(request)-3]); err != nil {
		t.Fatal(err)
	}
	first.cluster.linger, first.cluster.enough = patience, make(chan struct{}) // clients have their turn meanwhile
	left := make(chan struct{})
	go func() { defer close(left); first.stop() }()
	defer func() { close(first.cluster.enough); <-left }()
	second.awaitState("serving")
	expect(t, "the put's end at the next leader", writer.putEnd("during"), 0)
	expect(t, "get", writer.get("before").Err, 0)
	if _, err := l.Write(request[len(request)-3:]); err != nil {
		t.Fatal(err)
	}
	if _, code, _, err := l.receive(); err != nil || code != 0 {
		t.Errorf("a request that came in two parts: %d, %v", code, err)
	}
	fresh := second.client(wire.V13)
	for _, key := range []string{"before", "during"} {
		if !fresh.exists(key) {
			t.Errorf("%s is lost", key)
		}
	}
}

// TestDeposed ends the leader's lease under it: there is one leader again, with everything, and the process goes on.
func TestDeposed(t *testing.T) {
	etcd := startEtcd(t)
	members := []*bed{newMember(t, etcd)}
	members[0].awaitState("serving")
	members = append(members, newMember(t, etcd))
	members[1].awaitState("standby")
	p := members[0].client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	for range 3 {
		before := members[0].cluster.Standing().ViewVersion
		etcd.Expire()
		waitFor(t, "another term", func() bool {
			leaders := 0
			for _, b := range members {
				s := b.cluster.Standing()
				switch serves := b.cluster.leading(func(*Service) {}); {
				case s.Ready && s.ViewVersion > before:
					leaders++
				case serves: // it does not know yet
					return false
				}
			}
			return leaders == 1
		})
		for _, b := range members {
			fresh := b.client(wire.V13)
			if !fresh.exists("k") {
				t.Error("the object is lost")
			}
		}
	}
}

// TestMetadataOfTheLeader keeps the metadata server's entries over a change of leaders.
func TestMetadataOfTheLeader(t *testing.T) {
	etcd := startEtcd(t)
	withMetadata := func(c *Config) { c.MetadataServer = true }
	url := func(b *bed) string {
		return "http://127.0.0.1:" + strconv.Itoa(b.Ports().Metadata) + "/metadata?key=mooncake%2Fram%2Fa"
	}
	get := func(b *bed) (status int, text string) {
		resp, err := http.Get(url(b))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	first := newMember(t, etcd, withMetadata)
	first.awaitState("serving")
	second := newMember(t, etcd, withMetadata)
	second.awaitState("standby")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url(first), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if status, _ := get(second); status != http.StatusServiceUnavailable {
		t.Errorf("a standby answers %d", status)
	}
	first.stop()
	second.awaitState("serving")
	if status, text := get(second); status != http.StatusOK || text != "{}" {
		t.Errorf("the next leader answers %d %q", status, text)
	}
}

// TestFullEtcd lets etcd run out of space: nothing is acknowledged, the pages say so, and everything goes on when it is
// disarmed.
func TestFullEtcd(t *testing.T) {
	etcd := startEtcd(t)
	m := newMember(t, etcd)
	m.awaitState("serving")
	p := m.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	other := m.client(wire.V13)
	etcd.Full(true)
	put := answered(func() { expect(t, "the put that met it", p.putStart("later", mib).Err, 0) }) // it waits, and goes on
	waitFor(t, "readiness to end", func() bool {
		status, _, _ := adminGet(t, m, "/readyz")
		return status == http.StatusServiceUnavailable
	})
	expect(t, "a removal", other.remove("k", true), wire.ErrUnavailableInCurrentMode)
	expect(t, "a read", other.get("k").Err, 0)
	if _, text, _ := adminGet(t, m, "/metrics"); !strings.Contains(text, "master_ha_etcd_no_space 1") || !strings.Contains(text, "master_ha_ready 0") {
		t.Error("the metrics do not say that etcd is full")
	}
	etcd.Full(false)
	<-put
	waitFor(t, "readiness to return", func() bool {
		status, _, _ := adminGet(t, m, "/readyz")
		return status == http.StatusOK
	})
	expect(t, "a removal afterwards", other.remove("k", true), 0)
}

// BenchmarkPutWithEtcd lets one writer put objects, each by a start and an end, while a record takes 2 ms.
func BenchmarkPutWithEtcd(b *testing.B) {
	for _, ack := range []string{ackDurable, ackAsync} {
		b.Run(ack, func(b *testing.B) {
			etcd := startEtcd(b)
			m := newMember(b, etcd, func(c *Config) { c.HAAck = ack })
			m.awaitState("serving")
			p := m.client(wire.V13)
			p.mount("pool", 1<<44, 1<<34)
			etcd.Delay(2 * time.Millisecond)
			before := m.cluster.Stats().HA.LogRecords
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				p.put("key-"+strconv.Itoa(i), 4096)
			}
			b.StopTimer()
			b.ReportMetric(float64(m.cluster.Stats().HA.LogRecords-before)/float64(b.N), "records/op")
			etcd.Delay(0)
		})
	}
}
