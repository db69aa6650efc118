package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// damagedCluster is a log of many records, some of them in rolls, and what was decided in it.
func damagedCluster(t *testing.T, size uint64, steps int) (c *cluster, m *master) {
	t.Helper()
	c = newCluster(t)
	m = c.join("a:1").lead()
	m.cat.OnChange(func(changes []catalog.Change) {
		for i := range changes {
			m.changes = append(m.changes, changes[i].Clone())
		}
	})
	m.mount(1, size)
	m.settle()
	for range steps {
		m.step()
		m.settle()
	}
	m.term().poke()
	waitFor(t, "the log to be rolled up", func() bool { return len(c.etcd.Keys(c.keys.logs())) <= limits.LogRollAbove })
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if err := m.term().Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, m
}

// TestDamageInEtcd damages one value of a log in each run, in different ways. The next leader has what does not depend on
// it, never an object whose bytes may be another's, and the leader after that has the same, from a log that is sound.
func TestDamageInEtcd(t *testing.T) {
	const size = 20_000
	dice := rand.New(rand.NewPCG(5, 5))
	for what, hurt := range map[string]func(value string) string{
		"is nonsense": func(string) string { return "nonsense" },
		"is cut":      func(v string) string { return v[:len(v)-9] },
		"has another byte": func(v string) string {
			at := valueHeadBytes + 4 + dice.IntN(len(v)-valueHeadBytes-4)
			return v[:at] + string([]byte{v[at] ^ 0x5a}) + v[at+1:]
		},
		"is missing": nil,
	} {
		t.Run(what, func(t *testing.T) {
			c, m := damagedCluster(t, size, 150)
			truth := ownersAfter(m.changes, size)
			logs := c.etcd.Keys(c.keys.logs())
			key := logs[10+dice.IntN(len(logs)-40)]
			if value, _ := c.etcd.Value(key); hurt == nil {
				c.etcd.Drop(key)
			} else {
				c.etcd.Set(key, hurt(value))
			}
			second := c.join("b:1").lead()
			expectTrue(t, second, truth)
			h := second.history
			if h.Lost != 1 || second.cat.Stats().Keys*10 < m.cat.Stats().Keys*7 {
				t.Errorf("%d records lost, %d of %d objects left", h.Lost, second.cat.Stats().Keys, m.cat.Stats().Keys)
			}
			total := uint64(0)
			for _, n := range h.DroppedBy {
				total += n
			}
			if total != uint64(len(h.Dropped)) || second.term().Stats().Harm.Records != 1 {
				t.Errorf("%d objects dropped, by reason %v; %+v", len(h.Dropped), h.DroppedBy, second.term().Stats().Harm)
			}
			waitFor(t, "the log to be mended", func() bool { return !second.term().damaged.Load() })
			want := second.describe()
			if err := second.stop(); err != nil {
				t.Fatal(err)
			}
			if err := second.term().Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			third := c.join("c:1").lead()
			if third.history.Lost != 0 || third.history.BadValues != 0 {
				t.Error("the damage is found again after it was mended")
			}
			expectSame(t, "after the repair", third.describe(), want)
		})
	}
}

// TestDamageBeyondRepair loses more than the records that are left tell of: no master leads with what is left, and the
// reason names a key.
func TestDamageBeyondRepair(t *testing.T) {
	c, _ := damagedCluster(t, 20_000, 400)
	logs, rolls := c.etcd.Keys(c.keys.logs()), c.etcd.Keys(c.keys.rolls())
	if len(rolls) == 0 {
		t.Fatal("there are no rolls")
	}
	load := func() error {
		h, err := c.join("b:1").shelf.load(t.Context())
		if err == nil {
			h.Catalog.Close()
		}
		return err
	}
	roll, _ := c.etcd.Value(rolls[0])
	last := logs[len(logs)-1]
	newest, _ := c.etcd.Value(last)
	c.etcd.Set(last, "nonsense")
	if err := load(); !errors.Is(err, errNewest) || !strings.Contains(err.Error(), last) {
		t.Errorf("the newest record is nonsense: %v", err)
	}
	c.etcd.Set(last, newest)
	c.etcd.Drop(rolls[0])
	if err := load(); !errors.Is(err, errGap) {
		t.Errorf("a roll is missing: %v", err)
	}
	later := []byte(roll)
	later[codecAt] = 9
	c.etcd.Set(rolls[0], string(later))
	if err := load(); !errors.Is(err, errNoValue) || errors.Is(err, errDamaged) {
		t.Errorf("a roll of a later version: %v", err)
	}
	c.etcd.Set(rolls[0], roll)
	if err := load(); err != nil {
		t.Errorf("everything is there again: %v", err)
	}
}

