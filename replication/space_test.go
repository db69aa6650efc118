package replication

import (
	"errors"
	"testing"

	"mooncake/internal/limits"
)

// TestFullEtcd fills etcd under a leader: nothing is durable, and whoever asks for room is refused at once. When the alarm is
// disarmed all of it becomes durable.
func TestFullEtcd(t *testing.T) {
	c := newCluster(t)
	n := c.join("a:1")
	m := n.lead()
	m.mount(1, 1<<20)
	m.settle()
	c.etcd.Full(true)
	for range 20 {
		m.step()
	}
	number := m.term().AppendName(NameChange{Name: "n", Value: []byte("v")})
	done := make(chan error, 1)
	go func() { done <- m.term().WaitDurable(number) }()
	waitFor(t, "the leader to know", func() bool { return n.Standing().Full })
	if err := m.term().Room(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("room in a full etcd: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("a record in a full etcd: %v", err)
	default:
	}
	c.etcd.Full(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := m.term().Room(t.Context()); err != nil || n.Standing().Full {
		t.Errorf("after it was disarmed: %v", err)
	}
}

// TestCrowdedEtcd makes a snapshot early when half of what etcd may hold is taken, by whomever.
func TestCrowdedEtcd(t *testing.T) {
	c := newCluster(t)
	c.etcd.Fill(900, 400, 1000)
	n := c.join("a:1")
	m := n.lead()
	m.mount(1, 1<<20)
	m.settle()
	term := m.term()
	waitForSize := func(want int64) {
		t.Helper()
		waitFor(t, "the size to be known", func() bool {
			term.space.looked.Store(term.boot() - limits.LogSizeMs*1_000_000)
			term.poke()
			return n.Standing().EtcdBytes == want
		})
	}
	waitForSize(400)
	term.keeper.wrote.Store(limits.LogTrimBytes)
	term.poke()
	c.etcd.Fill(900, 700, 1000)
	waitForSize(700)
	waitFor(t, "a snapshot", func() bool { term.poke(); return term.Stats().Snapshots == 1 })
	if s := n.Standing(); s.EtcdQuota != 1000 || s.Full {
		t.Errorf("%+v", s)
	}
}
