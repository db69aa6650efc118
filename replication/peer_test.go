package replication

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/internal/limits"
	"mooncake/internal/peerpb"
)

// peer is a member that others can ask.
type peer struct {
	*node
	address string // of the service
	logs    *observer.ObservedLogs
	leave   func() // ends the service and the presence, before the node is stopped
}

// joinPeer starts a member with everything that a master of its own would have.
func (c *cluster) joinPeer(address string, edit func(*MemberConfig)) *peer {
	c.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	cfg := MemberConfig{
		Endpoints: []string{c.etcd.Address()}, Cluster: "test", Address: address, TTL: 60 * time.Second, Compact: true,
		Catalog: catalogConfig(), Log: zap.New(core),
	}
	if edit != nil {
		edit(&cfg)
	}
	m, err := OpenMember(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	p := &peer{node: &node{Member: m, c: c}, address: ln.Addr().String(), logs: logs}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			for _, e := range logs.All() {
				c.t.Logf("%s: %s %v", address, e.Message, e.ContextMap())
			}
		}
	})
	following, stop := context.WithCancel(context.Background())
	serving, leave := context.WithCancel(context.Background())
	var all, served sync.WaitGroup
	all.Go(func() { _ = m.Follow(following) }) // it ends without an error
	served.Go(func() {
		if err := m.ServePeers(serving, ln); err != nil {
			c.t.Error(err)
		}
	})
	served.Go(func() { _ = m.KeepPresence(serving, p.address) }) // as Follow
	p.leave = sync.OnceFunc(func() {
		leave()
		served.Wait()
	})
	p.stop = sync.OnceFunc(func() {
		p.leave()
		stop()
		all.Wait()
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(p.stop)
	return p
}

// standBy lets a member follow the log until the test ends or it is told to stop.
func (p *peer) standBy() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if term, h, err := p.Lead(ctx); err == nil {
			p.Ended(term)
			h.Catalog.Close()
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	p.c.t.Cleanup(stop)
	waitFor(p.c.t, "a standby", func() bool { return p.Standing().State == StateStandby })
	return stop
}

// presences reads who is there.
func (c *cluster) presences() (list []presence) {
	for _, key := range c.etcd.Keys(c.keys.members()) {
		if value, ok := c.etcd.Value(key); ok {
			p, err := parsePresence(strings.TrimPrefix(key, c.keys.members()), []byte(value))
			if err != nil {
				c.t.Error(err)
			}
			list = append(list, p)
		}
	}
	return list
}

func (c *cluster) pointer() (p pointer, found bool) {
	value, found := c.etcd.Value(c.keys.current())
	if !found {
		return p, false
	}
	p, err := parsePointer([]byte(value))
	if err != nil {
		c.t.Error(err)
	}
	return p, true
}

// TestPresence has members say how far they are, and that they have gone.
func TestPresence(t *testing.T) {
	c := newCluster(t)
	a := c.joinPeer("a:1", nil)
	m := a.lead()
	b := c.joinPeer("b:1", nil)
	b.standBy()
	m.mount(1, 1<<20)
	for range 100 {
		m.step()
	}
	last := m.settle()
	waitFor(t, "both to have everything", func() bool {
		list := c.presences()
		return len(list) == 2 && list[0].ID == "a:1" && list[1].ID == "b:1" && list[0].Applied == last && list[1].Applied == last &&
			list[0].GRPC == a.address && list[1].GRPC == b.address
	})
	c.etcd.Expire() // all leases: presence is told anew
	waitFor(t, "both to be there again", func() bool { return len(c.presences()) == 2 })
	b.leave()
	if list := c.presences(); len(list) != 1 || list[0].ID != "a:1" {
		t.Errorf("after one has left: %+v", list)
	}
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// fill makes a history that is larger than one part of a snapshot in etcd.
func (m *master) fill() {
	for i := range 40 {
		name, value := fmt.Sprintf("name-%d", i), make([]byte, 10_000)
		for at := range value {
			value[at] = byte(m.dice.Uint32()) // which cannot be compressed
		}
		m.names[name] = string(value)
		m.log.AppendName(NameChange{Name: name, Value: value})
		m.step()
		m.settle()
	}
}

// TestStandbyMakesTheSnapshots lets a leader write: the standby makes the snapshots, in etcd or, when they are too large for
// it, in directories, from which a third gets its history. When the leader is alone it makes them itself.
func TestStandbyMakesTheSnapshots(t *testing.T) {
	for name, partsMax := range map[string]int{"in etcd": 128, "in directories": 1} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			dirs := map[string]string{"a:1": t.TempDir(), "b:1": t.TempDir()}
			small := func(cfg *MemberConfig) {
				cfg.SnapshotBytes, cfg.PartsMax, cfg.SnapshotDir = 64<<10, partsMax, dirs[cfg.Address]
			}
			a := c.joinPeer("a:1", small)
			m := a.lead()
			m.mount(1, 1<<20)
			b := c.joinPeer("b:1", small)
			stopB := b.standBy()
			waitFor(t, "the standby to be known", func() bool { return len(c.presences()) == 2 })
			made := func(by string) bool {
				for _, e := range a.logs.FilterMessage("snapshot made").All() {
					if e.ContextMap()["by"] == by {
						return true
					}
				}
				return false
			}
			waitFor(t, "a snapshot by the standby", func() bool {
				m.fill()
				m.term().poke()
				return made("b:1")
			})
			p, found := c.pointer()
			if !found || (p.Place == placeMembers) != (partsMax == 1) {
				t.Fatalf("%+v", p)
			}
			waitFor(t, "what is unnecessary to go", func() bool {
				m.term().poke()
				return len(c.etcd.Keys(c.keys.logs()))+len(c.etcd.Keys(c.keys.rolls())) < 100
			})
			third := c.joinPeer("c:1", small)
			h, err := third.shelf.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.settle()
			if _, err := third.shelf.catchUp(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			got := kept(h)
			expectSame(t, "the third's history", describe(t, h.Catalog, got), m.describe())
			h.Catalog.Close()
			third.leave() // it does not follow, and records would be kept for it

			stopB()
			b.leave()
			waitFor(t, "a snapshot by the leader alone", func() bool {
				m.fill()
				m.term().poke()
				return made("a:1")
			})
		})
	}
}

