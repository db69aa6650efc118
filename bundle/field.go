package bundle

import (
	"fmt"
	"math"
	"slices"

	"mooncake/internal/limits"
)

// The codecs of fields that this package writes and reads.
const (
	TypedRagged   = "typed_ragged"   // rows are arrays of one type, of any length each
	NDArray       = "ndarray"        // rows are numbers
	MsgpackRagged = "msgpack_ragged" // rows are values of MessagePack
)

// A Number is an element of arrays.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// dtypeOf gives the name of a type as numpy spells it, and its code in descriptions of members.
func dtypeOf[T Number]() (name, code string) {
	switch any(*new(T)).(type) {
	case int8:
		return "int8", "|i1"
	case int16:
		return "int16", "<i2"
	case int32:
		return "int32", "<i4"
	case int64:
		return "int64", "<i8"
	case uint8:
		return "uint8", "|u1"
	case uint16:
		return "uint16", "<u2"
	case uint32:
		return "uint32", "<u4"
	case uint64:
		return "uint64", "<u8"
	case float32:
		return "float32", "<f4"
	}
	return "float64", "<f8"
}

// A Member is a piece of a field: named bytes, and what they are.
type Member struct {
	Part  string // data, offsets, shapes, ndims or nulls
	DType string // as numpy codes it; empty: plain bytes
	Shape []int
	Data  []byte
}

// A Field is a column of a rollout, in the pieces that are stored.
type Field struct {
	Name    string
	Codec   string
	Rows    int
	DType   string // numpy's name of the element type; empty for MsgpackRagged
	MaxDims int    // most dimensions of a row, for TypedRagged
	Members []Member
}

// part finds a piece.
func (f *Field) part(name string) (*Member, error) {
	for i := range f.Members {
		if f.Members[i].Part == name {
			return &f.Members[i], nil
		}
	}
	return nil, fmt.Errorf("field %s has no %s", f.Name, name)
}

func numbers[T Number](part string, shape []int, values []T) Member {
	_, code := dtypeOf[T]()
	data := appendNumbers(make([]byte, 0, len(values)*sizeOf[T]()), values, littleEnd)
	return Member{Part: part, DType: code, Shape: shape, Data: data}
}

func flags(nulls []bool) Member {
	m := Member{Part: "nulls", DType: "|b1", Shape: []int{len(nulls)}, Data: make([]byte, len(nulls))}
	for i, null := range nulls {
		if null {
			m.Data[i] = 1
		}
	}
	return m
}

// Ragged makes a field of rows that are arrays of one dimension. A nil row is none; an empty one is an array of nothing.
func Ragged[T Number](name string, rows [][]T) Field {
	dtype, _ := dtypeOf[T]()
	n := len(rows)
	offsets, shapes, ndims, nulls := make([]int64, n+1), make([]int64, n), make([]int16, n), make([]bool, n)
	total, dims := 0, 0
	for i, row := range rows {
		total += len(row)
		offsets[i+1] = int64(total)
		if nulls[i] = row == nil; row != nil {
			ndims[i], shapes[i], dims = 1, int64(len(row)), 1
		}
	}
	flat := numbers[T]("data", []int{total}, nil)
	flat.Data = make([]byte, 0, total*sizeOf[T]())
	for _, row := range rows {
		flat.Data = appendNumbers(flat.Data, row, littleEnd)
	}
	return Field{Name: name, Codec: TypedRagged, Rows: n, DType: dtype, MaxDims: dims, Members: []Member{
		flat, numbers("offsets", []int{n + 1}, offsets), numbers("shapes", []int{n, 1}, shapes),
		numbers("ndims", []int{n}, ndims), flags(nulls),
	}}
}

// Scalars makes a field of rows that are numbers.
func Scalars[T Number](name string, rows []T) Field {
	dtype, _ := dtypeOf[T]()
	return Field{Name: name, Codec: NDArray, Rows: len(rows), DType: dtype, Members: []Member{
		numbers("data", []int{len(rows)}, rows), flags(make([]bool, len(rows))),
	}}
}

// Values makes a field of rows that are values of MessagePack; a nil row is none.
func Values(name string, rows []any) (Field, error) {
	offsets, nulls := make([]int64, len(rows)+1), make([]bool, len(rows))
	var data []byte
	for i, row := range rows {
		var err error
		if nulls[i] = row == nil; row != nil {
			if data, err = AppendMsgpack(data, row); err != nil {
				return Field{}, fmt.Errorf("field %s, row %d: %w", name, i, err)
			}
		}
		offsets[i+1] = int64(len(data))
	}
	return Field{Name: name, Codec: MsgpackRagged, Rows: len(rows), Members: []Member{
		{Part: "data", Data: data}, numbers("offsets", []int{len(rows) + 1}, offsets), flags(nulls),
	}}, nil
}

// An Array is a row of a TypedRagged field: its elements, row by row of the last dimension, and its shape. Without a shape it
// is a single number; a null row has neither. The elements are the memory of the field, where the machine keeps numbers as they
// are stored: who changes them changes the field.
type Array[T Number] struct {
	Null     bool
	Shape    []int
	Elements []T
}

