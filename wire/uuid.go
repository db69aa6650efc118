package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// UUID names a client, a segment, a task or a lease: two numbers, in the order of the wire.
type UUID struct{ Hi, Lo uint64 }

// String is "Hi-Lo" in decimal.
func (u UUID) String() string {
	b := make([]byte, 0, 41) // two numbers of at most 20 digits and the dash
	b = strconv.AppendUint(b, u.Hi, 10)
	b = append(b, '-')
	return string(strconv.AppendUint(b, u.Lo, 10))
}

// IsZero tells whether the UUID names nothing.
func (u UUID) IsZero() bool { return u == UUID{} }

// ParseUUID reads what String writes.
func ParseUUID(s string) (UUID, error) {
	hi, lo, ok := strings.Cut(s, "-")
	if !ok {
		return UUID{}, fmt.Errorf("%q is no id of the form number-number", s)
	}
	var u UUID
	var err error
	if u.Hi, err = strconv.ParseUint(hi, 10, 64); err != nil {
		return UUID{}, fmt.Errorf("%q is no id of the form number-number", s)
	}
	if u.Lo, err = strconv.ParseUint(lo, 10, 64); err != nil {
		return UUID{}, fmt.Errorf("%q is no id of the form number-number", s)
	}
	return u, nil
}
