package catalog

import (
	"strings"
	"testing"

	"mooncake/internal/limits"
	"pgregory.net/rapid"
)

// TestApplyIsTotal applies Changes that nobody decided: whatever a damaged log says, nothing breaks and the sums hold.
func TestApplyIsTotal(t *testing.T) {
	keys := []string{
		"a", "b", "p/00000000000000000000000000000001/manifest", "p/00000000000000000000000000000001/meta", "",
		strings.Repeat("k", limits.KeyBytesMax+1),
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newState()
		defer s.arena.freeAll()
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			c := Change{
				Kind:         ChangeKind(rapid.OneOf(rapid.Uint8Range(0, 10), rapid.SampledFrom([]uint8{uint8(ChangeSum), uint8(ChangeClear)})).Draw(t, "kind")),
				Cause:        rapid.SampledFrom([]Cause{0, CauseRemove, CauseCorrupt, CauseWindow}).Draw(t, "cause"),
				Sum:          rapid.Uint32().Draw(t, "sum"),
				HasSum:       rapid.Bool().Draw(t, "has sum"),
				Time:         Time(rapid.Int64Range(-1, 5).Draw(t, "time")),
				Until:        Time(rapid.Int64Range(0, 5).Draw(t, "until")),
				HandedOut:    rapid.SampledFrom([]Time{0, 3, Never}).Draw(t, "early"),
				PinnedUntil:  Time(rapid.Int64Range(0, 5).Draw(t, "pinned")),
				SoftPin:      rapid.Uint8Range(0, 4).Draw(t, "soft"),
				SoftPinTTLMs: rapid.Int64Range(-1, 5).Draw(t, "ttl"),
				HardPin:      rapid.Bool().Draw(t, "hard"),
				Client:       UUID{1, rapid.Uint64Range(1, 2).Draw(t, "client")},
				Key:          rapid.SampledFrom(keys).Draw(t, "key"),
				Group:        rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
				Size:         rapid.Uint64Range(0, 40).Draw(t, "size"),
				Below:        rapid.Uint64Range(0, 8).Draw(t, "below"),
			}
			for range rapid.IntRange(0, 4).Draw(t, "replicas") {
				c.Replicas = append(c.Replicas, ReplicaChange{
					ID:      rapid.Uint64Range(0, 6).Draw(t, "id"),
					Segment: UUID{9, rapid.Uint64Range(1, 3).Draw(t, "segment")},
					Offset:  rapid.OneOf(rapid.Uint64Range(0, 120), rapid.Just(^uint64(0))).Draw(t, "offset"),
					Size:    rapid.Uint64Range(0, 40).Draw(t, "bytes"),
				})
			}
			if rapid.IntRange(0, 9).Draw(t, "with segment") > 0 {
				c.Segment = &Segment{ID: UUID{9, rapid.Uint64Range(1, 3).Draw(t, "segment")}, Size: rapid.SampledFrom([]uint64{100, 100, 0}).Draw(t, "bytes")}
			}
			s.apply(&c, false)
			s.segments.settle()
			if rapid.Bool().Draw(t, "tidy") {
				s.tidy(rapid.IntRange(0, 3).Draw(t, "limit"))
			}
		}
		for s.tidy(100) {
		}
		check(t, s)
	})
}
