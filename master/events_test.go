package master

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mooncake/wire"
)

func withEvents(c *Config) {
	c.Events.On, c.Events.Endpoint, c.Events.BackendID = true, "tcp://127.0.0.1:0", "b"
}

// listener is a subscriber to all events.
type listener struct {
	t  testing.TB
	c  net.Conn
	in *bufio.Reader
}

func (b *bed) listener() *listener {
	b.t.Helper()
	c, err := net.Dial("tcp", b.events.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0}, append([]byte("NULL"), make([]byte, 48)...)...)
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	if _, err := c.Write(append(append(greeting, 4, byte(len(ready))), ready+"\x00\x01\x01"...)); err != nil {
		b.t.Fatal(err)
	}
	l := &listener{b.t, c, bufio.NewReader(c)}
	if _, err := io.CopyN(io.Discard, l.in, 64); err != nil {
		b.t.Fatal(err)
	}
	l.frame() // READY
	return l
}

func (l *listener) frame() []byte {
	l.t.Helper()
	if err := l.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		l.t.Fatal(err)
	}
	flags, err := l.in.ReadByte()
	size := make([]byte, 1+flags&2/2*7)
	if err == nil {
		_, err = io.ReadFull(l.in, size)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint64(append(make([]byte, 8-len(size)), size...)))
	if _, err := io.ReadFull(l.in, body); err != nil {
		l.t.Fatal(err)
	}
	return body
}

// hear reads messages until one is of the sort and about the key, and makes sure that none is missing in between.
func (l *listener) hear(number *uint64, sort, key string) {
	l.t.Helper()
	for {
		l.frame()
		got, payload := binary.BigEndian.Uint64(l.frame()), l.frame()
		if got != *number+1 {
			l.t.Fatalf("message %d after %d", got, *number)
		}
		*number = got
		if bytes.Contains(payload, []byte(sort)) && bytes.Contains(payload, []byte(key)) {
			return
		}
	}
}

// begin reads what a subscription begins with.
func (l *listener) begin() (number uint64, epoch string) {
	l.t.Helper()
	l.frame()
	number = binary.BigEndian.Uint64(l.frame())
	payload := l.frame()
	_, epoch, ok := strings.Cut(string(payload), "leader_epoch")
	if !ok || !bytes.Contains(payload, []byte("AllBlocksCleared")) {
		l.t.Fatalf("a subscription begins with %q", payload)
	}
	return number, epoch
}

// TestEvents hears of objects that come and go, whatever makes them.
func TestEvents(t *testing.T) {
	b := newBed(t, withEvents, withDisks)
	p := b.client(wire.V13)
	seg := p.mount("host", 1<<20, 1<<20)
	l := b.listener()
	number, _ := l.begin()
	expect(t, "number", number, 0)
	for _, key := range []string{"key-a", "key-b", "key-c"} {
		p.put(key, 100)
		l.hear(&number, "BlockStored", key)
	}
	expect(t, "removed", p.remove("key-a", true), wire.ErrorCode(0))
	l.hear(&number, "BlockRemoved", "key-a")
	expect(t, "by pattern", invoke(p, &wire.RemoveByRegex, &wire.RemoveByRegexRequest{Regex: "key-b", Force: true}).Value, 1)
	l.hear(&number, "BlockRemoved", "key-b")
	expect(t, "unmount", invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg.ID, ClientID: p.id}).Err, wire.ErrorCode(0))
	l.hear(&number, "BlockRemoved", "key-c")
	expect(t, "mount", invoke(p, &wire.MountLocalDiskSegment, &wire.MountLocalDiskSegmentRequest{ClientID: p.id, EnableOffloading: true}).Err, wire.ErrorCode(0))
	expect(t, "report", p.copied(100, "key-d"), wire.ErrorCode(0))
	l.hear(&number, "disk", "key-d")
	expect(t, "all", int64(invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true})), 1)
	l.hear(&number, "AllBlocksCleared", "")
	late, _ := b.listener().begin()
	expect(t, "a late subscription begins after", late, number)
	if text := pageText(t, b, "/kv_events/status"); !strings.Contains(text, `"enabled":true`) || !strings.Contains(text, `"dropped_events":0`) {
		t.Error(text)
	}
}

