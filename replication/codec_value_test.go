package replication

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"mooncake/internal/limits"
)

// aValue makes a value of a number of records, and tells how long each is.
func aValue(t testing.TB, records int) []byte {
	value := bytes.Clone(valueHead)
	dice := rand.New(rand.NewPCG(1, 1))
	for n := range records {
		b := new(batch)
		b.start(uint64(n+1), uint64(n+1), nil)
		for range 20 {
			b.addName(&NameChange{Name: strings.Repeat("k", dice.IntN(40)), Value: []byte("value")})
		}
		value = append(value, b.seal(7)...)
	}
	return value
}

func visited(value []byte) (numbers []uint64, err error) {
	err = records("k", value, func(h *header, _ []byte) error {
		numbers = append(numbers, h.number)
		return nil
	})
	return numbers, err
}

// TestValuesAreCompressed packs values: the long ones get shorter, and all have the same records.
func TestValuesAreCompressed(t *testing.T) {
	for _, n := range []int{1, 2, 50, 400} {
		plain := aValue(t, n)
		packed := packValue(plain)
		if long := len(plain)-valueHeadBytes >= limits.LogZipBytes; long != (packed[codecAt] == codecZstd) || long && len(packed) > len(plain)/2 {
			t.Errorf("%d records: %d bytes become %d, codec %d", n, len(plain), len(packed), packed[codecAt])
		}
		for _, value := range [][]byte{plain, packed} {
			if got, err := visited(value); err != nil || len(got) != n {
				t.Errorf("%d of %d records: %v", len(got), n, err)
			}
		}
	}
	noise := append(bytes.Clone(valueHead), make([]byte, 4096)...)
	dice := rand.New(rand.NewPCG(2, 2))
	for i := range noise[valueHeadBytes:] {
		noise[valueHeadBytes+i] = byte(dice.Uint32())
	}
	if packed := packValue(noise); !bytes.Equal(packed, noise) {
		t.Errorf("noise of %d bytes becomes %d", len(noise), len(packed))
	}
}

// TestBadValues refuses what is none, or says one thing and holds another, without making more than the limit.
func TestBadValues(t *testing.T) {
	good := packValue(aValue(t, 50))
	lied := func(length uint32) []byte {
		v := bytes.Clone(good)
		binary.LittleEndian.PutUint32(v[valueHeadBytes:], length)
		return v
	}
	bomb := append(append(bytes.Clone(valueHead), 0, 0, 64, 0), zipper().EncodeAll(make([]byte, 64<<20), nil)...)
	bomb[codecAt] = codecZstd
	other := bytes.Clone(good)
	other[codecAt] = 2
	for what, value := range map[string][]byte{
		"nothing": nil, "a head that is cut": good[:valueHeadBytes+2], "a frame that is cut": good[:len(good)-5], "an unknown codec": other,
		"less than announced": lied(1 << 20), "more than announced": lied(100), "a huge announcement": lied(1 << 31), "a bomb": bomb,
	} {
		if got, err := visited(value); err == nil || len(got) > 0 {
			t.Errorf("%s: %d records, %v", what, len(got), err)
		}
	}
}

// TestPackedSnapshots packs a snapshot and refuses one that says one thing and holds another.
func TestPackedSnapshots(t *testing.T) {
	text := bytes.Repeat([]byte("some text of a snapshot, and more of it; "), 10_000)
	for i := 0; i < len(text); i += 50 {
		text[i] = byte(i / 50)
	}
	packed := packSnapshot(text)
	if got, err := unpackSnapshot(packed); err != nil || !bytes.Equal(got, text) || len(packed) > len(text)/4 {
		t.Fatalf("%d bytes become %d: %v", len(text), len(packed), err)
	}
	if got, err := unpackSnapshot(text); err != nil || !bytes.Equal(got, text) {
		t.Errorf("a plain one: %v", err)
	}
	binary.LittleEndian.PutUint64(packed[len(snapshotHead):], uint64(len(text)+1))
	for what, bad := range map[string][]byte{
		"more than announced": packed, "a head that is cut": packed[:10], "a bomb": append(bytes.Clone(packed[:8]), append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, zipper().EncodeAll(make([]byte, 64<<20), nil)...)...),
	} {
		if _, err := unpackSnapshot(bad); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if same := packSnapshot(make([]byte, 8<<20)); len(same) != 8<<20 {
		t.Errorf("a text that shrinks more than is read back became %d bytes", len(same))
	}
}

