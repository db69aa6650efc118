package rdma

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mooncake/internal/limits"
)

// The kinds of files and what a kernel writes to them; the fuzz targets begin with it.
var sysfsKinds = map[string]struct {
	parse func(string) (any, error)
	good  map[string]any
	bad   []string
}{
	"name": {
		as(parseName),
		map[string]any{"mlx5_0": "mlx5_0", "rocep23s0f0": "rocep23s0f0", "bnxt_re-bond0": "bnxt_re-bond0"},
		[]string{"", ".", "..", ".a", "a/b", "a@b", "a,b", "a b", "a\n", strings.Repeat("a", 64), "é"},
	},
	"numbered": {
		as(parseNumbered),
		map[string]any{"4: ACTIVE\n": "ACTIVE", "1: DOWN": "DOWN", "1: CA\n": "CA", "5: ACTIVE_DEFER\n": "ACTIVE_DEFER"},
		[]string{"", "\n", "ACTIVE", "4:", "4: ", "4: \n", ": ACTIVE", "x: ACTIVE", "4: A\x1b[31m", "4: " + strings.Repeat("A", 33), "-1: ACTIVE"},
	},
	"word": {
		as(parseWord),
		map[string]any{"Ethernet\n": "Ethernet", "InfiniBand\n": "InfiniBand", "Unspecified\n": "Unspecified"},
		[]string{"", "\n", "Ether\nnet\n", "\x00", "Eth\tnet"},
	},
	"rate": {
		as(parseRate),
		map[string]any{"400 Gb/sec (4X NDR)\n": 400.0, "2.5 Gb/sec (1X SDR)\n": 2.5, "0 Gb/sec\n": 0.0},
		[]string{"", " Gb/sec", "fast", "-1 Gb/sec", "1e9 Gb/sec", "NaN Gb/sec", "Inf Gb/sec", "1.2.3 Gb/sec", "10000000 Gb/sec"},
	},
	"hex": {
		as(parseHex16),
		map[string]any{"0xffff\n": uint16(0xffff), "0x0": uint16(0), "0x1f\n": uint16(0x1f)},
		[]string{"", "0x", "ffff", "0x10000", "0xg", "0x-1", "0x_f"},
	},
	"gid": {
		as(parseGID),
		map[string]any{
			"fe80:0000:0000:0000:0202:c9ff:fe00:0001\n": GID{0xfe, 0x80, 8: 0x02, 0x02, 0xc9, 0xff, 0xfe, 0x00, 0x00, 0x01},
			"0000:0000:0000:0000:0000:ffff:c000:020a":   GID{10: 0xff, 0xff, 192, 0, 2, 10},
		},
		[]string{"", "fe80::1", "fe80:0000:0000:0000:0202:c9ff:fe00", "fe80:0000:0000:0000:0202:c9ff:fe00:0001:0000", "fe80:0000:0000:0000:0202:c9ff:fe00:000g", "fe8:00000:0000:0000:0202:c9ff:fe00:0001"},
	},
	"gid type": {
		as(parseGIDType),
		map[string]any{"RoCE v2\n": GIDTypeRoCEv2, "IB/RoCE v1\n": GIDTypeIB},
		[]string{"", "RoCE", "RoCE v3\n"},
	},
	"interface": {
		as(parseNetDev),
		map[string]any{"eth0\n": "eth0", "bond0.7": "bond0.7", "enp23s0f0np0\n": "enp23s0f0np0"},
		[]string{"", "\n", "a b", "a/b", "a\nb", "abcdefghijklmnop", "é"},
	},
	"node": {
		as(parseNode),
		map[string]any{"0\n": 0, "-1\n": -1, "7": 7},
		[]string{"", "x", "-2", "1024", "99999999999999999999", "1 2"},
	},
	"distances": {
		func(text string) (any, error) { v, err := parseDistances(text); return len(v), err },
		map[string]any{"10 21\n": 2, "10\n": 1},
		[]string{"", "\n", "10 x", "-10", "70000", strings.Repeat("10 ", limits.RDMANodes+1)},
	},
	"index": {
		func(text string) (any, error) { return parseIndex(text, 1000) },
		map[string]any{"0": 0, "1": 1, "999": 999},
		[]string{"", "-1", "01", "+1", "1000", "x", "1\n", "99999999999"},
	},
}

func as[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return parse(text) }
}

func TestSysfsKinds(t *testing.T) {
	for kind, k := range sysfsKinds {
		for text, want := range k.good {
			if got, err := k.parse(text); err != nil || got != want {
				t.Errorf("%s %q: %v, %v, want %v", kind, text, got, err, want)
			}
		}
		for _, text := range k.bad {
			if got, err := k.parse(text); err == nil {
				t.Errorf("%s %q: accepted as %v", kind, text, got)
			}
		}
	}
}

// fuzzKind feeds one parser. Whatever comes: no panic, an error of one printable line, and a text that fits into a table.
func fuzzKind(f *testing.F, kind string) {
	k := sysfsKinds[kind]
	for text := range k.good {
		f.Add(text)
	}
	for _, text := range k.bad {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := k.parse(text)
		if err != nil {
			checkCell(t, err.Error())
			return
		}
		if word, ok := v.(string); ok {
			checkCell(t, word)
		}
	})
}

// checkCell wants text that takes one line of a table.
func checkCell(t testing.TB, text string) {
	t.Helper()
	const widest = 300
	if !utf8.ValidString(text) || len(text) > widest || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("%q does not fit into a line", text)
	}
}

func FuzzSysfsName(f *testing.F)      { fuzzKind(f, "name") }
func FuzzSysfsNumbered(f *testing.F)  { fuzzKind(f, "numbered") }
func FuzzSysfsWord(f *testing.F)      { fuzzKind(f, "word") }
func FuzzSysfsRate(f *testing.F)      { fuzzKind(f, "rate") }
func FuzzSysfsHex(f *testing.F)       { fuzzKind(f, "hex") }
func FuzzSysfsGID(f *testing.F)       { fuzzKind(f, "gid") }
func FuzzSysfsGIDType(f *testing.F)   { fuzzKind(f, "gid type") }
func FuzzSysfsInterface(f *testing.F) { fuzzKind(f, "interface") }
func FuzzSysfsNode(f *testing.F)      { fuzzKind(f, "node") }
func FuzzSysfsDistances(f *testing.F) { fuzzKind(f, "distances") }
func FuzzSysfsIndex(f *testing.F)     { fuzzKind(f, "index") }

func TestCompareNames(t *testing.T) {
	sorted := []string{"bnxt_re0", "mlx5_0", "mlx5_00", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_99999999999999999998", "mlx5_99999999999999999999", "mlx5_bond_0", "rxe"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := compareNames(a, b), compareInts(i, j); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
	if !slices.IsSortedFunc(sorted, compareNames) {
		t.Error("not sorted")
	}
}

func compareInts(i, j int) int {
	switch {
	case i < j:
		return -1
	case i > j:
		return 1
	}
	return 0
}