// TestEventsOverARestart goes on with one reset, in a later epoch.
func TestEventsOverARestart(t *testing.T) {
	dir := t.TempDir()
	kept := func(c *Config) { c.DataDir, c.JournalSync = dir, "never" }
	b := newBed(t, withEvents, kept)
	p := b.client(wire.V13)
	p.mount("host", 1<<20, 1<<20)
	l := b.listener()
	number, before := l.begin()
	p.put("key-a", 100)
	l.hear(&number, "BlockStored", "key-a")
	b.stop()

	b = newBed(t, withEvents, kept)
	l = b.listener()
	number, after := l.begin()
	if number != 0 || after <= before {
		t.Errorf("after the restart: number %d, epoch %q after %q", number, after, before)
	}
	p = b.client(wire.V13)
	expect(t, "removed", p.remove("key-a", true), wire.ErrorCode(0))
	l.hear(&number, "BlockRemoved", "key-a")
}

// TestEventsOverAFailover subscribes to two masters. The one that leads speaks; when the lead passes to the other, by a
// hand-over or because its lease ends, a subscriber sees one reset with a higher epoch and no gap.
func TestEventsOverAFailover(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd, withEvents)
	first.awaitState("serving")
	second := newMember(t, etcd, withEvents)
	second.awaitState("standby")
	p := first.client(wire.V13)
	p.mount("host", 1<<20, 1<<20)
	leads, stands := first.listener(), second.listener()
	number, epoch := leads.begin()
	p.put("key-a", 100)
	leads.hear(&number, "BlockStored", "key-a")
	first.stop()
	second.awaitState("serving")

	number, next := stands.begin()
	if number != 0 || next <= epoch {
		t.Errorf("after the hand-over: number %d, epoch %q after %q", number, next, epoch)
	}
	p = second.client(wire.V13)
	expect(t, "removed", p.remove("key-a", true), wire.ErrorCode(0))
	stands.hear(&number, "BlockRemoved", "key-a")

	view := second.cluster.Standing().ViewVersion
	etcd.Expire()
	waitFor(t, "another term", func() bool {
		s := second.cluster.Standing()
		return s.Ready && s.ViewVersion > view
	})
	number, last := stands.begin()
	if number != 0 || last <= next {
		t.Errorf("after the lease's end: number %d, epoch %q after %q", number, last, next)
	}
	p = second.client(wire.V13)
	p.put("key-b", 100)
	stands.hear(&number, "BlockStored", "key-b")
}

func TestEventSettings(t *testing.T) {
	for part, edit := range map[string]func(*Config){
		"needs --kv_events_bind_endpoint": func(c *Config) { c.Events.Endpoint = "" },
		"needs --kv_events_backend_id":    func(c *Config) { c.Events.BackendID = "" },
		"kv_events_queue_capacity=-1":     func(c *Config) { c.Events.Queue = -1 },
	} {
		cfg := DefaultConfig()
		withEvents(&cfg)
		edit(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("want %q, got %v", part, err)
		}
	}
	cfg := DefaultConfig()
	withEvents(&cfg)
	cfg.Events.Endpoint = "ipc://x"
	if _, err := cfg.openEvents(); err == nil || !strings.Contains(err.Error(), `--kv_events_bind_endpoint: endpoint "ipc://x"`) {
		t.Errorf("%v", err)
	}
}

// TestGathered: what begins to fill is looked at each time, and nobody looks once the context has ended.
func TestGathered(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	some, looks, ended := make(chan struct{}, 1), make(chan struct{}), make(chan error)
	go func() {
		ended <- gathered(ctx, some, time.Millisecond, func() { looks <- struct{}{} })
	}()
	for round := range 3 {
		ring(some)
		select {
		case <-looks:
		case <-time.After(patience):
			t.Fatalf("round %d: nobody looks", round)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	ring(some)
	ring(some) // which nobody takes, and which does not wait
}
