package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// draw fills v with a random value in the form a decoder would leave: no empty slices, no stray alternatives.
func draw(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint") >> (64 - v.Type().Bits()))
	case reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int") >> (64 - v.Type().Bits()))
	case reflect.String:
		length := 10
		if rapid.IntRange(0, 40).Draw(t, "long") == 0 {
			length = 300
		}
		v.SetString(rapid.StringN(0, length, length).Draw(t, "string"))
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "len"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i))
			}
		}
	case reflect.Struct:
		drawStruct(t, v)
	}
}

func drawStruct(t *rapid.T, v reflect.Value) {
	if v.NumField() == 0 {
		return
	}
	if v.Type() == reflect.TypeFor[ReplicaVariant]() {
		index := rapid.IntRange(0, int(VariantDFS)).Draw(t, "index")
		v.Field(0).SetUint(uint64(index))
		alternative := v.Field(1 + index)
		if alternative.Kind() == reflect.Pointer {
			alternative.Set(reflect.New(alternative.Type().Elem()))
			alternative = alternative.Elem()
		}
		draw(t, alternative)
		return
	}
	switch v.Type().Field(v.NumField() - 1).Name {
	case "Err": // an Exp holds one of its two
		if rapid.Bool().Draw(t, "failed") {
			draw(t, v.Field(1))
		}
		if v.Field(1).IsZero() {
			draw(t, v.Field(0))
		}
		return
	case "Value":
		if v.Type().Field(0).Name == "Set" { // an absent Opt is zero
			if rapid.Bool().Draw(t, "set") {
				v.Field(0).SetBool(true)
				draw(t, v.Field(1))
			}
			return
		}
	}
	for i := range v.NumField() {
		draw(t, v.Field(i))
	}
}

// TestRandomMessages: in the richest dialect every value comes back as it was; in the others what was read once is written
// again byte for byte.
func TestRandomMessages(t *testing.T) {
	for c := range CallID(NumCalls) {
		codec := everyCall[c]
		t.Run(c.Name(), func(t *testing.T) {
			request, reply := codec.newRequest(), codec.newReply()
			rapid.Check(t, func(t *rapid.T) {
				checkRandom(t, request, codec.appendRequestAny, codec.decodeRequestAny)
				checkRandom(t, reply, codec.appendReplyAny, codec.decodeReplyAny)
			})
		})
	}
}

func checkRandom(t *rapid.T, sample any, write func([]byte, Dialect, any) []byte, read func([]byte, Dialect) (any, error)) {
	x := reflect.New(reflect.TypeOf(sample).Elem())
	draw(t, x.Elem())
	for d := V12; d <= V14; d++ {
		body := write(nil, d, x.Interface())
		y, err := read(body, d)
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		if again := write(nil, d, y); !bytes.Equal(again, body) {
			t.Fatalf("%v: writes\n%x, then\n%x", d, body, again)
		}
		if d == V14 {
			if diff := cmp.Diff(x.Interface(), y); diff != "" {
				t.Fatalf("%v: read back something else: %s", d, diff)
			}
		}
	}
}
