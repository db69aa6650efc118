package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"mooncake/internal/limits"
)

// A Map is a MessagePack map that keeps the order of its pairs, as dictionaries of published clients do.
type Map []Pair

// A Pair is a key with its value.
type Pair struct{ Key, Value any }

// Get returns the value of a text key; false when there is none.
func (m Map) Get(key string) (any, bool) {
	for i := range m {
		if text, ok := m[i].Key.(string); ok && text == key {
			return m[i].Value, true
		}
	}
	return nil, false
}

// AppendMsgpack writes a value as published clients do: nil, bool, integers, floats, string, []byte, []any, Map, and
// map[string]any in the order of its keys. A single float is written as a double one, which is what they have.
func AppendMsgpack(dst []byte, value any) ([]byte, error) { return appendValue(dst, value, 0) }

func appendValue(dst []byte, value any, depth int) ([]byte, error) {
	if depth > limits.MsgpackDepth {
		return dst, fmt.Errorf("values lie more than %d deep in each other", limits.MsgpackDepth)
	}
	switch v := value.(type) {
	case nil:
		return append(dst, 0xc0), nil
	case bool:
		if v {
			return append(dst, 0xc3), nil
		}
		return append(dst, 0xc2), nil
	case int:
		return appendInt(dst, int64(v)), nil
	case int32:
		return appendInt(dst, int64(v)), nil
	case int64:
		return appendInt(dst, v), nil
	case uint64:
		return appendUint(dst, v), nil
	case float32:
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(float64(v))), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v)), nil
	case string:
		return append(appendLength(dst, len(v), 0xa0, 31, 0xd9), v...), nil
	case []byte:
		return append(appendLength(dst, len(v), 0, -1, 0xc4), v...), nil
	case []any:
		return appendList(appendLength(dst, len(v), 0x90, 15, 0xdb), v, depth)
	case Map:
		return appendPairs(appendLength(dst, len(v), 0x80, 15, 0xdd), v, depth)
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		m := make(Map, len(keys))
		for i, k := range keys {
			m[i] = Pair{k, v[k]}
		}
		return appendValue(dst, m, depth)
	}
	return dst, fmt.Errorf("a value of type %T has no form in MessagePack", value)
}

func appendList(dst []byte, list []any, depth int) (_ []byte, err error) {
	for _, x := range list {
		if dst, err = appendValue(dst, x, depth+1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func appendPairs(dst []byte, m Map, depth int) (_ []byte, err error) {
	for i := range m {
		if dst, err = appendValue(dst, m[i].Key, depth+1); err == nil {
			dst, err = appendValue(dst, m[i].Value, depth+1)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendLength writes how long something is: in one byte up to most, else behind a code. Texts and bytes have codes for one,
// two and four bytes from wide on; for lists and maps wide is one before their code for two bytes, since they have none for one.
func appendLength(dst []byte, n int, fix byte, most int, wide byte) []byte {
	list := fix == 0x80 || fix == 0x90
	switch {
	case n <= most:
		return append(dst, fix|byte(n))
	case n <= math.MaxUint8 && !list:
		return append(dst, wide, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, wide+1), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, wide+2), uint32(n))
}

func appendUint(dst []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), v)
}

func appendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(v))
}

var errShort = errors.New("the text ends inside a value")

// ReadMsgpack reads one value and returns what follows it. Integers come as int64, or as uint64 above its range; maps as Map.
func ReadMsgpack(text []byte) (value any, rest []byte, err error) {
	d := decoder{text: text}
	value = d.value(0)
	return value, d.text, d.err
}

type decoder struct {
	text []byte
	err  error
	rows *rowMemory // nil: every value has memory of its own
}

// take cuts n bytes off; none after an error.
func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.text)) {
		if d.err == nil {
			d.err = errShort
		}
		return nil
	}
	out := d.text[:n]
	d.text = d.text[n:]
	return out
}

// number reads n bytes as an unsigned number.
func (d *decoder) number(n uint64) (v uint64) {
	for _, b := range d.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (d *decoder) value(depth int) any {
	if depth > limits.MsgpackDepth {
		d.err = fmt.Errorf("values lie more than %d deep in each other", limits.MsgpackDepth)
	}
	code := byte(d.number(1))
	switch {
	case d.err != nil:
		return nil
	case code < 0x80:
		return int64(code)
	case code < 0x90:
		return d.pairs(uint64(code&15), depth)
	case code < 0xa0:
		return d.list(uint64(code&15), depth)
	case code < 0xc0:
		return d.string(d.take(uint64(code & 31)))
	case code >= 0xe0:
		return int64(int8(code))
	}
	switch code {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return code == 0xc3
	case 0xc4, 0xc5, 0xc6:
		return slices.Clone(d.take(d.number(1 << (code - 0xc4))))
	case 0xca:
		return float64(math.Float32frombits(uint32(d.number(4))))
	case 0xcb:
		return math.Float64frombits(d.number(8))
	case 0xcc, 0xcd, 0xce, 0xcf:
		if v := d.number(1 << (code - 0xcc)); v > math.MaxInt64 {
			return v
		} else {
			return int64(v)
		}
	case 0xd0:
		return int64(int8(d.number(1)))
	case 0xd1:
		return int64(int16(d.number(2)))
	case 0xd2:
		return int64(int32(d.number(4)))
	case 0xd3:
		return int64(d.number(8))
	case 0xd9, 0xda, 0xdb:
		return d.string(d.take(d.number(1 << (code - 0xd9))))
	case 0xdc, 0xdd:
		return d.list(d.number(2<<(code-0xdc)), depth)
	case 0xde, 0xdf:
		return d.pairs(d.number(2<<(code-0xde)), depth)
	}
	d.err = fmt.Errorf("%#x begins no value", code)
	return nil
}

func (d *decoder) list(n uint64, depth int) any {
	if n > uint64(len(d.text)) { // every value takes a byte at least
		d.take(n)
		return nil
	}
	out := d.newList(int(n))
	for i := 0; i < len(out) && d.err == nil; i++ {
		out[i] = d.value(depth + 1)
	}
	return out
}

func (d *decoder) pairs(n uint64, depth int) any {
	if n > uint64(len(d.text))/2 {
		d.take(2 * n)
		return nil
	}
	out := d.newMap(int(n))
	for i := 0; i < len(out) && d.err == nil; i++ {
		out[i].Key = d.key(depth + 1)
		out[i].Value = d.value(depth + 1)
	}
	return out
}
