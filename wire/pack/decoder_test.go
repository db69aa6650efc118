package pack

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mooncake/internal/limits"
)

var (
	twoStrings = NewType(LiteralStruct(LiteralString, LiteralString), false)
	oneUUID    = NewType(uuidLiteral, false)
	// withCompat is a list of strings, each followed by a compatible u64.
	withCompat = NewType(LiteralVector(LiteralString), true)
)

func TestReadTwoStrings(t *testing.T) {
	const (
		hash    = "d91ef97c" // of twoStrings, with the flag
		literal = "fd800c800cff00"
	)
	tests := []struct {
		name, body string
		want       string
		err        error
	}{
		{"as wheels write it", hash + "04" + literal + "026b31 0764656661756c74", "k1 default", nil},
		{"without literal", hash + "00" + "026b31 0764656661756c74", "k1 default", nil},
		{"without meta byte", "d81ef97c" + "026b31 0764656661756c74", "k1 default", nil},
		{"2-byte lengths", hash + "0c" + literal + "02006b31 01007a", "k1 z", nil},
		{"4-byte lengths", hash + "14" + literal + "020000006b31 010000007a", "k1 z", nil},
		{"8-byte lengths", hash + "1c" + literal + "02000000000000006b31 01000000000000007a", "k1 z", nil},
		{"8-byte lengths, no literal", hash + "18" + "02000000000000006b31 01000000000000007a", "k1 z", nil},
		{"trailing bytes", hash + "04" + literal + "026b31 017a ffffffff", "k1 z", nil},
		{"unknown meta bits", hash + "e4" + literal + "026b31 017a", "k1 z", nil},
		{"2-byte total length", hash + "05" + "1100" + literal + "026b31 017a", "k1 z", nil},
		{"4-byte total length", hash + "06" + "13000000" + literal + "026b31 017a", "k1 z", nil},
		{"8-byte total length", hash + "07" + "1700000000000000" + literal + "026b31 017a", "k1 z", nil},
		{"lying total length", hash + "07" + "ffffffffffffffff" + literal + "026b31 017a", "k1 z", nil},
		{"empty strings", hash + "04" + literal + "0000", " ", nil},
		{"no bytes", "", "", ErrShort},
		{"three bytes", "d91ef9", "", ErrShort},
		{"only a hash", hash, "", ErrShort},
		{"total length cut", hash + "05" + "11", "", ErrShort},
		{"unknown hash", "11111111" + "04" + literal + "026b31 017a", "", ErrHash},
		{"wrong literal", hash + "04" + "fd800c800bff00" + "026b31 017a", "", ErrLiteral},
		{"literal without its zero", hash + "04" + "fd800c800cff01" + "026b31 017a", "", ErrLiteral},
		{"literal cut", hash + "04" + "fd800c800cff", "", ErrLiteral},
		{"length beyond the end", hash + "04" + literal + "026b31 ff7a", "", ErrShort},
		{"8-byte length beyond any memory", hash + "1c" + literal + "ffffffffffffffff 6b31", "", ErrShort},
		{"4-byte length beyond the end", hash + "14" + literal + "ffffffff 6b31", "", ErrShort},
		{"cut in a length", hash + "0c" + literal + "02", "", ErrShort},
		{"no data", hash + "04" + literal, "", ErrShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := unhex(t, tt.body)
			d := NewDecoder(body, twoStrings)
			a, b := d.String(), d.String()
			if err := d.Err(); !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.err == nil && a+" "+b != tt.want {
				t.Errorf("read %q, want %q", a+" "+b, tt.want)
			}
		})
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadOneArgument(t *testing.T) {
	wrapped := NewType(LiteralStruct(uuidLiteral), false)
	data := "01000000000000000200000000000000"
	for name, body := range map[string]string{
		"bare":                     "e1836d3c04fd04048989ff00" + data,
		"in a 1-tuple":             fmt.Sprintf("%x", wrapped.head) + data,
		"in a 1-tuple, no literal": fmt.Sprintf("%x00", wrapped.head[:4]) + data,
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder(unhex(t, body), oneUUID)
			if hi, lo := d.U64(), d.U64(); d.Err() != nil || hi != 1 || lo != 2 {
				t.Errorf("read %d-%d, %v", hi, lo, d.Err())
			}
		})
	}
	// The literal must be that of the hash: a tuple's hash before a bare literal is wrong.
	mixed := append(append([]byte{}, wrapped.head[:5]...), oneUUID.head[5:]...)
	if err := oneUUID.Check(append(mixed, make([]byte, 16)...)); !errors.Is(err, ErrLiteral) {
		t.Errorf("mixed head: %v", err)
	}
}

