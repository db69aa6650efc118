package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// sizeUnits holds every spelling of a size unit, in lower case. KB and KiB mean the same, as everywhere in this system.
var sizeUnits = map[string]uint64{
	"": 1, "b": 1,
	"k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
	"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
	"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
	"t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40,
}

// fractionDigitsMax bounds the digits after the point, so that a fraction times the largest unit stays in 128 bits.
const fractionDigitsMax = 12

// ParseSize reads a number of bytes: digits, perhaps a fraction, and perhaps a unit in any case with blanks between.
// A fraction needs a unit and is rounded down to whole bytes. Sizes above the largest int64 are refused, because they
// travel as signed numbers on some paths.
func ParseSize(text string) (uint64, error) {
	trimmed := strings.TrimSpace(text)
	end := 0
	for end < len(trimmed) && (trimmed[end] >= '0' && trimmed[end] <= '9' || trimmed[end] == '.') {
		end++
	}
	number, unitText := trimmed[:end], strings.ToLower(strings.TrimSpace(trimmed[end:]))
	whole, fraction, hasPoint := strings.Cut(number, ".")
	unit, known := sizeUnits[unitText]
	if !known || whole == "" || hasPoint && (fraction == "" || unit == 1) {
		return 0, fmt.Errorf("size %q is not a number of bytes nor a number with KB, MB, GB or TB", text)
	}
	count, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, sizeTooLarge(text, err)
	}
	hi, bytes := bits.Mul64(count, unit)
	if hi != 0 || bytes > math.MaxInt64 {
		return 0, sizeTooLarge(text, nil)
	}
	part, err := fractionOf(unit, fraction)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", text, err)
	}
	if bytes+part > math.MaxInt64 {
		return 0, sizeTooLarge(text, nil)
	}
	return bytes + part, nil
}

func sizeTooLarge(text string, cause error) error {
	if cause != nil && !strings.Contains(cause.Error(), "range") {
		return fmt.Errorf("size %q is not a number", text)
	}
	return fmt.Errorf("size %q is larger than %d bytes", text, int64(math.MaxInt64))
}

// fractionOf returns unit * 0.digits, rounded down.
func fractionOf(unit uint64, digits string) (uint64, error) {
	if digits == "" {
		return 0, nil
	}
	if len(digits) > fractionDigitsMax {
		return 0, fmt.Errorf("more than %d digits after the point", fractionDigitsMax)
	}
	value, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q after the point is not a number", digits)
	}
	scale := uint64(1)
	for range len(digits) {
		scale *= 10
	}
	hi, lo := bits.Mul64(value, unit)
	part, _ := bits.Div64(hi, lo, scale)
	return part, nil
}

// FormatSize writes a size as the master's summary does: whole bytes below 1024, then KB, MB, GB and TB with two
// decimals, and "infinite" for the largest int64, which stands for "no limit".
func FormatSize(bytes uint64) string {
	if bytes == math.MaxInt64 {
		return "infinite"
	}
	if bytes < 1<<10 {
		return strconv.FormatUint(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/(1<<10), 0
	for value >= 1<<10 && unit < 3 {
		value /= 1 << 10
		unit++
	}
	return strconv.FormatFloat(value, 'f', 2, 64) + [...]string{" KB", " MB", " GB", " TB"}[unit]
}