// ReadRagged reads the rows of a TypedRagged field. The element type must be that of the field.
func ReadRagged[T Number](f *Field) ([]Array[T], error) {
	if name, _ := dtypeOf[T](); f.Codec != TypedRagged || f.DType != name {
		return nil, fmt.Errorf("field %s is %s of %s, not %s of %s", f.Name, f.Codec, f.DType, TypedRagged, name)
	}
	data, err := readNumbers[T](f, "data", -1)
	if err != nil {
		return nil, err
	}
	offsets, err := f.offsets(len(data))
	if err != nil {
		return nil, err
	}
	ndims, err := readNumbers[int16](f, "ndims", f.Rows)
	if err != nil {
		return nil, err
	}
	shapes, err := readNumbers[int64](f, "shapes", -1)
	if err != nil {
		return nil, err
	}
	nulls, err := f.nulls()
	if err != nil {
		return nil, err
	}
	width := 0
	if f.Rows > 0 {
		width = len(shapes) / f.Rows
	}
	if len(shapes) != width*f.Rows || width > limits.RaggedDims {
		return nil, fmt.Errorf("field %s: %d shapes for %d rows", f.Name, len(shapes), f.Rows)
	}
	rows := make([]Array[T], f.Rows)
	dims := make([]int, 0, len(shapes)) // of all rows
	for i := range rows {
		if rows[i].Null = nulls[i]; nulls[i] {
			continue
		}
		rows[i].Elements = data[offsets[i]:offsets[i+1]:offsets[i+1]]
		if ndims[i] < 0 || int(ndims[i]) > width {
			return nil, fmt.Errorf("field %s, row %d: %d dimensions of %d", f.Name, i, ndims[i], width)
		}
		left := int64(len(rows[i].Elements))
		size, from := int64(1), len(dims)
		for _, dim := range shapes[i*width : i*width+int(ndims[i])] {
			if dim < 0 || dim > 0 && size > math.MaxInt64/dim {
				return nil, fmt.Errorf("field %s, row %d: a dimension of %d", f.Name, i, dim)
			}
			size *= dim
			dims = append(dims, int(dim))
		}
		if len(dims) > from {
			rows[i].Shape = dims[from:len(dims):len(dims)]
		}
		if size != left {
			return nil, fmt.Errorf("field %s, row %d: %d elements in a shape of %d", f.Name, i, left, size)
		}
	}
	return rows, nil
}

// ReadScalars reads the rows of an NDArray field; nulls tells which of them are none. The rows may be the memory of the field, as
// those of ReadRagged.
func ReadScalars[T Number](f *Field) (rows []T, nulls []bool, err error) {
	if name, _ := dtypeOf[T](); f.Codec != NDArray || f.DType != name {
		return nil, nil, fmt.Errorf("field %s is %s of %s, not %s of %s", f.Name, f.Codec, f.DType, NDArray, name)
	}
	if rows, err = readNumbers[T](f, "data", f.Rows); err == nil {
		nulls, err = f.nulls()
	}
	return rows, nulls, err
}

// ReadValues reads the rows of a MsgpackRagged field. Values of different rows share memory: a single one that is kept keeps the
// texts of all.
func ReadValues(f *Field) ([]any, error) {
	if f.Codec != MsgpackRagged {
		return nil, fmt.Errorf("field %s is %s, not %s", f.Name, f.Codec, MsgpackRagged)
	}
	data, err := f.part("data")
	if err != nil {
		return nil, err
	}
	offsets, err := f.offsets(len(data.Data))
	if err != nil {
		return nil, err
	}
	nulls, err := f.nulls()
	if err != nil {
		return nil, err
	}
	rows := make([]any, f.Rows)
	d := decoder{rows: newRowMemory(data.Data)}
	for i := range rows {
		if nulls[i] {
			continue
		}
		d.text, d.rows.end = data.Data[offsets[i]:offsets[i+1]], int(offsets[i+1])
		rows[i] = d.value(0)
		switch {
		case d.err != nil:
			return nil, fmt.Errorf("field %s, row %d: %w", f.Name, i, d.err)
		case len(d.text) > 0:
			return nil, fmt.Errorf("field %s, row %d: %d bytes too many", f.Name, i, len(d.text))
		}
	}
	return rows, nil
}

// readNumbers reads a piece that has so many numbers; -1 is any.
func readNumbers[T Number](f *Field, part string, want int) ([]T, error) {
	m, err := f.part(part)
	if err != nil {
		return nil, err
	}
	if _, code := dtypeOf[T](); m.DType != code {
		return nil, fmt.Errorf("field %s: %s is of %s, want %s", f.Name, part, m.DType, code)
	}
	size := sizeOf[T]()
	if len(m.Data)%size != 0 || want >= 0 && len(m.Data) != want*size {
		return nil, fmt.Errorf("field %s: %s has %d bytes for %d rows", f.Name, part, len(m.Data), f.Rows)
	}
	return numbersIn[T](m.Data, littleEnd), nil
}

// offsets reads where rows begin and end, and checks that they cut so many elements.
func (f *Field) offsets(elements int) ([]int64, error) {
	list, err := readNumbers[int64](f, "offsets", f.Rows+1)
	if err != nil {
		return nil, err
	}
	if list[0] != 0 || list[f.Rows] != int64(elements) || !slices.IsSorted(list) {
		return nil, fmt.Errorf("field %s: offsets do not cut %d elements into %d rows", f.Name, elements, f.Rows)
	}
	return list, nil
}

func (f *Field) nulls() ([]bool, error) {
	m, err := f.part("nulls")
	if err != nil {
		return nil, err
	}
	if m.DType != "|b1" || len(m.Data) != f.Rows {
		return nil, fmt.Errorf("field %s: nulls are %d bytes of %s for %d rows", f.Name, len(m.Data), m.DType, f.Rows)
	}
	out := make([]bool, f.Rows)
	for i, b := range m.Data {
		out[i] = b != 0
	}
	return out, nil
}
