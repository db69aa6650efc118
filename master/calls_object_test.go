package master

import (
	"testing"

	"mooncake/wire"
)

const mib = 1 << 20

// inEachRelease runs a story as a client of each release, on a master of its own.
func inEachRelease(t *testing.T, story func(t *testing.T, b *bed, p *peer)) {
	for _, d := range dialects {
		t.Run("release "+d.String(), func(t *testing.T) {
			b := newBed(t)
			story(t, b, b.client(d))
		})
	}
}

// expect compares an answer with what it must be and names the step.
func expect[T comparable](t testing.TB, step string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", step, got, want)
	}
}

func TestObjectFromPutToRemove(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		seg := p.mount("node", 0x1000_0000_0000, 64*mib)
		other := b.client(p.d)

		expect(t, "exist before", p.exists("k"), false)
		expect(t, "get before", p.get("k").Err, wire.ErrObjectNotFound)
		expect(t, "end before", p.putEnd("k"), wire.ErrObjectNotFound)

		started := p.putStart("k", 1000)
		if started.Err != 0 || len(started.Value) != 1 {
			t.Fatalf("put start: %+v", started)
		}
		r := &started.Value[0]
		expect(t, "status of a new replica", r.Status, wire.ReplicaStatusProcessing)
		checkPlace(t, r, &seg, 1000)

		expect(t, "exist while written", p.exists("k"), false)
		expect(t, "get while written", p.get("k").Err, wire.ErrReplicaIsNotReady)
		expect(t, "remove while written", p.remove("k", false), wire.ErrReplicaIsNotReady)
		expect(t, "put over an unfinished put", p.putStart("k", 1000).Err, wire.ErrObjectAlreadyExists)
		expect(t, "end by another client", other.putEnd("k"), wire.ErrIllegalClient)
		expect(t, "revoke by another client", other.revoke("k"), wire.ErrIllegalClient)

		end := wire.PutEndRequest{
			ClientID: p.id, ReplicaType: wire.ReplicaTypeAll,
			Object: wire.ObjectMeta{Key: "k", ObjectChecksum: wire.Some[uint64](0xfeed)},
		}
		expect(t, "end", invoke(p, &wire.PutEnd, &end).Err, 0)
		expect(t, "end again", invoke(p, &wire.PutEnd, &end).Err, 0)
		expect(t, "revoke of a complete object", p.revoke("k"), wire.ErrInvalidWrite)
		expect(t, "put over a complete object", p.putStart("k", 5).Err, wire.ErrObjectAlreadyExists)

		got := p.get("k")
		if got.Err != 0 || len(got.Value.Replicas) != 1 {
			t.Fatalf("get: %+v", got)
		}
		expect(t, "status", got.Value.Replicas[0].Status, wire.ReplicaStatusComplete)
		expect(t, "replica id", got.Value.Replicas[0].ID, r.ID)
		checkPlace(t, &got.Value.Replicas[0], &seg, 1000)
		expect(t, "lease", got.Value.LeaseTTLMs, 10_000)
		want := wire.Some[uint64](0xfeed)
		if p.d == wire.V12 {
			want = wire.Opt[uint64]{} // it can neither send nor read one
		}
		expect(t, "checksum", got.Value.ObjectChecksum, want)

		expect(t, "exist", p.exists("k"), true)
		expect(t, "remove under a lease", p.remove("k", false), wire.ErrObjectHasLease)
		expect(t, "forced remove", p.remove("k", true), 0)
		expect(t, "remove of nothing", p.remove("k", true), wire.ErrObjectNotFound)

		expect(t, "put again", p.putStart("k", 1000).Err, 0)
		expect(t, "revoke", p.revoke("k"), 0)
		expect(t, "get of a revoked put", p.get("k").Err, wire.ErrObjectNotFound)
		p.put("k", 10)
		expect(t, "remove without a reader", p.remove("k", false), 0)
	})
}

// checkPlace checks that a replica lies inside a segment and is described as the segment is.
func checkPlace(t *testing.T, r *wire.ReplicaDescriptor, seg *wire.Segment, size uint64) {
	t.Helper()
	buf := &r.DescriptorVariant.Memory.BufferDescriptor
	expect(t, "kind of the replica", r.DescriptorVariant.Index, wire.VariantMemory)
	expect(t, "size", buf.Size, size)
	expect(t, "endpoint", buf.TransportEndpoint, seg.TeEndpoint)
	expect(t, "protocol", buf.Protocol, seg.Protocol)
	if buf.BufferAddress < seg.Base || buf.BufferAddress+size > seg.Base+seg.Size {
		t.Errorf("address %#x outside the segment at %#x", buf.BufferAddress, seg.Base)
	}
}