// TestCompatibleFieldsAbsent: without a total length, or where the body ends, compatible fields are absent.
func TestCompatibleFieldsAbsent(t *testing.T) {
	head := fmt.Sprintf("%x", withCompat.head[:4])
	data := "02 0161 0162"
	more := "01 0700000000000000 00"
	tests := []struct {
		name, body string
		want       []uint64
	}{
		{"present and absent", head + "01 1500" + data + more, []uint64{7, 0}},
		{"no meta byte", fmt.Sprintf("%02x", withCompat.head[0]&^1) + head[2:] + data + more, []uint64{0, 0}},
		{"no total length", head + "00" + data + more, []uint64{0, 0}},
		{"total length ends before them", head + "01 0c00" + data + more, []uint64{0, 0}},
		{"body ends before them", head + "01 ffff" + data, []uint64{0, 0}},
		{"body ends after the first", head + "01 1500" + data + "01 0700000000000000", []uint64{7, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(unhex(t, tt.body), withCompat)
			got := make([]uint64, d.Count(1))
			for range got {
				_ = d.String()
			}
			for i := range got {
				if d.More() && d.Bool() {
					got[i] = d.U64()
				}
			}
			if d.Err() != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("read %v, %v; want %v", got, d.Err(), tt.want)
			}
		})
	}
}

func TestFirstErrorStays(t *testing.T) {
	d := NewDecoder(unhex(t, "d91ef97c00 05 61"), twoStrings)
	_ = d.String()
	d.Fail(ErrVariant)
	if d.U8() != 0 || d.U16() != 0 || d.U32() != 0 || d.U64() != 0 || d.I32() != 0 || d.I64() != 0 || d.Bool() || d.Count(1) != 0 ||
		d.String() != "" || d.More() || d.Rest() != 0 {
		t.Error("a failed decoder answers something")
	}
	var e *Error
	if err := d.Err(); !errors.As(err, &e) || e.Cause != ErrShort || e.Offset != 6 || err.Error() != "byte 6: "+ErrShort.Error() {
		t.Errorf("error is %v", err)
	}
}

// TestNoMemoryBeforeLengthCheck: a tiny body that announces a huge list costs no more than a tiny body.
func TestNoMemoryBeforeLengthCheck(t *testing.T) {
	body := unhex(t, fmt.Sprintf("%x", withCompat.head[:4])+"11 0000 ffffff7f 00")
	allocs := testing.AllocsPerRun(100, func() {
		d := NewDecoder(body, withCompat)
		if n := d.Count(1); n != 0 || d.cause != ErrShort {
			t.Errorf("count %d, %v", n, d.Err())
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestElementsOfOneMessageAreBounded(t *testing.T) {
	half := make([]byte, limits.WireItems/2+4)
	half[0], half[1], half[2], half[3] = byte(len(half)-4), byte((len(half)-4)>>8), byte((len(half)-4)>>16), byte((len(half)-4)>>24)
	head := append(append([]byte{}, withCompat.head[:4]...), 0x10)
	body := append(append(append(head, half...), half...), 1, 0, 0, 0, 0)
	d := NewDecoder(body, withCompat)
	for range 2 {
		n := d.Count(1)
		d.Skip(n)
	}
	if d.Err() != nil {
		t.Fatalf("%d elements: %v", d.items, d.Err())
	}
	if d.Count(1); !errors.Is(d.Err(), ErrItems) {
		t.Errorf("one element more: %v", d.Err())
	}
}

func TestStringsAreCopies(t *testing.T) {
	body := unhex(t, "d91ef97c00 026b31 017a")
	d := NewDecoder(body, twoStrings)
	s := d.String()
	clear(body)
	if s != "k1" {
		t.Errorf("string is %q after the body was reused", s)
	}
}

// Strings of a long list are right, and stay so when the buffer they came in is used again.
func TestManyStrings(t *testing.T) {
	for _, n := range []int{1, limits.WireSharedItems - 1, limits.WireSharedItems, 300} {
		var want []string
		a := NewAppender(nil, withCompat)
		for done := false; !done; done = a.Done() {
			want = want[:0]
			a.Len(n)
			for i := range n {
				want = append(want, strings.Repeat("k", i%50)+fmt.Sprint(i%7))
				a.String(want[i])
			}
		}
		body := a.Bytes()
		d := NewDecoder(body, withCompat)
		got := make([]string, d.Count(1))
		for i := range got {
			got[i] = d.String()
		}
		clear(body)
		if d.Err() != nil || !slices.Equal(got, want) {
			t.Errorf("%d strings: %v, got %q, want %q", n, d.Err(), got, want)
		}
	}
}
