package units

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "268435456": 256 << 20, "17b": 17, "17 B": 17,
		"2gb": 2 << 30, "512MB": 512 << 20, "1GiB": 1 << 30, "64mb": 64 << 20, "4 GB": 4 << 30, "20M": 20 << 20,
		" 16 MiB ": 16 << 20, "3k": 3 << 10, "1TB": 1 << 40, "1t": 1 << 40, "3.125gb": 25 << 27, "0.5K": 512, "1.0g": 1 << 30,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "abc", "GB", "-1", "+1", "1.5", "1.5b", "1.", ".5g", "1..5g", "1.2.3g", "1gbb", "1 g b", "0x10", "1e9", "1,000",
		"9223372036854775808", "99999999999999999999999", "8388608TB", "8388607.9999999999999TB", "1.1234567890123g", "١gb",
	} {
		got, err := ParseSize(text)
		if err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		} else if !strings.Contains(err.Error(), text) {
			t.Errorf("ParseSize(%q): the error does not name the text: %v", text, err)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KB", 64 << 20: "64.00 MB", 46148813: "44.01 MB", 3 << 30: "3.00 GB",
		1 << 40: "1.00 TB", 1 << 52: "4096.00 TB", math.MaxInt64: "infinite",
	} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", bytes, got, want)
		}
	}
}

// A size that was printed reads back within the rounding of its two decimals.
func TestSizeReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Uint64Range(0, 1<<50).Draw(t, "bytes")
		back, err := ParseSize(FormatSize(bytes))
		if err != nil {
			t.Fatal(err)
		}
		if diff := math.Abs(float64(back) - float64(bytes)); diff > 0.006*float64(max(bytes, 1)) {
			t.Fatalf("%d printed as %s, read back as %d", bytes, FormatSize(bytes), back)
		}
	})
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "10000": 10 * time.Second, "5ms": 5 * time.Millisecond, "3s": 3 * time.Second, " 3 S ": 3 * time.Second,
		"30m": 30 * time.Minute, "24H": 24 * time.Hour, "7 Ms": 7 * time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "s", "1.5s", "5q", "-1s", "+1", "1 s 2", "99999999999999999999", "9999999999h", "1d", "1us"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		} else if !strings.Contains(err.Error(), text) {
			t.Errorf("ParseDuration(%q): the error does not name the text: %v", text, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"2gb", "512MB", "1GiB", "4 GB", "20M", "3.125g", "268435456", "abc"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if bytes, err := ParseSize(text); err == nil && bytes > math.MaxInt64 {
			t.Fatalf("ParseSize(%q) = %d", text, bytes)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"10000", " 3 S ", "30m", "1.5s", "5q"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil && d < 0 {
			t.Fatalf("ParseDuration(%q) = %v", text, d)
		}
	})
}
