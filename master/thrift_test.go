package master

import (
	"testing"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// Memory goes back once, after the catalog became much smaller and came to rest; not while it changes, and not for little.
func TestThrift(t *testing.T) {
	const much = 4 * limits.ThriftBytes
	given := 0
	keeper := thrift{giveBack: func() { given++ }}
	now := catalog.Time(1000)
	look := func(held uint64, want int, why string) {
		t.Helper()
		if keeper.look(now, held); given != want {
			t.Fatalf("%s: given back %d times, want %d", why, given, want)
		}
		now += limits.ThriftRestMs
	}
	look(much, 0, "filled")
	look(much, 0, "full and at rest")
	look(much-limits.ThriftBytes/2, 0, "a little smaller")
	look(much-limits.ThriftBytes/2, 0, "a little smaller, and at rest")
	for held := uint64(much); held > much/8; held -= much / 8 {
		look(held, 0, "becoming smaller")
	}
	look(much/8, 0, "just become small")
	now -= limits.ThriftRestMs - 1
	look(much/8, 0, "small for a moment")
	look(much/8, 1, "small and at rest")
	look(much/8, 1, "given back already")
	look(much, 1, "filled again")
	look(0, 1, "just emptied")
	look(0, 2, "empty and at rest")
}
