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

// TestCut covers all bytes once, in pieces that are worth a connection each and no more than there are connections for.
func TestCut(t *testing.T) {
	for n, want := range map[int]int{
		0: 0, 1: 1, limits.ClientPieceBytes: 1, limits.ClientPieceBytes + 1: 2, 4*limits.ClientPieceBytes + 1: 4,
		4 * limits.ClientPieceMaxBytes: 4, 4*limits.ClientPieceMaxBytes + 4: 5,
	} {
		list := cut(7, make([]byte, n))
		at := uint64(7)
		for _, p := range list {
			if p.at != at || len(p.data) == 0 || len(p.data) > limits.ClientPieceMaxBytes || cap(p.data) != len(p.data) {
				t.Errorf("%d bytes: a piece of %d at %d, want it at %d", n, len(p.data), p.at, at)
			}
			at += uint64(len(p.data))
		}
		if at != 7+uint64(n) || len(list) != want {
			t.Errorf("%d bytes in %d pieces up to %d, want %d", n, len(list), at, want)
		}
	}
}
