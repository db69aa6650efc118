package segment

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

const viewKey = "mooncake-store/mooncake_cluster/master_view"

func startEtcd(t *testing.T) *etcdfake.Server {
	t.Helper()
	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	return etcd
}

// knows waits until a master has the segment of a daemon.
func knows(t *testing.T, m *fakeMaster, d *running) {
	t.Helper()
	for {
		m.wait(t, "ReMountSegment")
		var known bool
		m.lock(func() { known = m.known[d.clientID] })
		if known {
			return
		}
	}
}

// TestDaemonFollowsTheLeader starts before anybody leads, and brings its segment to whoever leads, whatever became of the
// one before, without waiting for its next ping.
func TestDaemonFollowsTheLeader(t *testing.T) {
	etcd := startEtcd(t)
	first, second := newFakeMaster(t), newFakeMaster(t)
	c := daemonConfig(t, first)
	c.MasterAddress = "etcd://" + etcd.Address()
	c.PingEvery = time.Hour // all that is asked is asked because the leader changed
	d := run(t, c)
	waitLog(t, d, "not mounted yet, trying on")
	if text := d.log.FilterMessage("not mounted yet, trying on").All()[0].ContextMap()["error"].(string); !strings.Contains(text, viewKey) {
		t.Errorf("the line does not name the key: %q", text)
	}
	etcd.Set(viewKey, first.addr)
	knows(t, first, d)

	etcd.Drop(viewKey) // a hand-over: nobody leads, and then the other
	etcd.Set(viewKey, second.addr)
	knows(t, second, d)

	second.lock(func() { delete(second.known, d.clientID) }) // deposed, and it leads again
	etcd.Drop(viewKey)
	etcd.Set(viewKey, second.addr)
	knows(t, second, d)

	etcd.Set(viewKey, first.addr) // published clients would not see a key that is overwritten
	first.lock(func() { delete(first.known, d.clientID) })
	knows(t, first, d)

	etcd.Set(viewKey, "nonsense")
	waitLog(t, d, "the key of the leading master does not hold host:port")
	if _, body := d.get(t, "/metrics"); !strings.Contains(body, "mooncake_go_segment_master_changes_total 3\n") {
		t.Errorf("metrics %s", body)
	}
	if _, body := d.get(t, "/metrics/summary"); !strings.Contains(body, "Master: "+first.addr+", changed 3 times\n") {
		t.Errorf("summary %s", body)
	}
}

// TestHungLeader has a leader that accepts and never answers: the call under way is given up as soon as another leads.
func TestHungLeader(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	l := &leader{reign: t.Context(), end: func() {}, log: zap.NewNop()}
	l.take(hung.Addr().String(), 1)
	control := &link{leader: l, hasty: true}
	defer control.close()
	answered := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), control, &wire.Ping, &wire.PingRequest{})
		answered <- err
	}()
	conn, err := hung.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the question is there
		t.Fatal(err)
	}
	next := newFakeMaster(t)
	l.take(next.addr, 2)
	if err := <-answered; err == nil || strings.Contains(err.Error(), "deadline") {
		t.Errorf("the call ended with %v, not by the change", err)
	}
	if _, err := call(t.Context(), control, &wire.Ping, &wire.PingRequest{}); err != nil {
		t.Errorf("the next leader: %v", err)
	}
}

// TestEtcdAway keeps serving under the leader that it knows while etcd is silent.
func TestEtcdAway(t *testing.T) {
	etcd := startEtcd(t)
	m := newFakeMaster(t)
	etcd.Set(viewKey, m.addr)
	c := daemonConfig(t, m)
	c.MasterAddress = "etcd://" + etcd.Address()
	d := run(t, c)
	knows(t, m, d)
	etcd.Stop()
	waitLog(t, d, "the key of the leading master cannot be read, trying on")
	m.forget()
	for range 3 {
		m.wait(t, "Ping")
	}
	if status, body := d.get(t, "/health"); status != 200 {
		t.Errorf("health %d %s", status, body)
	}
}

