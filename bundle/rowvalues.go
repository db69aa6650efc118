package bundle

import "mooncake/internal/limits"

// rowMemory is what the values of a column share. Rows have values of the same kind, mostly maps with the same keys: with memory
// of its own for each text, list and map, reading a column would be the garbage collector's work more than the decoder's.
type rowMemory struct {
	column string         // all of the column's bytes; texts are pieces of it
	end    int            // where in the column the decoder's text ends
	keys   map[string]any // keys of maps that were met, as values
	lists  []any          // lists to come are cut from it
	maps   []Pair         // and maps from this
}

func newRowMemory(column []byte) *rowMemory {
	return &rowMemory{column: string(column), keys: map[string]any{}}
}

// string makes a text of bytes that were just taken.
func (d *decoder) string(taken []byte) string {
	if d.rows == nil || d.err != nil {
		return string(taken)
	}
	to := d.rows.end - len(d.text)
	return d.rows.column[to-len(taken) : to]
}

// key reads the key of a pair. Short texts are kept: the next row has the same ones.
func (d *decoder) key(depth int) any {
	if d.rows == nil || len(d.text) == 0 || d.text[0] < 0xa0 || d.text[0] >= 0xc0 {
		return d.value(depth)
	}
	n := 1 + int(d.text[0]&31)
	if n > len(d.text) {
		return d.value(depth) // and finds that the text ends
	}
	if known, ok := d.rows.keys[string(d.text[1:n])]; ok {
		d.text = d.text[n:]
		return known
	}
	key := d.value(depth)
	if text, ok := key.(string); ok && len(d.rows.keys) < limits.RowKeys {
		d.rows.keys[text] = key
	}
	return key
}

func (d *decoder) newList(n int) []any {
	if d.rows == nil || n > limits.RowSlab/4 {
		return make([]any, n)
	}
	return cutOff(&d.rows.lists, n)
}

func (d *decoder) newMap(n int) Map {
	if d.rows == nil || n > limits.RowSlab/4 {
		return make(Map, n)
	}
	return cutOff(&d.rows.maps, n)
}

// cutOff takes n items off a stock, and makes a new stock when it is too small.
func cutOff[T any](stock *[]T, n int) []T {
	if len(*stock) < n {
		*stock = make([]T, limits.RowSlab)
	}
	out := (*stock)[:n:n]
	*stock = (*stock)[n:]
	return out
}
