package bundle

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMsgpackBytes has the bytes that msgpack's own documentation gives for these values.
func TestMsgpackBytes(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "c0"},
		{true, "c3"},
		{false, "c2"},
		{0, "00"},
		{127, "7f"},
		{128, "cc80"},
		{256, "cd0100"},
		{1 << 16, "ce00010000"},
		{1 << 32, "cf0000000100000000"},
		{uint64(math.MaxUint64), "cfffffffffffffffff"},
		{-1, "ff"},
		{-32, "e0"},
		{-33, "d0df"},
		{-129, "d1ff7f"},
		{-32769, "d2ffff7fff"},
		{int64(math.MinInt64), "d38000000000000000"},
		{0.25, "cb3fd0000000000000"},
		{"", "a0"},
		{"数", "a3e695b0"},
		{strings.Repeat("a", 32), "d920" + strings.Repeat("61", 32)},
		{long, "da012c" + strings.Repeat("78", 300)},
		{[]byte{1, 2}, "c4020102"},
		{[]any{1, "a"}, "9201a161"},
		{make([]any, 16), "dc0010" + strings.Repeat("c0", 16)},
		{Map{{"b", 1}, {"a", nil}}, "82a16201a161c0"},
		{map[string]any{"b": 1, "a": nil}, "82a161c0a16201"},
	} {
		got, err := AppendMsgpack(nil, c.value)
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%.40v: %x %v, want %s", c.value, got, err, c.want)
			continue
		}
		value, rest, err := ReadMsgpack(got)
		again, _ := AppendMsgpack(nil, value)
		if err != nil || len(rest) != 0 || !bytes.Equal(again, got) {
			t.Errorf("%.40v reads as %v, %x left, %v", c.value, value, rest, err)
		}
	}
	if _, err := AppendMsgpack(nil, struct{}{}); err == nil {
		t.Error("a struct was written")
	}
	deep := any(nil)
	for range 600 {
		deep = []any{deep}
	}
	if _, err := AppendMsgpack(nil, deep); err == nil {
		t.Error("values 600 deep were written")
	}
	if _, _, err := ReadMsgpack(bytes.Repeat([]byte{0x91}, 600)); err == nil {
		t.Error("values 600 deep were read")
	}
	if v, _, err := ReadMsgpack([]byte{0xca, 0x3e, 0x80, 0, 0}); err != nil || v != 0.25 {
		t.Errorf("single float: %v %v", v, err)
	}
}

func FuzzReadMsgpack(f *testing.F) {
	for _, seed := range []string{"c0", "82a16201a161c0", "dd00000001c0", "dfffffffff", "c6ffffffff", "d920", "91", "c1"} {
		text, _ := hex.DecodeString(seed)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		value, rest, err := ReadMsgpack(text)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(text, rest) {
			t.Fatalf("rest %x of %x", rest, text)
		}
		again, err := AppendMsgpack(nil, value)
		if err != nil {
			t.Fatalf("%x reads as %v, which cannot be written: %v", text, value, err)
		}
		back, _, err := ReadMsgpack(again)
		once, _ := AppendMsgpack(nil, back)
		if err != nil || !bytes.Equal(once, again) {
			t.Fatalf("%x, again %x, once more %x: %v", text, again, once, err)
		}
	})
}

