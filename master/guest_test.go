package master

import (
	"context"
	"net/netip"
	"testing"

	"mooncake/replication"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// peersOf are the addresses behind the connections of a leader.
func peersOf(b *bed) map[netip.Addr]int {
	at := map[netip.Addr]int{}
	b.cluster.leading(func(s *Service) {
		s.families.mu.Lock()
		defer s.families.mu.Unlock()
		for c := range s.families.conns {
			at[c.peer]++
		}
	})
	return at
}

// TestGuestsKeepTheirAddress lets clients of two releases, each with an address of its own, reach the leader through a standby:
// one that only reads is known by its address, as if it had come itself, and one on the port for 0.3.12 by that.
func TestGuestsKeepTheirAddress(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd, func(c *Config) { c.RPCPortV12 = 0 })
	second.awaitState("standby")
	waitFor(t, "the leader's secret", func() bool {
		view, _ := second.cluster.member.View()
		_, err := second.cluster.member.SecretOf(t.Context(), view)
		return err == nil
	})
	owner := first.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	owner.put("k", mib)
	for from, d := range map[string]wire.Dialect{"127.0.0.5": wire.V12, "127.0.0.6": wire.V14} {
		writer := second.peerFrom(from, d)
		writer.prove()
		reader := second.peerFrom(from, d)
		expect(t, "get of one that only reads", reader.get("k").Err, 0)
		if n := peersOf(first)[netip.MustParseAddr(from)]; n != 2 {
			t.Errorf("%d connections from %s at the leader", n, from)
		}
	}
	older := &peer{caller: second.line(second.Ports().RPCV12, "127.0.0.7"), t: t, d: wire.V12, id: newID()}
	expect(t, "get over the port for 0.3.12", older.get("k").Err, 0)
}

// TestGuestOfAHandOver hands a connection over that only reads: the next leader knows its release, and where it is.
func TestGuestOfAHandOver(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	owner := first.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	owner.put("k", mib)
	older := first.peerFrom("127.0.0.5", wire.V12)
	older.prove()
	first.cluster.linger, first.cluster.enough = patience, make(chan struct{}) // clients have their turn meanwhile
	left := make(chan struct{})
	go func() { defer close(left); first.stop() }()
	defer func() { close(first.cluster.enough); <-left }()
	second.awaitState("serving")
	expect(t, "get at the next leader", older.get("k").Err, 0)
	second.cluster.leading(func(s *Service) {
		if f := s.families.proved[netip.MustParseAddr("127.0.0.5")]; f != family12 {
			t.Errorf("taken for %v", f)
		}
	})
}

// TestNobodyElseIntroduces sends introductions as a stranger would: they are unknown calls, and nothing is learned.
func TestNobodyElseIntroduces(t *testing.T) {
	etcd := startEtcd(t)
	m := newMember(t, etcd)
	m.awaitState("serving")
	var secret replication.Secret
	waitFor(t, "the secret", func() bool {
		view, _ := m.cluster.member.View()
		s, err := m.cluster.member.SecretOf(t.Context(), view)
		secret = s
		return err == nil
	})
	claimed := guest{addr: netip.MustParseAddr("10.1.2.3"), fam: family12}
	wrong := secret
	wrong[3]++
	for name, body := range map[string][]byte{
		"a guess": claimed.append(nil, wrong), "nothing": nil, "too short": claimed.append(nil, secret)[1:],
		"a family that is none": (&guest{addr: claimed.addr, fam: 9}).append(nil, secret),
		"no family, fixed":      (&guest{addr: claimed.addr, fixed: true}).append(nil, secret),
	} {
		if _, code, _, err := sent(m.line(m.Ports().RPC, "127.0.0.8"), body); err != nil || code != rpc.CodeUnknownFunction {
			t.Errorf("%s: code %d, %v", name, code, err)
		}
	}
	late := m.peerFrom("127.0.0.8", wire.V13)
	late.prove()
	if _, code, _, err := sent(late.caller.(*line), claimed.append(nil, secret)); err != nil || code != rpc.CodeUnknownFunction {
		t.Errorf("after another call: code %d, %v", code, err)
	}
	alone := newBed(t)
	if _, code, _, err := sent(alone.line(alone.Ports().RPC, "127.0.0.8"), claimed.append(nil, secret)); err != nil || code != rpc.CodeUnknownFunction {
		t.Errorf("a master that is alone: code %d, %v", code, err)
	}
	if n := peersOf(m)[claimed.addr]; n != 0 {
		t.Errorf("%d connections taken for the claimed address", n)
	}
	if _, known := wire.Lookup(introduction); known {
		t.Error("a published release has a call of that number")
	}
}

func sent(l *line, body []byte) (seq uint32, code uint8, reply []byte, err error) {
	l.send(introduction, body)
	return l.receive()
}

// TestLeaderWithoutASecret passes clients on to a leader that has told none, or another one than it has: they are served.
func TestLeaderWithoutASecret(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	owner := first.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	owner.put("k", mib)
	view, _ := first.cluster.member.View()
	who := guest{addr: netip.MustParseAddr("127.0.0.5")}
	g := &gate{ctx: t.Context(), log: first.log}
	forgot := 0
	g.forget = func(replication.View) { forgot++ }
	for _, secret := range []func() (replication.Secret, error){
		func() (replication.Secret, error) { return replication.Secret{}, replication.ErrNoSecret },
		func() (replication.Secret, error) { return replication.Secret{1}, nil },
	} {
		g.secret = func(context.Context, replication.View) (replication.Secret, error) { return secret() }
		conn, err := g.reach(view, &who)
		if err != nil {
			t.Fatal(err)
		}
		reader := &peer{caller: &line{Conn: conn, t: t}, t: t, d: wire.V13, id: newID()}
		expect(t, "get", reader.get("k").Err, 0)
		conn.Close()
	}
	if forgot != 1 {
		t.Errorf("forgot %d times", forgot)
	}
}

func TestGuestsComeBack(t *testing.T) {
	for _, g := range []guest{
		{addr: hostA}, {addr: netip.MustParseAddr("fd00::1"), fam: family14, first: firstOther}, {addr: hostB, fam: family12, fixed: true, first: firstReady},
	} {
		secret, got, ok := parseGuest(g.append(nil, replication.Secret{1, 2, 3}))
		if !ok || got != g || secret != (replication.Secret{1, 2, 3}) {
			t.Errorf("%+v came back as %+v, %v", g, got, ok)
		}
	}
}
