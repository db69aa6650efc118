package client

import (
	"bytes"
	"hash/crc32"
	"slices"
	"testing"

	"mooncake/internal/limits"
)

// TestWrongCopiesAreLeftOut reads an object of two copies, of which one and then both have other bytes than the checksum says:
// the right one is taken, the master is told of the others, and where none is left nothing is returned as if it were right.
func TestWrongCopiesAreLeftOut(t *testing.T) {
	p := newPool(t, 2)
	c, ctx := p.client(Config{}), soon(t)
	data := randomBytes(3, 2*limits.ClientPieceBytes+5)
	if err := c.Put(ctx, "k", data, PutOptions{Copies: 2}); err != nil {
		t.Fatal(err)
	}
	list, err := c.placements(ctx, []string{"k"}, false)
	if err != nil {
		t.Fatal(err)
	}
	r, sum := list[0], crc32.Checksum(data, castagnoli)
	copies := inMemory(r.GetPlacements())
	if len(copies) != 2 || r.Crc32C != nil {
		t.Fatalf("%v", r)
	}
	wrong := bytes.Clone(data)
	wrong[7] ^= 1
	if !c.sound(ctx, "k", r, bytes.Clone(wrong)) {
		t.Error("without a checksum something is wrong")
	}
	r.Crc32C = &sum
	told := c.Stats().MasterCalls
	if got := bytes.Clone(data); !c.sound(ctx, "k", r, got) || !bytes.Equal(got, data) || c.Stats().MasterCalls != told {
		t.Error("the right bytes are called wrong")
	}
	for n, m := range copies {
		if err := c.move(ctx, m, piece{7, wrong[7:8]}, c.dialer.Write); err != nil {
			t.Fatal(err)
		}
		told = c.Stats().MasterCalls
		got := bytes.Clone(wrong)
		if sound := c.sound(ctx, "k", r, got); sound != (n == 0) || sound && !bytes.Equal(got, data) {
			t.Errorf("with %d wrong copies: sound %v", n+1, sound)
		}
		if c.Stats().MasterCalls != told+1 {
			t.Errorf("with %d wrong copies the master was not told once", n+1)
		}
	}
	if ids := inMemoryIDs(r.GetPlacements()); len(ids) != 2 || !slices.Contains(ids, r.GetPlacements()[0].GetReplicaId()) {
		t.Errorf("ids %v", ids)
	}
}