// TestFieldsComeBack takes fields through all that is stored of them: members, meta and handle.
func TestFieldsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "rows")
		tokens := make([][]int32, n)
		for i := range tokens {
			if rapid.IntRange(0, 4).Draw(t, "null") > 0 {
				tokens[i] = rapid.SliceOfN(rapid.Int32(), 0, 5).Draw(t, "row")
				if tokens[i] == nil {
					tokens[i] = []int32{}
				}
			}
		}
		rewards := rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "rewards")
		prompts := make([]any, n)
		for i := range prompts {
			prompts[i] = rapid.OneOf(rapid.Just(any(nil)), rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int64(), func(v int64) any { return v })).Draw(t, "prompt")
		}
		values, err := Values("prompt", prompts)
		if err != nil {
			t.Fatal(err)
		}
		r := &Rollout{Rows: n, Fields: []Field{Ragged("tokens", tokens), Scalars("rewards", rewards), values}, MetaInfo: map[string]any{"step": 1.0}}
		fields := passThrough(t, r)

		rows, err := ReadRagged[int32](&fields[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.Null != (tokens[i] == nil) || !row.Null && !cmp.Equal(row.Elements, tokens[i]) || !row.Null && !cmp.Equal(row.Shape, []int{len(tokens[i])}) {
				t.Fatalf("row %d is %v, want %v", i, row, tokens[i])
			}
		}
		numbers, nulls, err := ReadScalars[float32](&fields[1])
		if err != nil || !reflect.DeepEqual(append([]float32{}, numbers...), append([]float32{}, rewards...)) || len(nulls) != n {
			t.Fatalf("%v %v %v, want %v", numbers, nulls, err, rewards)
		}
		if got, err := ReadValues(&fields[2]); err != nil || !reflect.DeepEqual(got, prompts) {
			t.Fatalf("%v %v, want %v", got, err, prompts)
		}
		if _, err := ReadRagged[int64](&fields[0]); err == nil {
			t.Fatal("int32 was read as int64")
		}
	})
}

// passThrough writes a rollout's texts and puts its fields together from them.
func passThrough(t rapid.TB, r *Rollout) (fields []Field) {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	meta, err := r.Meta()
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.HandleFor("miles/default/"+id+"/manifest", "g")
	if err != nil {
		t.Fatal(err)
	}
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if h, err = ParseHandle(text); err != nil {
		t.Fatal(err)
	}
	specs, err := ParseMeta(meta)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{}
	for i := range r.Fields {
		for _, m := range r.Fields[i].Members {
			data[MemberName(r.Fields[i].Name, m.Part)] = m.Data
		}
	}
	for i := range r.Fields {
		f, err := h.Field(r.Fields[i].Name, specs, data)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, f)
	}
	return fields
}

// TestTornFields refuses members that do not fit each other.
func TestTornFields(t *testing.T) {
	for name, tear := range map[string]func(f *Field){
		"data too short":     func(f *Field) { f.Members[0].Data = f.Members[0].Data[4:] },
		"half a number":      func(f *Field) { f.Members[0].Data = f.Members[0].Data[1:] },
		"offsets fall":       func(f *Field) { f.Members[1].Data[8] = 200 },
		"shapes are missing": func(f *Field) { f.Members[2].Part = "other" },
		"shapes lie":         func(f *Field) { f.Members[2].Data[0]++ },
		"too many dims":      func(f *Field) { f.Members[3].Data[0] = 2 },
		"negative dims":      func(f *Field) { f.Members[3].Data[1] = 0x80 },
		"nulls too few":      func(f *Field) { f.Members[4].Data = nil },
		"more rows":          func(f *Field) { f.Rows++ },
		"another type":       func(f *Field) { f.Members[0].DType = "<f4" },
	} {
		f := Ragged("tokens", [][]int32{{1, 2, 3}, {4}})
		tear(&f)
		if rows, err := ReadRagged[int32](&f); err == nil {
			t.Errorf("%s: %v", name, rows)
		}
	}
	f, _ := Values("v", []any{"a", "b"})
	f.Members[0].Data[0] = 0xc1
	if rows, err := ReadValues(&f); err == nil {
		t.Errorf("a torn value: %v", rows)
	}
}

func listing() *Listing {
	base := "miles/default/" + id + "/"
	chunk := func(key string, n uint64) Payload {
		return Payload{Key: base + key, Bytes: n, Chunks: []Chunk{{base + key, n}}}
	}
	l := &Listing{ObjectID: "default/" + id, Meta: chunk("meta", 5)}
	b, a := chunk("buffer/b", 7), chunk("buffer/a", 0)
	b.Name, a.Name, a.Chunks = "b", "a", []Chunk{}
	l.Members = []Payload{b, a}
	return l
}