func (p *peer) revoke(key string) wire.ErrorCode {
	p.t.Helper()
	return invoke(p, &wire.PutRevoke, &wire.PutRevokeRequest{ClientID: p.id, Key: key, ReplicaType: wire.ReplicaTypeAll}).Err
}

// putChecks are puts that are judged by their arguments alone; since says from which release on they can be asked.
var putChecks = []struct {
	name  string
	since wire.Dialect
	key   string
	size  uint64
	edit  func(*wire.ReplicateConfig)
	want  wire.ErrorCode
}{
	{name: "plain", key: "k", size: 1, want: 0},
	{name: "empty key", key: "", size: 1, want: wire.ErrInvalidParams},
	{name: "empty value", key: "k", size: 0, want: wire.ErrInvalidParams},
	{name: "no copies", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.ReplicaNum = 0 }, want: wire.ErrInvalidParams},
	{name: "more copies than there are segments", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.ReplicaNum = 1 << 63 }, want: 0},
	{name: "NVMe copy", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.NofReplicaNum = 1 }, want: wire.ErrInvalidParams},
	{name: "one group for one key", key: "k", size: 1, edit: groups("g"), want: 0},
	{name: "no group for one key", key: "k", size: 1, edit: groups(), want: wire.ErrInvalidParams},
	{name: "two groups for one key", key: "k", size: 1, edit: groups("a", "b"), want: wire.ErrInvalidParams},
	{name: "preferred segment that is not there", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.PreferredSegment = "gone" }, want: 0},
	{name: "soft pin", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.SoftPinAction = wire.SoftPinEnable }, want: 0},
	{name: "hard pin", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.WithHardPin = true }, want: 0},
	{name: "unknown data type", key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.DataType = 99 }, want: 0},
	{name: "larger than the pool", key: "k", size: 65 * mib, want: wire.ErrNoAvailableHandle},
	{name: "1 TiB", key: "k", size: 1 << 40, want: wire.ErrNoAvailableHandle},
	{name: "2^63", key: "k", size: 1 << 63, want: wire.ErrNoAvailableHandle},
	{name: "2^64-1", key: "k", size: 1<<64 - 1, want: wire.ErrNoAvailableHandle},
	{name: "file system copy", since: wire.V13, key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.DfsReplicaNum = 1 }, want: wire.ErrDfsServiceUnavailable},
	{name: "file system copy alone", since: wire.V13, key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.DfsReplicaNum, c.ReplicaNum = 1, 0 }, want: wire.ErrDfsServiceUnavailable},
	{name: "two file system copies", since: wire.V13, key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.DfsReplicaNum = 2 }, want: wire.ErrInvalidParams},
	{name: "file system copy of an empty key", since: wire.V13, key: "", size: 1, edit: func(c *wire.ReplicateConfig) { c.DfsReplicaNum = 1 }, want: wire.ErrInvalidParams},
	{name: "life of a pin without pin", since: wire.V13, key: "k", size: 1, edit: pinFor(wire.SoftPinPreserve, 5), want: wire.ErrInvalidParams},
	{name: "life of a pin", since: wire.V13, key: "k", size: 1, edit: pinFor(wire.SoftPinEnable, 5), want: 0},
	{name: "life of a pin too long", since: wire.V13, key: "k", size: 1, edit: pinFor(wire.SoftPinEnable, 86_400_001), want: wire.ErrInvalidParams},
	{name: "life of a pin without end", since: wire.V13, key: "k", size: 1, edit: pinFor(wire.SoftPinEnable, 1<<64-1), want: wire.ErrInvalidParams},
	{name: "unknown pin action", since: wire.V13, key: "k", size: 1, edit: func(c *wire.ReplicateConfig) { c.SoftPinAction = 9 }, want: wire.ErrInvalidParams},
}

func groups(names ...string) func(*wire.ReplicateConfig) {
	return func(c *wire.ReplicateConfig) { c.GroupIDs = wire.Some(names) }
}

func pinFor(action wire.SoftPinAction, ttlMs uint64) func(*wire.ReplicateConfig) {
	return func(c *wire.ReplicateConfig) { c.SoftPinAction, c.SoftPinTTLMs = action, wire.Some(ttlMs) }
}

