package wire

import "strings"

// Dialect is the layout a message is written in; there is one for each published release.
type Dialect uint8

// The dialects. V13 and V14 share every type hash but one; V14 adds compatible fields behind the data, which V13 skips.
const (
	V12 Dialect = iota // release 0.3.12.post1
	V13                // release 0.3.13.post1
	V14                // release 0.3.14

	numDialects = 3
)

// String is the release's short name: "12", "13" or "14".
func (d Dialect) String() string {
	switch d {
	case V12:
		return "12"
	case V13:
		return "13"
	case V14:
		return "14"
	}
	return "unknown"
}

// known cuts a dialect to the ones there are, so that it can index a table.
func (d Dialect) known() Dialect { return min(d, V14) }

// DialectSet is a set of dialects, one bit each.
type DialectSet uint8

// AllDialects is every layout there is.
const AllDialects DialectSet = 1<<numDialects - 1

// SetOf is the set of these dialects.
func SetOf(dialects ...Dialect) DialectSet {
	var s DialectSet
	for _, d := range dialects {
		s |= 1 << d
	}
	return s
}

// Has tells whether d is in the set.
func (s DialectSet) Has(d Dialect) bool { return s>>d&1 == 1 }

// Newest is the newest dialect of the set; V14 if the set is empty.
func (s DialectSet) Newest() Dialect {
	for d := V14; d > V12; d-- {
		if s.Has(d) {
			return d
		}
	}
	if s == 0 {
		return V14
	}
	return V12
}

// String lists the members: "12 13".
func (s DialectSet) String() string {
	var names []string
	for d := V12; d <= V14; d++ {
		if s.Has(d) {
			names = append(names, d.String())
		}
	}
	return strings.Join(names, " ")
}
