package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mooncake/internal/limits"
)

func TestScanRootMissing(t *testing.T) {
	if _, err := Scan(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "cannot look for RDMA devices") {
		t.Errorf("a root that is not there: %v", err)
	}
}

// TestScanThisHost reads whatever the host has; there is nothing to compare with but the rules of the result.
func TestScanThisHost(t *testing.T) {
	devices, err := Scan("/")
	if err != nil {
		t.Fatal(err)
	}
	choice, err := Choose(devices, Wish{NUMA: -1, GIDIndex: -1})
	if (err == nil) != (len(choice.Chosen()) == 1) {
		t.Errorf("%v\n%s", err, choice.Table())
	}
}

// TestScanBounds: a tree with too much of something costs no more than it is worth.
func TestScanBounds(t *testing.T) {
	root := newFakeTree(t, "hca mlx5_0\nport mlx5_0/1\ngid mlx5_0/1/0 192.0.2.1 eth0 v2")
	fill := func(dir string, count int) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range count {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(filepath.Join(root, classDir), limits.RDMADevices)
	if _, err := Scan(root); err == nil || !strings.Contains(err.Error(), "more than 1024 entries") {
		t.Errorf("too many devices: %v", err)
	}
}

// TestScanTables reads tables no further than to their bound, and GIDs to where a gap is too long.
func TestScanTables(t *testing.T) {
	var text strings.Builder
	text.WriteString("hca rxe0 virtual\nport rxe0/1\n")
	for i := range limits.RDMAPKeys + 2 {
		fmt.Fprintf(&text, "file rxe0/ports/1/pkeys/%d 0xffff\n", i)
	}
	devices, err := Scan(newFakeTree(t, text.String()))
	if err != nil || len(devices) != 1 || len(devices[0].Ports) != 1 || len(devices[0].Ports[0].PKeys) != limits.RDMAPKeys {
		t.Fatalf("%+v, %v", devices, err)
	}
	const gap = limits.RDMAGIDGap
	for name, filled := range map[string][]int{"at the start": {0, 1}, "gaps": {gap, 2*gap + 1}, "too far": {gap + 1}, "too far apart": {3, gap + 5}} {
		text.Reset()
		text.WriteString("hca rxe0 virtual\nport rxe0/1\n")
		for i := range 2*gap + 2 {
			fmt.Fprintf(&text, "file rxe0/ports/1/gids/%d 0000:0000:0000:0000:0000:0000:0000:0000\n", i)
		}
		for _, i := range filled {
			fmt.Fprintf(&text, "gid rxe0/1/%d 192.0.2.1 eth1 v2\n", i)
		}
		devices, err := Scan(newFakeTree(t, text.String()))
		if err != nil || devices[0].Ports[0].Fault != "" {
			t.Fatalf("%s: %+v, %v", name, devices, err)
		}
		var got []int
		for _, e := range devices[0].Ports[0].GIDs {
			got = append(got, e.Index)
		}
		want := map[string][]int{"at the start": {0, 1}, "gaps": {gap, 2*gap + 1}, "too far apart": {3}}[name]
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// FuzzScan lays arbitrary bytes where attributes are; whatever they are, nothing panics and every cell fits into a line.
func FuzzScan(f *testing.F) {
	f.Add("4: ACTIVE\n", "Ethernet\n", "0x0\n", "0000:0000:0000:0000:0000:ffff:c000:0201\n", "RoCE v2\n", "eth0\n", "0xffff\n")
	f.Add("4: ACTIVE\n", "InfiniBand\n", "0x1\n", "fe80:0000:0000:0000:0000:0000:0000:0001\n", "IB/RoCE v1\n", "", "0x7fff\n")
	f.Add("", "", "", "", "", "", "")
	root := newFakeTree(f, "hca mlx5_0\nport mlx5_0/1\ngid mlx5_0/1/0 192.0.2.1 eth0 v2")
	port := filepath.Join(root, classDir, "mlx5_0/ports/1")
	f.Fuzz(func(t *testing.T, state, link, lid, gid, kind, netDev, key string) {
		for name, text := range map[string]string{
			"state": state, "link_layer": link, "lid": lid, "gids/0": gid,
			"gid_attrs/types/0": kind, "gid_attrs/ndevs/0": netDev, "pkeys/0": key,
		} {
			if err := os.WriteFile(filepath.Join(port, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		devices, err := Scan(root)
		if err != nil {
			t.Fatal(err)
		}
		choice, err := Choose(devices, Wish{NUMA: 0, GIDIndex: -1})
		if (err == nil) != (len(choice.Chosen()) == 1) || err == nil && devices[0].Ports[0].State != StateActive {
			t.Fatalf("%v\n%s", err, choice.Table())
		}
		for line := range strings.Lines(choice.Table()) {
			checkCell(t, strings.TrimSuffix(line, "\n"))
		}
	})
}

// BenchmarkScan is a host of eight adapters with GID tables of 256 entries.
func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	for i := range 8 {
		fmt.Fprintf(&text, "hca mlx5_%d numa=0\nport mlx5_%d/1\n", i, i)
		for g := range 256 {
			fmt.Fprintf(&text, "file mlx5_%d/ports/1/gids/%d 0000:0000:0000:0000:0000:0000:0000:0000\n", i, g)
		}
		fmt.Fprintf(&text, "gid mlx5_%d/1/3 192.0.2.%d eth%d v2\n", i, i, i)
	}
	root := newFakeTree(b, text.String())
	b.ReportAllocs()
	for b.Loop() {
		if devices, err := Scan(root); err != nil || len(devices) != 8 {
			b.Fatal(err)
		}
	}
}