func TestPutArguments(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, 64*mib)
		for _, tc := range putChecks {
			if tc.since > p.d {
				continue
			}
			cfg := oneCopy()
			if tc.edit != nil {
				tc.edit(&cfg)
			}
			put := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: tc.key, Size: tc.size, Config: cfg})
			expect(t, "put: "+tc.name, put.Err, tc.want)
			if put.Err == 0 {
				expect(t, "revoke: "+tc.name, p.revoke(tc.key), 0)
			}
			upsert := invoke(p, &wire.UpsertStart, &wire.UpsertStartRequest{ClientID: p.id, Key: tc.key, Size: tc.size, Config: cfg})
			expect(t, "upsert: "+tc.name, upsert.Err, tc.want)
			if upsert.Err == 0 {
				revoke := wire.UpsertRevokeRequest{ClientID: p.id, Key: tc.key, ReplicaType: wire.ReplicaTypeAll}
				expect(t, "revoke of an upsert: "+tc.name, invoke(p, &wire.UpsertRevoke, &revoke).Err, 0)
			}
			batch := invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: []string{tc.key}, Sizes: []uint64{tc.size}, Config: cfg})
			if len(batch) != 1 || batch[0].Err != tc.want {
				t.Errorf("batch of one: %s: %+v", tc.name, batch)
			}
			if tc.want == 0 {
				expect(t, "revoke of a batch: "+tc.name, p.revoke(tc.key), 0)
			}
		}
	})
}

func TestPutWithoutPool(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		expect(t, "put without a segment", p.putStart("k", 1).Err, wire.ErrNoAvailableHandle)
		expect(t, "get of what could not be put", p.get("k").Err, wire.ErrObjectNotFound)
	})
}

func TestCopiesGoToDifferentSegments(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("one", 1<<44, mib)
		b.client(p.d).mount("two", 1<<45, mib)
		put := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "k", Size: 9, Config: wire.ReplicateConfig{ReplicaNum: 2}})
		if put.Err != 0 || len(put.Value) != 2 {
			t.Fatalf("put start: %+v", put)
		}
		a, c := put.Value[0].DescriptorVariant.Memory.BufferDescriptor, put.Value[1].DescriptorVariant.Memory.BufferDescriptor
		if a.TransportEndpoint == c.TransportEndpoint {
			t.Errorf("both copies on %s", a.TransportEndpoint)
		}
		expect(t, "end", p.putEnd("k"), 0)
		expect(t, "copies read", len(p.get("k").Value.Replicas), 2)
	})
}

func TestUpsert(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, 64*mib)
		start := func(size uint64, edit func(*wire.ReplicateConfig)) wire.UpsertStartReply {
			cfg := oneCopy()
			if edit != nil {
				edit(&cfg)
			}
			return invoke(p, &wire.UpsertStart, &wire.UpsertStartRequest{ClientID: p.id, Key: "k", Size: size, Config: cfg})
		}
		end := func() wire.ErrorCode {
			return invoke(p, &wire.UpsertEnd, &wire.UpsertEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: "k"}, ReplicaType: wire.ReplicaTypeAll}).Err
		}
		address := func(r []wire.ReplicaDescriptor) uint64 {
			return r[0].DescriptorVariant.Memory.BufferDescriptor.BufferAddress
		}
		made := start(1000, nil)
		expect(t, "new", made.Err, 0)
		expect(t, "end", end(), 0)
		same := start(1000, nil)
		expect(t, "same size", same.Err, 0)
		old := p.get("k")
		expect(t, "get meanwhile", old.Err, 0)
		expect(t, "address read meanwhile", address(old.Value.Replicas), address(made.Value))
		if address(same.Value) == address(made.Value) {
			t.Error("the new bytes go over the old ones, though there is room")
		}
		expect(t, "end of the same size", end(), 0)
		expect(t, "other size", start(2000, nil).Err, 0)
		expect(t, "end of the other size", end(), 0)
		got := p.get("k")
		expect(t, "size now", got.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.Size, 2000)
		expect(t, "other group", start(2000, groups("g")).Err, wire.ErrInvalidParams)
		expect(t, "once more", start(2000, nil).Err, 0)
		expect(t, "revoke", invoke(p, &wire.UpsertRevoke, &wire.UpsertRevokeRequest{ClientID: p.id, Key: "k", ReplicaType: wire.ReplicaTypeAll}).Err, 0)
		expect(t, "the old object after the revoke", address(p.get("k").Value.Replicas), address(got.Value.Replicas))
	})
}

// TestForcedRemoveEndsAPut removes a key while it is written.
func TestForcedRemoveEndsAPut(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		expect(t, "start", p.putStart("k", 1000).Err, 0)
		expect(t, "remove", p.remove("k", true), 0)
		if s := b.service.Stats(); s.AllocatedBytes != 0 || s.Keys != 0 || s.QuarantinedBytes != 1000 {
			t.Errorf("after the remove: %d bytes, %d keys, %d bytes in quarantine", s.AllocatedBytes, s.Keys, s.QuarantinedBytes)
		}
		expect(t, "late end", p.putEnd("k"), wire.ErrObjectNotFound)
		expect(t, "late revoke", p.revoke("k"), wire.ErrObjectNotFound)
		p.put("k", 10)
		expect(t, "read", p.get("k").Err, 0)
	})
}
