package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// sameAsDecoded compares a Go value with the "decoded" member of a recorded frame, field name by field name, so that two
// neighbours of one type cannot be mixed up. It returns the first difference.
func sameAsDecoded(v reflect.Value, want any, at string) error {
	switch t := v.Interface().(type) {
	case UUID:
		return sameList([]reflect.Value{reflect.ValueOf(t.Hi), reflect.ValueOf(t.Lo)}, want, at)
	case ReplicaVariant:
		alternative := v.Field(1 + int(t.Index))
		if alternative.Kind() == reflect.Pointer {
			alternative = alternative.Elem()
		}
		return sameList([]reflect.Value{reflect.ValueOf(t.Index), alternative}, want, at)
	}
	switch v.Kind() {
	case reflect.Struct:
		return sameStruct(v, want, at)
	case reflect.Slice:
		parts := make([]reflect.Value, v.Len())
		for i := range parts {
			parts[i] = v.Index(i)
		}
		return sameList(parts, want, at)
	case reflect.String:
		return differs(v.String() == want, at, v, want)
	case reflect.Bool:
		return differs(v.Bool() == want, at, v, want)
	case reflect.Int32, reflect.Int64:
		return differs(json.Number(strconv.FormatInt(v.Int(), 10)) == want, at, v, want)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return differs(json.Number(strconv.FormatUint(v.Uint(), 10)) == want, at, v, want)
	}
	return fmt.Errorf("%s: kind %v is not compared", at, v.Kind())
}

func differs(same bool, at string, got, want any) error {
	if same {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", at, got, want)
}

func sameStruct(v reflect.Value, want any, at string) error {
	name := v.Type().Name()
	switch {
	case strings.HasPrefix(name, "Opt["):
		if !v.Field(0).Bool() || want == nil {
			return differs(!v.Field(0).Bool() && want == nil, at, v, want)
		}
		return sameAsDecoded(v.Field(1), want, at)
	case strings.HasPrefix(name, "MapEntry["):
		return sameList([]reflect.Value{v.Field(0), v.Field(1)}, want, at)
	case strings.HasPrefix(name, "Exp["):
		m := want.(map[string]any)
		if value, ok := m["ok"]; ok {
			if !v.Field(1).IsZero() {
				return fmt.Errorf("%s is error %v", at, v.Field(1))
			}
			if v.Field(0).Type() == reflect.TypeFor[Void]() {
				return nil
			}
			return sameAsDecoded(v.Field(0), value, at)
		}
		return sameAsDecoded(v.Field(1), m["err"], at+".err")
	}
	if key, ok := want.(string); ok { // 12 sends a bare key
		return sameAsDecoded(v.FieldByName("Key"), key, at)
	}
	return sameFields(v, want.(map[string]any), at)
}

// sameFields compares a struct with a JSON object: every member must be a field, and fields without a member be zero.
func sameFields(v reflect.Value, want map[string]any, at string) error {
	seen := map[string]bool{}
	for member, value := range want {
		if member == "with_soft_pin" {
			pinned := v.FieldByName("SoftPinAction").Interface() == SoftPinEnable
			if err := differs(pinned == value, at+"."+member, pinned, value); err != nil {
				return err
			}
			seen["softpinaction"] = true
			continue
		}
		flat := strings.ReplaceAll(member, "_", "")
		field := v.FieldByNameFunc(func(s string) bool { return strings.ToLower(s) == flat })
		if !field.IsValid() {
			return fmt.Errorf("%s has no field %s", at, member)
		}
		seen[flat] = true
		if err := sameAsDecoded(field, value, at+"."+member); err != nil {
			return err
		}
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !seen[strings.ToLower(name)] && !v.Field(i).IsZero() {
			return fmt.Errorf("%s.%s is %v, the frame has no such field", at, name, v.Field(i))
		}
	}
	return nil
}

func sameList(parts []reflect.Value, want any, at string) error {
	list, ok := want.([]any)
	if !ok || len(list) != len(parts) {
		return fmt.Errorf("%s has %d parts, want %v", at, len(parts), want)
	}
	for i := range parts {
		if err := sameAsDecoded(parts[i], list[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

// checkDecoded compares what a codec read with the values recorded beside the bytes.
func checkDecoded(t *testing.T, f *frame, x any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(f.Decoded)))
	d.UseNumber()
	var want any
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(x).Elem()
	var err error
	if f.Dir == "req" {
		args := want.([]any)
		parts := make([]reflect.Value, v.NumField())
		for i := range parts {
			parts[i] = v.Field(i)
		}
		if len(args) < len(parts) { // an older release knows fewer arguments
			parts = parts[:len(args)]
		}
		err = sameList(parts, want, f.RPC)
	} else {
		err = sameAsDecoded(v, want, f.RPC)
	}
	if err != nil {
		t.Errorf("%s:%d: %v", f.file, f.line, err)
	}
}
