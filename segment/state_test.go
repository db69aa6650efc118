package segment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sampleState() *State {
	return &State{
		Version: stateVersion, ClientID: "1-2", SegmentID: "18446744073709551615-4", Base: 0x2a0000000000, Size: 1 << 20,
		Name: "127.0.0.1:18000", Endpoint: "127.0.0.1:18000", TEPort: 18000, DataPort: 18001, Protocol: "tcp", Master: "127.0.0.1:50051",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func TestStateReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	want := sampleState()
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeState(path, text); err != nil {
		t.Fatal(err)
	}
	got, raw, err := readState(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if string(raw) != string(text) {
		t.Errorf("text changed: %q", raw)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files beside the state, %v; want only itself", len(left), err)
	}
}

func TestStateAnyValuesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := sampleState()
		want.Base = rapid.Uint64Range(1, 1<<62).Draw(t, "base")
		want.Size = rapid.Uint64Range(1, 1<<62).Draw(t, "size")
		want.TEPort = rapid.IntRange(1, 65535).Draw(t, "te")
		want.DataPort = rapid.IntRange(1, 65535).Draw(t, "data")
		want.Name = rapid.StringN(1, 50, 200).Draw(t, "name")
		text, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseState(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.Base != want.Base || got.Size != want.Size || got.TEPort != want.TEPort || got.DataPort != want.DataPort {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestStateRefuses(t *testing.T) {
	good, err := sampleState().encode()
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string {
		out := strings.Replace(string(good), old, new, 1)
		if out == string(good) {
			t.Fatalf("%q is not in the sample", old)
		}
		return out
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "EOF"},
		"half":           {string(good[:len(good)/2]), "unexpected EOF"},
		"version":        {change(`"version": 1`, `"version": 2`), "version 2"},
		"client id":      {change(`"1-2"`, `"x"`), "client_id"},
		"segment id":     {change(`"18446744073709551615-4"`, `"18446744073709551616-4"`), "segment_id"},
		"base 0":         {change(`46179488366592`, `0`), "base is 0"},
		"size 0":         {change(`"size": 1048576`, `"size": 0`), "size is 0"},
		"wraps":          {change(`46179488366592`, `18446744073709551615`), "wraps"},
		"no name":        {change(`"name": "127.0.0.1:18000"`, `"name": ""`), "missing"},
		"port":           {change(`"te_port": 18000`, `"te_port": 70000`), "port"},
		"protocol":       {change(`"tcp"`, `""`), "protocol"},
		"unknown field":  {change(`"protocol"`, `"transport"`), "unknown field"},
		"more text":      {string(good) + "{}", "after the object"},
		"negative base":  {change(`46179488366592`, `-1`), "base"},
		"name too long":  {change(`"name": "127.0.0.1:18000"`, `"name": "`+strings.Repeat("n", 300)+`"`), "too long"},
		"a list instead": {"[]", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseState([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzParseState(f *testing.F) {
	good, err := sampleState().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"version":1,"base":18446744073709551615,"size":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseState(text)
		if err != nil {
			return
		}
		if s.Base == 0 || s.Size == 0 || s.Base+s.Size < s.Base {
			t.Fatalf("accepted %+v", s)
		}
	})
}

func FuzzParseSeal(f *testing.F) {
	good, err := sampleState().encode()
	if err != nil {
		f.Fatal(err)
	}
	page, err := encodeSeal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page)
	f.Add([]byte(sealMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, page []byte) {
		text, err := parseSeal(page)
		if err != nil {
			return
		}
		again, err := encodeSeal(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseSeal(again)
		if err != nil || string(back) != string(text) {
			t.Fatalf("%q became %q, %v", text, back, err)
		}
	})
}

func TestSealSeesEveryFlippedByte(t *testing.T) {
	text := []byte("some text of a state")
	page, err := encodeSeal(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealHead + len(text) {
		bad := append([]byte(nil), page...)
		bad[i] ^= 0x40
		if _, err := parseSeal(bad); err == nil {
			t.Errorf("byte %d flipped and not noticed", i)
		}
	}
	if _, err := encodeSeal(make([]byte, sealTextMax+1)); err == nil {
		t.Error("a text that is too long was sealed")
	}
}
