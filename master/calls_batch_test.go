package master

import (
	"fmt"
	"testing"

	"mooncake/wire"
)

// codesOf are the codes of a batch's items.
func codesOf[T any](items []wire.Exp[T, wire.ErrorCode]) (codes []wire.ErrorCode) {
	for i := range items {
		codes = append(codes, items[i].Err)
	}
	return codes
}

// expectItems compares the items of a batch one by one.
func expectItems[T any](t testing.TB, step string, items []wire.Exp[T, wire.ErrorCode], want ...wire.ErrorCode) {
	t.Helper()
	if got := codesOf(items); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", step, got, want)
	}
}

func sizes(n int) (s []uint64) {
	for i := range n {
		s = append(s, uint64(i+1))
	}
	return s
}

func metas(keys ...string) (m []wire.ObjectMeta) {
	for _, key := range keys {
		m = append(m, wire.ObjectMeta{Key: key})
	}
	return m
}

func TestBatchesOfPuts(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("node", 1<<44, 64*mib)
		other := b.client(p.d)
		keys := []string{"a", "b", "", "a", "big"}
		start := wire.BatchPutStartRequest{ClientID: p.id, Keys: keys, Sizes: []uint64{10, 20, 30, 10, 1 << 50}, Config: oneCopy()}
		begun := invoke(p, &wire.BatchPutStart, &start)
		expectItems(t, "start", begun, 0, 0, wire.ErrInvalidParams, wire.ErrObjectAlreadyExists, wire.ErrNoAvailableHandle)
		expect(t, "size of the second", begun[1].Value[0].DescriptorVariant.Memory.BufferDescriptor.Size, 20)

		end := wire.BatchPutEndRequest{ClientID: p.id, Objects: metas("a", "b", "", "gone"), ReplicaType: wire.ReplicaTypeAll}
		asOther := end
		asOther.ClientID = other.id
		expectItems(t, "end by another", invoke(other, &wire.BatchPutEnd, &asOther), wire.ErrIllegalClient, wire.ErrIllegalClient, wire.ErrObjectNotFound, wire.ErrObjectNotFound)
		expectItems(t, "end", invoke(p, &wire.BatchPutEnd, &end), 0, 0, wire.ErrObjectNotFound, wire.ErrObjectNotFound)

		exist := invoke(p, &wire.BatchExistKey, &wire.BatchExistKeyRequest{Keys: []string{"b", "gone", "", "a"}})
		expectItems(t, "exist", exist, 0, 0, 0, 0)
		for i, want := range []bool{true, false, false, true} {
			expect(t, fmt.Sprint("exist ", i), exist[i].Value, want)
		}
		got := invoke(p, &wire.BatchGetReplicaList, &wire.BatchGetReplicaListRequest{Keys: []string{"gone", "b", ""}})
		expectItems(t, "get", got, wire.ErrObjectNotFound, 0, wire.ErrObjectNotFound)
		expect(t, "replicas of b", len(got[1].Value.Replicas), 1)

		remove := wire.BatchRemoveRequest{Keys: []string{"a", "b", "gone", "a"}}
		expectItems(t, "remove", invoke(p, &wire.BatchRemove, &remove), wire.ErrObjectHasLease, wire.ErrObjectHasLease, wire.ErrObjectNotFound, wire.ErrObjectHasLease)
		remove.Force = true
		expectItems(t, "forced remove", invoke(p, &wire.BatchRemove, &remove), 0, 0, wire.ErrObjectNotFound, wire.ErrObjectNotFound)

		start.Keys, start.Sizes = []string{"x", "y"}, sizes(2)
		expectItems(t, "start again", invoke(p, &wire.BatchPutStart, &start), 0, 0)
		revoke := wire.BatchPutRevokeRequest{ClientID: p.id, Keys: []string{"x", "gone", "y", "x"}, ReplicaType: wire.ReplicaTypeAll}
		expectItems(t, "revoke", invoke(p, &wire.BatchPutRevoke, &revoke), 0, wire.ErrObjectNotFound, 0, wire.ErrObjectNotFound)
	})
}

func TestBatchesOfUpserts(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, 64*mib)
		start := wire.BatchUpsertStartRequest{ClientID: p.id, Keys: []string{"a", "", "b"}, Sizes: sizes(3), Config: oneCopy()}
		end := wire.BatchUpsertEndRequest{ClientID: p.id, Objects: metas("a", "b", "gone")}
		for round := range 2 { // the second one finds the objects there
			expectItems(t, fmt.Sprint("start ", round), invoke(p, &wire.BatchUpsertStart, &start), 0, wire.ErrInvalidParams, 0)
			expectItems(t, fmt.Sprint("end ", round), invoke(p, &wire.BatchUpsertEnd, &end), 0, 0, wire.ErrObjectNotFound)
		}
		invoke(p, &wire.BatchUpsertStart, &start)
		revoke := wire.BatchUpsertRevokeRequest{ClientID: p.id, Keys: []string{"b", "a", "a"}}
		// The old value of a stays, and is nobody's: a late end must not make believe that the new one is there.
		expectItems(t, "revoke", invoke(p, &wire.BatchUpsertRevoke, &revoke), 0, 0, wire.ErrIllegalClient)
	})
}

