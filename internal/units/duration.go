package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration as the master's lease flags do: an unsigned whole number and perhaps ms, s, m or h in
// any case, blanks allowed around both. A bare number is milliseconds. Fractions and signs are refused.
func ParseDuration(text string) (time.Duration, error) {
	trimmed := strings.TrimSpace(text)
	end := 0
	for end < len(trimmed) && trimmed[end] >= '0' && trimmed[end] <= '9' {
		end++
	}
	unit := time.Millisecond
	switch strings.ToLower(strings.TrimSpace(trimmed[end:])) {
	case "", "ms":
	case "s":
		unit = time.Second
	case "m":
		unit = time.Minute
	case "h":
		unit = time.Hour
	default:
		end = 0
	}
	if end == 0 {
		return 0, fmt.Errorf("duration %q is not a whole number with ms, s, m or h", text)
	}
	count, err := strconv.ParseUint(trimmed[:end], 10, 64)
	if err != nil || count > math.MaxInt64/uint64(unit) {
		return 0, fmt.Errorf("duration %q is longer than %d hours", text, int64(math.MaxInt64)/int64(time.Hour))
	}
	return time.Duration(count) * unit, nil
}

// ParseSeconds reads a whole number of seconds, as the master's flags that count seconds do.
func ParseSeconds(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 0, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number of seconds between 0 and %d", text, 1<<31-1)
	}
	return time.Duration(n) * time.Second, nil
}

// FormatSeconds prints what ParseSeconds reads.
func FormatSeconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