// TestDamageUnderALeader damages a record while its writer leads: the log is mended while it goes on.
func TestDamageUnderALeader(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	m.settle()
	for i := range limits.LogRollAbove + 10 {
		m.log.AppendName(NameChange{Name: fmt.Sprint("name-", i), Value: []byte("v")})
		m.settle()
		if i == 20 {
			c.etcd.Set(c.keys.log(5), "nonsense")
		}
	}
	m.term().poke()
	waitFor(t, "the damage to be met", func() bool { return m.term().Stats().Harm.Values == 1 })
	waitFor(t, "the log to be mended", func() bool { return !m.term().damaged.Load() })
	m.log.AppendName(NameChange{Name: "after", Value: []byte("v")})
	m.settle()
	h, err := c.join("b:1").shelf.load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Catalog.Close()
	if h.Lost != 0 || h.BadValues != 0 || string(h.Names["after"]) != "v" || len(h.Names) < limits.LogRollAbove {
		t.Errorf("%d records lost, %d bad values, %d names", h.Lost, h.BadValues, len(h.Names))
	}
}

// TestForceEmptyInEtcd begins anew over a log that cannot be repaired, and over one that can be read. A standby that had it all
// forgets it as well. Where somebody leads nothing happens.
func TestForceEmptyInEtcd(t *testing.T) {
	c, m := damagedCluster(t, 20_000, 400)
	standby := c.join("s:1")
	h, err := standby.shelf.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { h.Catalog.Close() }()
	c.etcd.Drop(c.etcd.Keys(c.keys.rolls())[0])
	anew := c.join("b:1")
	anew.cfg.ForceEmpty = true
	second := anew.lead()
	if s := second.cat.Stats(); s.Keys != 0 || s.Segments != 0 || len(second.history.Names) != 0 {
		t.Fatalf("begun anew with %+v", s)
	}
	second.mount(2, 1<<20)
	second.names["new"] = "v"
	second.log.AppendName(NameChange{Name: "new", Value: []byte("v")})
	second.settle()
	waitFor(t, "what is void to be deleted", func() bool { return !second.term().damaged.Load() })
	if _, err := standby.shelf.catchUp(t.Context(), h); errors.Is(err, errHole) { // its next record is in the snapshot by now
		h.Catalog.Close()
		if h, err = standby.shelf.load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expectSame(t, "a standby", describe(t, h.Catalog, kept(h)), second.describe())
	if second.term().Last() <= m.term().Last() {
		t.Errorf("the numbers begin anew at %d", second.term().Last())
	}
	other := c.join("o:1")
	other.cfg.ForceEmpty = true
	again, err := other.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Catalog.Close()
	expectSame(t, "where somebody leads", describe(t, again.Catalog, kept(again)), second.describe())
}

// TestVoidRecord applies the record that makes void what was before, as a standby does.
func TestVoidRecord(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	m.log.AppendName(NameChange{Name: "old", Value: []byte("v")})
	m.settle()
	h, err := c.join("s:1").shelf.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { h.Catalog.Close() }()
	b := new(batch)
	b.start(h.Last+7, h.Last+7, nil) // what is between does not matter any more
	b.addAnew()
	b.addName(&NameChange{Name: "new", Value: []byte("v")})
	record := b.seal(1)
	head, ok := readHeader(record)
	if !ok {
		t.Fatal("no header")
	}
	if err := h.visit(&head, record[headerBytes:headerBytes+int(head.length)]); err != nil {
		t.Fatal(err)
	}
	if s := h.Catalog.Stats(); s.Segments != 0 || len(h.Names) != 1 || h.Last != head.number || h.Lost != 0 {
		t.Errorf("%d segments, names %v, %d lost", s.Segments, h.Names, h.Lost)
	}
}