// TestBatchShapes has lists that do not go together: every key is refused, none is touched.
func TestBatchShapes(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		bad := wire.ErrInvalidParams
		for _, tc := range []struct {
			name   string
			keys   []string
			sizes  []uint64
			groups []string
			want   []wire.ErrorCode
		}{
			{"nothing", nil, nil, nil, nil},
			{"sizes of no keys", nil, sizes(3), nil, nil},
			{"fewer sizes", []string{"a", "b"}, sizes(1), nil, []wire.ErrorCode{bad, bad}},
			{"more sizes", []string{"a", "b"}, sizes(3), nil, []wire.ErrorCode{bad, bad}},
			{"no sizes", []string{"a"}, nil, nil, []wire.ErrorCode{bad}},
			{"fewer groups", []string{"a", "b"}, sizes(2), []string{"g"}, []wire.ErrorCode{bad, bad}},
			{"more groups", []string{"a"}, sizes(1), []string{"g", "h"}, []wire.ErrorCode{bad}},
			{"groups of no keys", nil, nil, []string{"g"}, nil},
		} {
			cfg := oneCopy()
			if tc.groups != nil {
				cfg.GroupIDs = wire.Some(tc.groups)
			}
			put := wire.BatchPutStartRequest{ClientID: p.id, Keys: tc.keys, Sizes: tc.sizes, Config: cfg}
			expectItems(t, "put: "+tc.name, invoke(p, &wire.BatchPutStart, &put), tc.want...)
			upsert := wire.BatchUpsertStartRequest{ClientID: p.id, Keys: tc.keys, Sizes: tc.sizes, Config: cfg}
			expectItems(t, "upsert: "+tc.name, invoke(p, &wire.BatchUpsertStart, &upsert), tc.want...)
		}
		expect(t, "keys", b.service.cat.Stats().Keys, 0)
	})
}

// TestGroupsLiveAndDieTogether reads one member and finds the others protected.
func TestGroupsLiveAndDieTogether(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		cfg := oneCopy()
		cfg.GroupIDs = wire.Some([]string{"g", "g", ""})
		keys := []string{"one", "two", "alone"}
		expectItems(t, "start", invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: keys, Sizes: sizes(3), Config: cfg}), 0, 0, 0)
		expectItems(t, "end", invoke(p, &wire.BatchPutEnd, &wire.BatchPutEndRequest{ClientID: p.id, Objects: metas(keys...), ReplicaType: wire.ReplicaTypeAll}), 0, 0, 0)
		expect(t, "exist", p.exists("one"), true)
		expect(t, "remove of the other", p.remove("two", false), wire.ErrObjectHasLease)
		expect(t, "remove of what is in no group", p.remove("alone", false), 0)
	})
}

// TestSameNodeBatch asks for one segment for a whole batch, whatever that segment is called.
func TestSameNodeBatch(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		for i := range 4 {
			b.client(p.d).mount(fmt.Sprint("node", i), uint64(i+1)<<40, mib)
		}
		cfg := oneCopy()
		cfg.PreferAllocInSameNode = true
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		begun := invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: keys, Sizes: sizes(20), Config: cfg})
		seen := map[string]bool{}
		for i := range begun {
			if begun[i].Err != 0 {
				t.Fatal(begun[i].Err)
			}
			seen[begun[i].Value[0].DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint] = true
		}
		expect(t, "segments of the batch", len(seen), 1)
	})
}

func TestRemoveByPatternAndAll(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		for _, key := range []string{"step_1/a", "step_1/b", "step_2/a", "read", "x"} {
			p.put(key, 8)
		}
		expect(t, "open put", p.putStart("step_1/open", 8).Err, 0)

		found := invoke(p, &wire.GetReplicaListByRegex, &wire.GetReplicaListByRegexRequest{Regex: "_2/"})
		expect(t, "search", found.Err, 0)
		if len(found.Value) != 1 || found.Value[0].Key != "step_2/a" || len(found.Value[0].Value) != 1 {
			t.Errorf("search: %+v", found.Value)
		}
		expect(t, "bad search", invoke(p, &wire.GetReplicaListByRegex, &wire.GetReplicaListByRegexRequest{Regex: "("}).Err, wire.ErrInvalidParams)

		removeMatching := func(regex string, force bool) wire.RemoveByRegexReply {
			return invoke(p, &wire.RemoveByRegex, &wire.RemoveByRegexRequest{Regex: regex, Force: force})
		}
		expect(t, "bad pattern", removeMatching("[", true), wire.RemoveByRegexReply{Err: wire.ErrInvalidParams})
		expect(t, "no match", removeMatching("nothing", true), wire.RemoveByRegexReply{})
		expect(t, "leased and open ones stay", removeMatching("^step", false), wire.RemoveByRegexReply{Value: 2})
		expect(t, "forced", removeMatching("^step", true), wire.RemoveByRegexReply{Value: 1})

		expect(t, "read", p.exists("read"), true)
		removeAll := func(force bool) int64 {
			return invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: force})
		}
		expect(t, "all but the leased", removeAll(false), 1)
		expect(t, "all", removeAll(true), 1)
		expect(t, "none left", removeAll(true), 0)
		expect(t, "the open put still ends", p.putEnd("step_1/open"), 0)
	})
}