// FuzzValue reads anything as a value of etcd: it ends, and makes no more than the limit.
func FuzzValue(f *testing.F) {
	plain := aValue(f, 3)
	f.Add(plain)
	f.Add(packValue(aValue(f, 50)))
	f.Add(append(bytes.Clone(valueHead), 1, 2, 3))
	f.Fuzz(func(t *testing.T, value []byte) {
		text, err := unpackValue(value)
		if err == nil && len(text) > max(limits.LogValueBytes, len(value)) {
			t.Fatalf("%d bytes become %d", len(value), len(text))
		}
		_ = records("k", value, func(h *header, payload []byte) error {
			_, err := parsePayload(h, payload)
			return err
		})
	})
}

// valueFrom is aValue whose records are numbered from a number on, packed if that is asked for.
func valueFrom(t testing.TB, first, records, names int, packed bool) []byte {
	t.Helper()
	value := bytes.Clone(valueHead)
	for n := range records {
		b := new(batch)
		b.start(uint64(first+n), uint64(first+n), nil)
		for i := range names {
			b.addName(&NameChange{Name: strings.Repeat("name", 10), Value: binary.AppendUvarint(nil, uint64(i*first))})
		}
		value = append(value, b.seal(7)...)
	}
	if packed {
		return packValue(value)
	}
	return value
}

// TestJoinedValues joins values that are packed and such that are not: all records are there, in their order, and neither the
// value nor what it is unpacked to gets larger than it may.
func TestJoinedValues(t *testing.T) {
	for name, names := range map[string][]int{"small": {1, 2, 1, 1}, "mixed": {1, 300, 2, 1, 400, 500, 1}, "large": {900, 900}} {
		t.Run(name, func(t *testing.T) {
			var j joiner
			first, size := 1, 0
			for i := 0; ; i++ {
				value := valueFrom(t, first, 2, names[i%len(names)], true)
				if !j.fits(value) {
					break
				}
				if err := j.add(value); err != nil {
					t.Fatal(err)
				}
				first += 2
				size += len(value)
			}
			value, err := j.value()
			if err != nil {
				t.Fatal(err)
			}
			raw, _, _ := rawOf(value)
			if len(value) > limits.LogRollBytes+limits.LogZipBytes || raw > limits.LogRollRawBytes || len(value) > size {
				t.Errorf("values of %d bytes became one of %d, %d unpacked", size, len(value), raw)
			}
			got, err := visited(value)
			if err != nil || len(got) != first-1 {
				t.Fatalf("%d of %d records: %v", len(got), first-1, err)
			}
			for i, n := range got {
				if n != uint64(i+1) {
					t.Fatalf("record %d is %d", i+1, n)
				}
			}
		})
	}
}

// TestOwnValues knows what was written from what was changed since, and forgets the oldest.
func TestOwnValues(t *testing.T) {
	var o ownValues
	o.note("a", []byte("one"))
	o.note("b", []byte("two"))
	o.note("b", []byte("three"))
	for key, want := range map[string]string{"a": "one", "b": "three"} {
		if !o.has(key, []byte(want)) {
			t.Errorf("%s is not %q", key, want)
		}
	}
	if o.has("a", []byte("onf")) || o.has("b", []byte("two")) || o.has("c", nil) {
		t.Error("what was not written passes for it")
	}
	for i := range limits.LogOwnValues {
		o.note(string(binary.AppendUvarint(nil, uint64(i+1000))), nil)
	}
	if o.has("a", []byte("one")) || len(o.sums) != limits.LogOwnValues || len(o.keys) != limits.LogOwnValues {
		t.Errorf("%d values are remembered", len(o.sums))
	}
}