func TestSamePool(t *testing.T) {
	const known = "etcd://a:2379;b:2379/blue"
	for other, want := range map[string]bool{
		known: true, "etcd://b:2379;c:2379/blue": true, "etcd://a:2379/red": false, "etcd://c:2379/blue": false, "a:2379": false,
		"etcd://a:2379": false,
	} {
		if samePool(known, other) != want || samePool(other, known) != want {
			t.Errorf("%s and %s: want %v", known, other, want)
		}
	}
	c := Config{MasterAddress: "etcd://a,b", ClusterID: "blue"}
	if c.pool() != known {
		t.Errorf("%s", c.pool())
	}
}

// TestGuardedEtcd goes to an etcd that asks for TLS and a password, for the leader's key and the descriptor alike. A wrong
// password ends the start.
func TestGuardedEtcd(t *testing.T) {
	authority, err := etcdfake.NewAuthority(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Server("etcd", false)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdfake.StartGuarded(etcdfake.Options{TLS: config, Users: map[string]string{"segments": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	m := newFakeMaster(t)
	etcd.Set(viewKey, m.addr)
	c := daemonConfig(t, m)
	c.MasterAddress = "etcd://" + etcd.Address()
	c.MetadataServer, c.SegmentName = c.MasterAddress, "guarded"
	c.Etcd = etcdkv.Access{CACert: authority.File, User: "segments", Password: "secret"}
	d := run(t, c)
	knows(t, m, d)
	if _, published := etcd.Value("mooncake/ram/guarded"); !published {
		t.Error("the descriptor is not in etcd")
	}
	wrong := *c
	wrong.ShmDir, wrong.SegmentName, wrong.Etcd.Password = t.TempDir(), "wrong", "guess"
	err = refusedByEtcd(t, &wrong)
	if !strings.Contains(err.Error(), "--master_server_address") || !strings.Contains(err.Error(), "user segments") || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password: %v", err)
	}
	if text := c.String(); strings.Contains(text, "secret") || !strings.Contains(text, "--etcd_user=segments") {
		t.Errorf("the settings are told as %s", text)
	}
}

// refusedByEtcd starts a daemon until etcd refuses it. An etcd that answers too late proves nothing, and the start goes on.
func refusedByEtcd(t *testing.T, c *Config) error {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		d, err := Open(t.Context(), *c, zap.NewNop())
		if err != nil {
			return err
		}
		d.listeners.close()
		if err := d.close(false); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("it is never refused")
		}
	}
}

// TestLateConnection has two callers connect while the leader changes, in the worst order: a connection to the former leader
// never takes the place of one to the present leader, and no call that asks for the present one gets it.
func TestLateConnection(t *testing.T) {
	former, present := newFakeMaster(t), newFakeMaster(t)
	dial := func(addr string) *rpc.Client {
		c, err := rpc.Dial(t.Context(), addr, rpc.ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	l := &leader{reign: t.Context(), end: func() {}, log: zap.NewNop()}
	k := &link{leader: l}
	defer k.close()
	l.take(former.addr, 1)
	early, late := dial(former.addr), dial(former.addr)
	if got, err := k.keep(early, former.addr); got != early || err != nil {
		t.Fatalf("the first connection: %v", err)
	}
	l.take(present.addr, 2)
	if _, err := k.keep(late, former.addr); !errors.Is(err, errLeaderChanged) {
		t.Errorf("a connection that came too late: %v", err)
	}
	now, spare := dial(present.addr), dial(present.addr)
	if got, err := k.keep(now, present.addr); got != now || err != nil {
		t.Errorf("in the place of a former leader's: %v", err)
	}
	if got, err := k.keep(spare, present.addr); got != now || err != nil {
		t.Errorf("a second one: %v", err)
	}
	if got, err := k.connect(t.Context()); got != now || err != nil {
		t.Errorf("the one in use: %v", err)
	}
	for name, c := range map[string]*rpc.Client{"early": early, "late": late, "spare": spare} {
		if _, _, err := c.Call(t.Context(), wire.Ping.ID.FunctionID(), wire.Ping.AppendRequest(nil, wire.V13, &wire.PingRequest{})); err == nil {
			t.Errorf("the connection %s is still open", name)
		}
	}
}
