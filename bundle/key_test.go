package bundle

import (
	"strings"
	"testing"
)

const id = "0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	base := "miles-object-store/default/" + id + "/"
	for _, c := range []struct {
		key    string
		prefix string
		part   Part
	}{
		{base + "manifest", base, Manifest},
		{base + "meta", base, Meta},
		{base + "meta/chunk/0", base, Meta},
		{base + "meta/chunk/17", base, Meta},
		{base + "buffer/non_tensor_batch.tokens.data", base, Buffer},
		{base + "buffer/non_tensor_batch.tokens.data/chunk/3", base, Buffer},
		{base + "buffer/a/b/manifest", base, Buffer},
		{"a/b/c/" + id + "/meta", "a/b/c/" + id + "/", Meta},
		{"p/" + id + "/buffer/x", "p/" + id + "/", Buffer},
		// The last manifest decides, even behind another bundle's id.
		{base + "buffer/" + id + "/manifest", base + "buffer/" + id + "/", Manifest},

		{"", "", NoPart},
		{"plain", "", NoPart},
		{"/manifest", "", NoPart},
		{id + "/manifest", "", NoPart},
		{"/" + id + "/manifest", "", NoPart},
		{base, "", NoPart},
		{base + "buffer", "", NoPart},
		{base + "buffer/", "", NoPart},
		{base + "meta/", "", NoPart},
		{base + "meta/chunk/", "", NoPart},
		{base + "meta/chunk/1x", "", NoPart},
		{base + "metadata", "", NoPart},
		{base + "manifest/", "", NoPart},
		{base + "payload/x", "", NoPart},
		{"p/" + strings.ToUpper(id) + "/meta", "", NoPart},
		{"p/" + id[1:] + "/meta", "", NoPart},
		{"p/0" + id + "/meta", "", NoPart},
		{"p/" + id[:31] + "g/meta", "", NoPart},
		{"weights/manifest", "", NoPart},
	} {
		prefix, part := Parse(c.key)
		if prefix != c.prefix || part != c.part {
			t.Errorf("Parse(%q) = %q, %v; want %q, %v", c.key, prefix, part, c.prefix, c.part)
		}
		if got := Prefix(c.key); got != c.prefix {
			t.Errorf("Prefix(%q) = %q; want %q", c.key, got, c.prefix)
		}
	}
}

func TestParseTakesNoMemory(t *testing.T) {
	key := "miles-object-store/default/" + id + "/buffer/non_tensor_batch.tokens.data/chunk/3"
	if n := testing.AllocsPerRun(100, func() { Parse(key) }); n != 0 {
		t.Errorf("Parse takes %v allocations, want none", n)
	}
}

func TestPartNames(t *testing.T) {
	for part, want := range map[Part]string{NoPart: "none", Meta: "meta", Buffer: "buffer", Manifest: "manifest"} {
		if part.String() != want {
			t.Errorf("Part(%d) = %q, want %q", part, part, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("miles-object-store/default/" + id + "/manifest")
	f.Add("p/" + id + "/buffer/" + id + "/meta")
	f.Add("p/" + id + "/meta/chunk/9")
	f.Add("/" + id + "/meta")
	f.Fuzz(func(t *testing.T, key string) {
		prefix, part := Parse(key)
		if (part == NoPart) != (prefix == "") {
			t.Fatalf("%q: prefix %q with part %v", key, prefix, part)
		}
		if part == NoPart {
			return
		}
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || !strings.HasSuffix(prefix, "/") || len(prefix) < idDigits+3 {
			t.Fatalf("%q: %q is no prefix of a bundle", key, prefix)
		}
		if digits := prefix[len(prefix)-1-idDigits : len(prefix)-1]; strings.Trim(digits, "0123456789abcdef") != "" {
			t.Fatalf("%q: id %q", key, digits)
		}
		if !strings.HasPrefix(rest, part.String()) {
			t.Fatalf("%q: rest %q of a %v", key, rest, part)
		}
		// Keys of one bundle agree on their prefix whatever member they name.
		if again, p := Parse(prefix + "manifest"); again != prefix || p != Manifest {
			t.Fatalf("%q: manifest of %q parses to %q", key, prefix, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	key := "miles-object-store/default/" + id + "/buffer/non_tensor_batch.tokens.data/chunk/3"
	b.ReportAllocs()
	for b.Loop() {
		Parse(key)
	}
}

// BenchmarkParseOther is what every other key pays.
func BenchmarkParseOther(b *testing.B) {
	key := "kv/llama-3-70b/layer-17/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	b.ReportAllocs()
	for b.Loop() {
		Parse(key)
	}
}
