package pack

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// appendStrings writes a list of strings, and behind it a compatible number for each if t has them.
func appendStrings(dst []byte, t *Type, list []string) []byte {
	a := NewAppender(dst, t)
	for {
		a.Len(len(list))
		for _, s := range list {
			a.String(s)
		}
		if t.Compat() {
			for i := range list {
				a.Bool(i%2 == 0)
				if i%2 == 0 {
					a.U64(uint64(i))
				}
			}
		}
		if a.Done() {
			return a.Bytes()
		}
	}
}

func TestWidth(t *testing.T) {
	plain := NewType(LiteralVector(LiteralString), false)
	tests := []struct {
		longest int
		meta    byte
		width   int
	}{
		{0, 0x04, 1},
		{255, 0x04, 1},
		{256, 0x0c, 2},
		{65535, 0x0c, 2},
		{65536, 0x14, 4},
	}
	for _, tt := range tests {
		list := []string{"x", strings.Repeat("y", tt.longest)}
		b := appendStrings([]byte("before"), plain, list)
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("%d: dst was lost", tt.longest)
		}
		b = b[len("before"):]
		if b[4] != tt.meta {
			t.Errorf("longest %d: meta %02x, want %02x", tt.longest, b[4], tt.meta)
		}
		want := len(plain.head) + 3*tt.width + 1 + tt.longest
		if len(b) != want {
			t.Errorf("longest %d: %d bytes, want %d", tt.longest, len(b), want)
		}
	}
	if widthFor(1<<32) != 8 || widthFor(1<<32-1) != 4 || widthBits(8) != 3 {
		t.Error("lengths of 4 GiB and more take 8 bytes")
	}
}

// TestWideList: the width follows the number of elements as well.
func TestWideList(t *testing.T) {
	plain := NewType(LiteralVector(LiteralString), false)
	b := appendStrings(nil, plain, make([]string, 256))
	if b[4] != 0x0c || len(b) != len(plain.head)+2+256*2 {
		t.Errorf("meta %02x, %d bytes", b[4], len(b))
	}
}

// TestTotalLengthBorder: the total length takes 2 bytes while the whole body, itself included, stays below 64 KiB.
func TestTotalLengthBorder(t *testing.T) {
	overhead := len(appendStrings(nil, withCompat, []string{strings.Repeat("x", 300)})) - 300
	for _, size := range []int{65534, 65535, 65536, 65537} {
		b := appendStrings([]byte{1}, withCompat, []string{strings.Repeat("x", size-overhead)})[1:]
		if size <= 65535 {
			if b[4] != 0x0d || len(b) != size || binary.LittleEndian.Uint16(b[5:]) != uint16(size) {
				t.Errorf("size %d: meta %02x, %d bytes, total %d", size, b[4], len(b), binary.LittleEndian.Uint16(b[5:]))
			}
			continue
		}
		if b[4] != 0x0e || len(b) != size+2 || binary.LittleEndian.Uint32(b[5:]) != uint32(size+2) {
			t.Errorf("size %d: meta %02x, %d bytes, total %d", size, b[4], len(b), binary.LittleEndian.Uint32(b[5:]))
		}
		d := NewDecoder(b, withCompat)
		if n, s := d.Count(1), d.String(); n != 1 || len(s) != size-overhead || !d.Bool() || d.U64() != 0 || d.Err() != nil || d.Rest() != 0 {
			t.Errorf("size %d: read %d strings, %d bytes, %v, %d left", size, n, len(s), d.Err(), d.Rest())
		}
	}
}

// TestRoundTrip: what an Appender writes a Decoder reads, to the last byte.
func TestRoundTrip(t *testing.T) {
	type value struct {
		u8   uint8
		u16  uint16
		u32  uint32
		u64  uint64
		i32  int32
		i64  int64
		flag bool
		s    []string
	}
	typ := NewType(LiteralStruct(LiteralU8, LiteralU16, LiteralU32, LiteralU64, LiteralI32, LiteralI64, LiteralBool,
		LiteralVector(LiteralString)), false)
	rapid.Check(t, func(t *rapid.T) {
		v := value{
			u8: rapid.Byte().Draw(t, "u8"), u16: rapid.Uint16().Draw(t, "u16"), u32: rapid.Uint32().Draw(t, "u32"),
			u64: rapid.Uint64().Draw(t, "u64"), i32: rapid.Int32().Draw(t, "i32"), i64: rapid.Int64().Draw(t, "i64"),
			flag: rapid.Bool().Draw(t, "flag"),
			s:    rapid.SliceOfN(rapid.StringN(-1, -1, 400), 0, 300).Draw(t, "s"),
		}
		a := NewAppender(nil, typ)
		for {
			a.U8(v.u8)
			a.U16(v.u16)
			a.U32(v.u32)
			a.U64(v.u64)
			a.I32(v.i32)
			a.I64(v.i64)
			a.Zeros(3)
			a.Bool(v.flag)
			a.Len(len(v.s))
			for _, s := range v.s {
				a.String(s)
			}
			if a.Done() {
				break
			}
		}
		d := NewDecoder(a.Bytes(), typ)
		same := d.U8() == v.u8 && d.U16() == v.u16 && d.U32() == v.u32 && d.U64() == v.u64 && d.I32() == v.i32 && d.I64() == v.i64
		d.Skip(3)
		same = same && d.Bool() == v.flag && d.Count(1) == len(v.s)
		for _, s := range v.s {
			same = same && d.String() == s
		}
		if !same || d.Err() != nil || d.Rest() != 0 {
			t.Fatalf("read something else: %v, %d bytes left", d.Err(), d.Rest())
		}
	})
}

// TestText: the body of an error reply.
func TestText(t *testing.T) {
	const message = "the rpc function not registered"
	want := unhex(t, "77facf9d 04 800c 00 1f")
	b := AppendText(nil, message)
	if !bytes.Equal(b, append(want, message...)) {
		t.Errorf("wrote %x", b)
	}
	if s, err := DecodeText(b); s != message || err != nil {
		t.Errorf("read %q, %v", s, err)
	}
	if _, err := DecodeText(b[:len(b)-1]); err == nil {
		t.Error("a cut text is accepted")
	}
}

// FuzzHead feeds heads to types of every shape: nothing panics, and what is accepted lies within the body.
func FuzzHead(f *testing.F) {
	for _, typ := range []*Type{twoStrings, oneUUID, withCompat, text} {
		f.Add(append(append([]byte{}, typ.head...), 1, 'x', 0))
	}
	f.Add(appendStrings(nil, withCompat, []string{strings.Repeat("x", 70000)}))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, typ := range []*Type{twoStrings, oneUUID, withCompat, text} {
			o, err := typ.open(body)
			if err != nil {
				continue
			}
			if o.data > len(body) || o.end > len(body) || o.width == 0 {
				t.Fatalf("opened %+v of %d bytes", o, len(body))
			}
			d := NewDecoder(body, typ)
			for d.Err() == nil && d.Rest() > 0 {
				_ = d.String()
			}
		}
	})
}
