package bundle

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// TestNumbers writes and reads numbers on both kinds of machines: what is stored is the same.
func TestNumbers(t *testing.T) {
	want := []int32{1, -2, 0x01020304, -1 << 31}
	stored := []byte{1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 4, 3, 2, 1, 0, 0, 0, 0x80}
	room := make([]byte, 64) // lies at a whole number; one byte on it does not
	for _, same := range []bool{littleEnd, false} {
		if got := appendNumbers([]byte{7}, want, same); !cmp.Equal(got, append([]byte{7}, stored...)) {
			t.Errorf("little end is native: %v: written as % x", same, got)
		}
		for at := range 4 {
			data := append(room[:at:at+len(stored)], stored...)[at:]
			got := numbersIn[int32](data, same)
			if !slices.Equal(got, want) {
				t.Errorf("little end is native: %v, %d bytes on: %v", same, at, got)
			}
			shared := unsafe.Pointer(unsafe.SliceData(got)) == unsafe.Pointer(unsafe.SliceData(data))
			if shared != (same && at == 0) {
				t.Errorf("little end is native: %v, %d bytes on: shares memory: %v", same, at, shared)
			}
		}
		if got := numbersIn[float64](nil, same); got == nil || len(got) > 0 {
			t.Errorf("of nothing: %v", got)
		}
	}
}

// column makes a field of maps as rollouts have them.
func column(t testing.TB, rows int) Field {
	values := make([]any, rows)
	for i := range values {
		values[i] = Map{
			{"row", int64(i)},
			{"lang", []string{"en", "de", "中文"}[i%3]},
			{"score", float64(i) / 8},
			{"tool", nil},
			{"turns", []any{int64(1), int64(2), int64(i)}},
			{fmt.Sprint("only ", i), "x"},
		}
	}
	f, err := Values("metadata", values)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRowsShareMemory reads columns whose rows have more keys, and longer ones, than are remembered, and changes what came out:
// the other rows, and the field, keep what they have.
func TestRowsShareMemory(t *testing.T) {
	f := column(t, 2000)
	rows, err := ReadValues(&f)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		one, rest, err := ReadMsgpack(mustPart(t, &f, i))
		if err != nil || len(rest) > 0 || !cmp.Equal(row, one) {
			t.Fatalf("row %d is %v, alone it is %v (%v)", i, row, one, err)
		}
	}
	m := rows[0].(Map)
	turns, _ := m.Get("turns")
	_ = append(turns.([]any), "more")
	_ = append(m, Pair{"more", 1})
	again, err := ReadValues(&f)
	if err != nil || !cmp.Equal(rows, again) {
		t.Errorf("an append to one row changed others (%v)", err)
	}
	clear(f.Members[0].Data)
	if !cmp.Equal(rows, again) {
		t.Error("the rows changed with the field")
	}
	if text, _ := rows[1].(Map).Get("lang"); text != "de" {
		t.Errorf("row 1 is in %q", text)
	}
}

// mustPart gives the bytes of a row.
func mustPart(t *testing.T, f *Field, row int) []byte {
	data, err := f.part("data")
	if err != nil {
		t.Fatal(err)
	}
	offsets, err := f.offsets(len(data.Data))
	if err != nil {
		t.Fatal(err)
	}
	return data.Data[offsets[row]:offsets[row+1]]
}

func BenchmarkReadValues(b *testing.B) {
	f := column(b, 1024)
	b.ReportAllocs()
	b.SetBytes(int64(len(f.Members[0].Data)))
	for b.Loop() {
		if _, err := ReadValues(&f); err != nil {
			b.Fatal(err)
		}
	}
}