func TestManifestComesBack(t *testing.T) {
	key := "miles/default/" + id + "/manifest"
	text, err := listing().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseManifest(key, text)
	if err != nil || !cmp.Equal(got, listing()) {
		t.Errorf("%v %s", err, cmp.Diff(got, listing()))
	}
	if n := len(got.Keys()); n != 2 {
		t.Errorf("%d chunks", n)
	}
	for name, bad := range map[string][2]string{
		"another key":    {`"object_id":"default/`, `"object_id":"other/`},
		"version":        {`"version":1`, `"version":2`},
		"size":           {`"bytes":7`, `"bytes":8`},
		"outside":        {`/buffer/b","bytes":7,`, `x/buffer/b","bytes":7,`},
		"twice":          {`"a":{`, `"b":{`},
		"no JSON":        {`{`, `[`},
		"no object":      {`"buffers":{`, `"buffers":[{`},
		"a slash":        {`"a":{`, `"a/b":{`},
		"shared chunk":   {`"chunks":[{"key":"miles/default/` + id + `/meta"`, `"chunks":[{"key":"miles/default/` + id + `/buffer/b"`},
		"negative bytes": {`"bytes":7`, `"bytes":-7`},
	} {
		torn := strings.Replace(string(text), bad[0], bad[1], 1)
		if torn == string(text) {
			t.Fatalf("%s changes nothing in %s", name, text)
		}
		if l, err := ParseManifest(key, []byte(torn)); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	text, _ := listing().Encode()
	f.Add(string(text))
	f.Add(`{"version":1,"layout":"bundle","object_id":"default/` + id + `","meta":{},"buffers":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		key := "miles/default/" + id + "/manifest"
		l, err := ParseManifest(key, []byte(text))
		if err != nil {
			return
		}
		again, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseManifest(key, again); err != nil {
			t.Fatalf("%q reads, %q does not: %v", text, again, err)
		}
	})
}

func FuzzParseHandle(f *testing.F) {
	r := &Rollout{Rows: 1, Fields: []Field{Ragged("tokens", [][]int32{{1}})}}
	h, _ := r.HandleFor("miles/default/"+id+"/manifest", "")
	text, _ := h.Encode()
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHandle([]byte(text))
		if err != nil {
			return
		}
		for name := range h.Fields {
			if f, err := h.Field(name, nil, nil); err == nil {
				_, _ = ReadRagged[int32](&f)
				_, _, _ = ReadScalars[int64](&f)
				_, _ = ReadValues(&f)
			}
		}
	})
}

func TestHandleRefusals(t *testing.T) {
	r := &Rollout{Rows: 1, Fields: []Field{Ragged("tokens", [][]int32{{1}})}}
	h, _ := r.HandleFor("miles/default/"+id+"/manifest", "")
	text, _ := h.Encode()
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]any{"type": "x", "version": 3, "kind": "x", "stage_refs": map[string]any{}, "batch_size": "many"} {
		bad := map[string]any{}
		for k, v := range plain {
			bad[k] = v
		}
		bad[key] = value
		torn, _ := json.Marshal(bad)
		if h, err := ParseHandle(torn); err == nil {
			t.Errorf("%s=%v: %+v", key, value, h)
		}
	}
	for _, r := range []*Rollout{
		{},
		{Rows: 1, Partition: "a/b", Fields: []Field{Scalars("x", []int64{1})}},
		{Rows: 2, Fields: []Field{Scalars("x", []int64{1})}},
		{Rows: 1, Fields: []Field{Scalars("x", []int64{1}), Scalars("x", []int64{1})}},
		{Rows: 1, Fields: []Field{Scalars("a/b", []int64{1})}},
	} {
		if r.Check() == nil {
			t.Errorf("%+v passes", r)
		}
	}
}

func BenchmarkRagged(b *testing.B) {
	rows := make([][]int32, 256)
	for i := range rows {
		rows[i] = make([]int32, 400)
	}
	b.ReportAllocs()
	for b.Loop() {
		f := Ragged("tokens", rows)
		if _, err := ReadRagged[int32](&f); err != nil {
			b.Fatal(err)
		}
	}
}