// TestSnapshotThatNobodyHas starts a member where the snapshot that counts lies with members of which none is there, or
// with one whose copy is damaged: it does not begin empty, and says what to do. Then one comes that has it.
func TestSnapshotThatNobodyHas(t *testing.T) {
	c := newCluster(t)
	dirs := map[string]string{"a:1": t.TempDir(), "b:1": t.TempDir()}
	large := func(cfg *MemberConfig) {
		cfg.SnapshotBytes, cfg.PartsMax, cfg.SnapshotDir = 64<<10, 1, dirs[cfg.Address]
	}
	a := c.joinPeer("a:1", large)
	m := a.lead()
	m.mount(1, 1<<20)
	waitFor(t, "a snapshot", func() bool {
		m.fill()
		m.term().poke()
		_, found := c.pointer()
		return found
	})
	m.settle()
	want := m.describe()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	p, _ := c.pointer()
	late := c.joinPeer("late:1", nil)
	a.leave()
	if _, err := late.shelf.load(t.Context()); err == nil || !strings.Contains(err.Error(), "--snapshot_dir") || !strings.Contains(err.Error(), p.ID) {
		t.Fatalf("without anybody who has it: %v", err)
	}

	// A damaged copy is not taken, wherever it lies.
	path := filepath.Join(dirs["a:1"], snapshotPrefix+p.ID)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hurt := append([]byte(nil), text...)
	hurt[len(hurt)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dirs["b:1"], snapshotPrefix+p.ID), hurt, 0o600); err != nil {
		t.Fatal(err)
	}
	b := c.joinPeer("b:1", large)
	waitFor(t, "the other to be known", func() bool { return len(c.presences()) == 1 })
	for _, member := range []*peer{b, late} {
		if _, err := member.shelf.load(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("a damaged copy: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dirs["b:1"], snapshotPrefix+p.ID), text, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := late.shelf.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Catalog.Close()
	got := kept(h)
	expectSame(t, "the late one's history", describe(t, h.Catalog, got), want)
}

// TestKeepsTheSnapshot has a member get the snapshot that counts for its own directory, and drop the one before.
func TestKeepsTheSnapshot(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	a := c.joinPeer("a:1", func(cfg *MemberConfig) { cfg.SnapshotDir = t.TempDir() })
	b := c.joinPeer("b:1", func(cfg *MemberConfig) { cfg.SnapshotDir = dir })
	text := []byte("what a snapshot says")
	p := pointer{ID: fmt.Sprintf("%016x-%x-%08x", 1, 2, 3), Last: 1, Bytes: int64(len(text)), SHA256: sumOf(text), Place: placeMembers}
	old := pointer{ID: fmt.Sprintf("%016x-%x-%08x", 0, 2, 3), Bytes: 1, SHA256: sumOf([]byte("x"))}
	for _, err := range []error{a.shelf.dir.keep(p, text), b.shelf.dir.keep(old, []byte("x"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "both to be known", func() bool { return len(c.presences()) == 2 })
	c.etcd.Set(c.keys.current(), fmt.Sprintf(`{"id":%q,"last":1,"bytes":%d,"sha256":%q,"place":"members"}`, p.ID, p.Bytes, p.SHA256))
	if err := b.keepSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids, err := b.shelf.dir.ids(); err != nil || len(ids) != 1 || ids[0] != p.ID {
		t.Errorf("%v, %v", ids, err)
	}
	if _, err := b.shelf.dir.text(p); err != nil {
		t.Error(err)
	}
	waitFor(t, "the others to be told", func() bool { return c.presences()[1].Snapshot == p.ID })
}

// TestPeerRefusals asks a member what it must not answer.
func TestPeerRefusals(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	a := c.joinPeer("a:1", func(cfg *MemberConfig) { cfg.SnapshotDir = dir })
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]struct{ cluster, id string }{
		"another cluster": {"other", fmt.Sprintf("%016x-%x-%08x", 1, 2, 3)},
		"a way out":       {"test", "../secret"},
		"another file":    {"test", "secret"},
		"nothing":         {"test", ""},
		"none it has":     {"test", fmt.Sprintf("%016x-%x-%08x", 1, 2, 3)},
	} {
		if _, err := fetchFrom(t.Context(), a.address, q.cluster, pointer{ID: q.id, Bytes: 1}); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	if _, err := askSnapshot(t.Context(), presence{GRPC: a.address}, "test", 77); err == nil || !strings.Contains(err.Error(), "term") {
		t.Errorf("a snapshot for a term that is none: %v", err)
	}
	if _, err := fetchFrom(t.Context(), a.address, "test", pointer{Bytes: limits.SnapshotBytesMax + 1}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("an endless snapshot: %v", err)
	}
	conn, err := dialPeer(a.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := peerpb.NewPeerClient(conn).Status(t.Context(), &peerpb.StatusRequest{})
	if err != nil || s.GetCluster() != "test" || s.GetState() != StateStarting {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := openSnapshotDir(dir); err == nil {
		t.Error("two processes have one directory")
	}
}

// TestTrimWaits keeps records for a member that is behind, but not for ever.
func TestTrimWaits(t *testing.T) {
	c := newCluster(t)
	var ahead atomic.Int64
	a := c.joinPeer("a:1", func(cfg *MemberConfig) { cfg.Boot = func() int64 { return bootTime() + ahead.Load() } })
	m := a.lead()
	m.mount(1, 1<<20)
	last := uint64(0)
	for last < 60 {
		m.step()
		last = m.settle()
	}
	if err := m.stop(); err != nil { // it tidies up no more by itself
		t.Fatal(err)
	}
	term := m.term()
	term.keeper.due, term.keeper.dueSince = &pointer{ID: "s", Last: last, Parts: 1, Bytes: 1}, a.shelf.boot()
	c.etcd.Set(c.keys.member("behind:1"), `{"applied":20}`)
	c.etcd.Set(c.keys.member("of a later version:1"), `[]`)
	trim := func() string {
		t.Helper()
		if err := term.trimDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.etcd.Keys(c.keys.logs())[0]
	}
	if first := trim(); first != c.keys.log(20) {
		t.Errorf("for one that is behind the log begins with %s", first)
	}
	c.etcd.Set(c.keys.member("behind:1"), `{"applied":40}`)
	if first := trim(); first != c.keys.log(40) {
		t.Errorf("when it has come nearer the log begins with %s", first)
	}
	wait := int64(limits.MemberLagMs+1) * int64(time.Millisecond)
	ahead.Add(wait)
	if first := trim(); first != c.keys.log(40) {
		t.Errorf("for one that comes nearer the log begins with %s", first)
	}
	ahead.Add(wait)
	if first := trim(); first != c.keys.log(last) || term.keeper.due != nil {
		t.Errorf("when it was waited for the log begins with %s", first)
	}
}
