package segment

import (
	"fmt"
	"strconv"
	"strings"

	"mooncake/internal/units"
)

// MemoryBound is how much memory may be in use before the daemon takes no more: bytes, or a part of what there is. The zero
// value is no bound.
type MemoryBound struct {
	// Bytes counts where Percent is 0.
	Bytes uint64
	// Percent is of the host's memory, and of the cgroup's limit where there is one.
	Percent float64
}

// ParseMemoryBound reads a size or a number with a percent sign; empty and 0 are no bound.
func ParseMemoryBound(text string) (MemoryBound, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return MemoryBound{}, nil
	}
	if number, percent := strings.CutSuffix(text, "%"); percent {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return MemoryBound{}, fmt.Errorf("%q: want a size, or more than 0%% and at most 100%%", text)
		}
		return MemoryBound{Percent: p}, nil
	}
	bytes, err := units.ParseSize(text)
	return MemoryBound{Bytes: bytes}, err
}

// String is what ParseMemoryBound reads.
func (b MemoryBound) String() string {
	if b.Percent > 0 {
		return strconv.FormatFloat(b.Percent, 'g', -1, 64) + "%"
	}
	return strconv.FormatUint(b.Bytes, 10)
}

func (b MemoryBound) none() bool { return b == MemoryBound{} }

// of is the bound in bytes where there are so many.
func (b MemoryBound) of(total uint64) uint64 {
	if b.Percent > 0 {
		return uint64(float64(total) / 100 * b.Percent)
	}
	return b.Bytes
}

// allows tells why need bytes more are too many for the bound, or nil. A part is of each scope; bytes are meant of the
// tightest.
func (b MemoryBound) allows(what string, r *room, need uint64) error {
	if b.none() {
		return nil
	}
	scopes := r.scopes()
	if b.Percent == 0 && len(scopes) > 1 {
		scopes = scopes[:1]
	}
	for _, s := range scopes {
		if bound := b.of(s.totalBytes); s.used > bound || need > bound-s.used {
			return fmt.Errorf("%s is refused by --memory_high=%s: %s of %s are in use by %s, and %s more would be above %s",
				what, b, sizeText(s.used), sizeText(s.totalBytes), s.name, sizeText(need), sizeText(bound))
		}
	}
	return nil
}
