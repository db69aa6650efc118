package rdma

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mooncake/internal/limits"
)

// drawPort makes a port of good and bad properties, good ones often enough that some port is usable.
func drawPort(t *rapid.T, number int) Port {
	p := Port{
		Number:    number,
		State:     rapid.SampledFrom([]string{"ACTIVE", "ACTIVE", "ACTIVE", "DOWN", "INIT", ""}).Draw(t, "state"),
		LinkLayer: rapid.SampledFrom([]string{LinkEthernet, LinkEthernet, LinkInfiniBand, "Unspecified", ""}).Draw(t, "link"),
		RateGbps:  rapid.SampledFrom([]float64{0, 25, 100, 400}).Draw(t, "rate"),
		LID:       rapid.SampledFrom([]uint16{0, 7}).Draw(t, "lid"),
		PKeys:     rapid.SliceOfN(rapid.SampledFrom([]uint16{0xffff, 0xffff, 0x7fff, 0x8000, 0}), 0, 3).Draw(t, "pkeys"),
		Fault:     rapid.SampledFrom([]string{"", "", "", "lid: is odd"}).Draw(t, "fault"),
	}
	addresses := []string{"fe80::1", "192.0.2.1", "10.0.0.1", "172.17.0.1", "2001:db8::1", "127.0.0.1", "::"}
	for index := range rapid.IntRange(0, 4).Draw(t, "gids") {
		p.GIDs = append(p.GIDs, GIDEntry{
			Index:  index,
			GID:    netip.MustParseAddr(rapid.SampledFrom(addresses).Draw(t, "address")).As16(),
			Type:   rapid.SampledFrom([]string{GIDTypeIB, GIDTypeRoCEv2, GIDTypeRoCEv2, ""}).Draw(t, "type"),
			NetDev: rapid.SampledFrom([]string{"eth0", "docker0", ""}).Draw(t, "interface"),
		})
	}
	return p
}

func drawDevices(t *rapid.T) []Device {
	var out []Device
	for i := range rapid.IntRange(0, 5).Draw(t, "devices") {
		d := Device{
			Name:     fmt.Sprintf("mlx5_%d", i*3),
			NodeType: rapid.SampledFrom([]string{"CA", "CA", "", "RNIC"}).Draw(t, "node type"),
			NUMA:     rapid.IntRange(-1, 2).Draw(t, "numa"),
			Virtual:  rapid.Bool().Draw(t, "virtual"),
			Fault:    rapid.SampledFrom([]string{"", "", "", "", "node_type: is odd"}).Draw(t, "fault"),
		}
		if rapid.Bool().Draw(t, "distances") {
			d.Distances = []int{10, 21, 32}
		}
		for number := range rapid.IntRange(0, 2).Draw(t, "ports") {
			d.Ports = append(d.Ports, drawPort(t, number+1))
		}
		out = append(out, d)
	}
	return out
}

func drawWish(t *rapid.T, devices []Device) Wish {
	w := Wish{
		NUMA:      rapid.IntRange(-1, 3).Draw(t, "memory"),
		Port:      rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "port"),
		GIDIndex:  rapid.SampledFrom([]int{-1, -1, 0, 1}).Draw(t, "gid index"),
		PKeyIndex: rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "pkey index"),
	}
	if rapid.Bool().Draw(t, "pinned") {
		var names []string
		for _, d := range devices {
			names = append(names, d.Name)
		}
		names = append(names, "absent")
		w.Names = rapid.Permutation(names).Draw(t, "names")[:rapid.IntRange(1, len(names)).Draw(t, "count")]
	}
	return w
}

// fit says by other words than the code whether a port may be chosen.
func fit(d *Device, p *Port, w *Wish) bool {
	if d.Fault != "" || p.Fault != "" || d.NodeType == "RNIC" || p.State != "ACTIVE" || w.Port != 0 && w.Port != p.Number {
		return false
	}
	switch p.LinkLayer {
	case "Ethernet":
	case "InfiniBand":
		if p.LID == 0 {
			return false
		}
	default:
		return false
	}
	if !(len(p.PKeys) == 0 && w.PKeyIndex == 0 && p.LinkLayer == "Ethernet") {
		if w.PKeyIndex >= len(p.PKeys) || p.PKeys[w.PKeyIndex] <= 0x8000 {
			return false
		}
	}
	return slices.ContainsFunc(p.GIDs, func(e GIDEntry) bool {
		return e.GID != GID{} && (w.GIDIndex < 0 || e.Index == w.GIDIndex)
	})
}

// TestChooseProperties: only fit ports, exactly what was asked for, a reason for every port, and the same whatever the order.
func TestChooseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := drawDevices(t)
		w := drawWish(t, devices)
		choice, err := Choose(devices, w)
		chosen := choice.Chosen()
		var names []string
		for _, v := range chosen {
			names = append(names, v.Device)
			d, p := find(devices, v)
			if d == nil || !fit(d, p, &w) || !v.Chosen || !v.Usable {
				t.Fatalf("%+v was chosen", v)
			}
			checkNearest(t, devices, &w, d, v)
		}
		switch {
		case err != nil && len(chosen) > 0:
			t.Fatalf("chosen %v despite %v", names, err)
		case err != nil:
			checkRefused(t, devices, &w, err)
		case len(w.Names) > 0 && !slices.Equal(names, w.Names), len(w.Names) == 0 && len(names) != 1:
			t.Fatalf("chosen %v, wanted %v", names, w.Names)
		}
		for _, v := range choice.Verdicts {
			if d, p := find(devices, v); v.Usable != (p != nil && fit(d, p, &w)) {
				t.Fatalf("usable: %v of %+v", v.Usable, v)
			}
			if v.Reason == "" || strings.Contains(v.Reason, "\n") {
				t.Fatalf("reason %q", v.Reason)
			}
		}
		shuffled := rapid.Permutation(devices).Draw(t, "order")
		for i := range shuffled {
			shuffled[i].Ports = rapid.Permutation(shuffled[i].Ports).Draw(t, "ports")
			for j := range shuffled[i].Ports {
				p := &shuffled[i].Ports[j]
				p.GIDs = rapid.Permutation(p.GIDs).Draw(t, "entries")
			}
		}
		again, againErr := Choose(shuffled, w)
		if diff := cmp.Diff(choice.Verdicts, again.Verdicts); diff != "" || fmt.Sprint(err) != fmt.Sprint(againErr) {
			t.Fatalf("in another order: %s\n%v\n%v", diff, err, againErr)
		}
		if diff := cmp.Diff(chosen, again.Chosen()); diff != "" {
			t.Fatalf("in another order: %s", diff)
		}
	})
}

func find(devices []Device, v Verdict) (*Device, *Port) {
	for i := range devices {
		for j := range devices[i].Ports {
			if devices[i].Name == v.Device && devices[i].Ports[j].Number == v.Port {
				return &devices[i], &devices[i].Ports[j]
			}
		}
	}
	return nil, nil
}

// checkNearest wants no fit port on the memory's node beside a choice elsewhere, unless its address was the reason.
func checkNearest(t *rapid.T, devices []Device, w *Wish, d *Device, v Verdict) {
	t.Helper()
	if len(w.Names) > 0 || w.NUMA < 0 || d.NUMA == w.NUMA {
		return
	}
	for i := range devices {
		for j := range devices[i].Ports {
			p := &devices[i].Ports[j]
			if devices[i].NUMA != w.NUMA || !fit(&devices[i], p, w) {
				continue
			}
			if e, err := pickGID(p, w.GIDIndex); err != nil || !classOf(e, p.LinkLayer).poor() {
				t.Fatalf("%s on node %d was chosen beside %s port %d", v.Device, v.NUMA, devices[i].Name, p.Number)
			}
		}
	}
}

// checkRefused wants an error only where there is a reason for one.
func checkRefused(t *rapid.T, devices []Device, w *Wish, err error) {
	t.Helper()
	for i := range devices {
		d := &devices[i]
		if len(w.Names) > 0 && !slices.Contains(w.Names, d.Name) {
			continue
		}
		usable := slices.ContainsFunc(d.Ports, func(p Port) bool { return fit(d, &p, w) })
		if usable && len(w.Names) == 0 || !usable && len(w.Names) > 0 {
			if usable {
				t.Fatalf("%v, while %s is fit", err, d.Name)
			}
			return
		}
	}
	if len(w.Names) > 0 && !slices.Contains(w.Names, "absent") {
		t.Fatalf("%v, while all of %v are fit", err, w.Names)
	}
}

func TestChooseNothing(t *testing.T) {
	if _, err := Choose(nil, Wish{NUMA: -1, GIDIndex: -1}); !errors.Is(err, ErrNoDevice) {
		t.Errorf("without devices: %v", err)
	}
	if got := (Choice{}).Chosen(); len(got) != 0 {
		t.Errorf("nothing was asked, chosen %v", got)
	}
}

// TestLongErrors keeps errors about a host full of adapters to a line that can be read.
func TestLongErrors(t *testing.T) {
	var devices []Device
	for i := range 300 {
		devices = append(devices, Device{Name: fmt.Sprint("mlx5_", i), Ports: []Port{{Number: 1, State: "DOWN"}}})
	}
	_, err := Choose(devices, Wish{NUMA: -1, GIDIndex: -1})
	if err == nil || !strings.HasSuffix(err.Error(), "mlx5_7 port 1: port is DOWN; and 292 more") {
		t.Errorf("nothing usable: %v", err)
	}
	_, err = Choose(devices, Wish{Names: []string{"x"}, NUMA: -1, GIDIndex: -1})
	if err == nil || !strings.HasSuffix(err.Error(), "mlx5_7, …") {
		t.Errorf("nothing named: %v", err)
	}
}

func TestWishBounds(t *testing.T) {
	many := make([]string, limits.RDMANamesPinned+1)
	for i := range many {
		many[i] = fmt.Sprint("mlx5_", i)
	}
	fine := Wish{NUMA: -1, GIDIndex: -1}
	for name, c := range map[string]struct {
		change func(*Wish)
		want   []string
	}{
		"too many names": {func(w *Wish) { w.Names = many }, []string{"33", "at most 32", "--device_name"}},
		"bad name":       {func(w *Wish) { w.Names = []string{"mlx5_0@1"} }, []string{`"mlx5_0@1"`, "--device_name"}},
		"long name":      {func(w *Wish) { w.Names = []string{strings.Repeat("a", 1000)} }, []string{"…", "--device_name"}},
		"named twice":    {func(w *Wish) { w.Names = []string{"a", "b", "a"} }, []string{"--device_name=a,b,a", "a twice"}},
		"port":           {func(w *Wish) { w.Port = 65 }, []string{"65", "1 to 64", "MC_IB_PORT"}},
		"negative port":  {func(w *Wish) { w.Port = -1 }, []string{"-1", "MC_IB_PORT"}},
		"gid":            {func(w *Wish) { w.GIDIndex = 256 }, []string{"256", "255", "MC_GID_INDEX"}},
		"gid overflow":   {func(w *Wish) { w.GIDIndex = math.MinInt }, []string{"MC_GID_INDEX"}},
		"pkey":           {func(w *Wish) { w.PKeyIndex = 1024 }, []string{"1024", "1023", "MC_PKEY_INDEX"}},
		"negative pkey":  {func(w *Wish) { w.PKeyIndex = -1 }, []string{"-1", "MC_PKEY_INDEX"}},
	} {
		w := fine
		c.change(&w)
		_, err := Choose(nil, w)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		checkCell(t, err.Error())
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not name %q", name, err, part)
			}
		}
	}
}

// TestGIDsBeyondAByte are never used: the library would take another entry instead.
func TestGIDsBeyondAByte(t *testing.T) {
	entry := func(index int, last byte) GIDEntry {
		return GIDEntry{Index: index, GID: ipv4GID(last), Type: GIDTypeRoCEv2, NetDev: "eth0"}
	}
	p := &Port{LinkLayer: LinkEthernet, GIDs: []GIDEntry{entry(256, 1), entry(300, 2)}}
	if e, err := pickGID(p, -1); err == nil || !strings.Contains(err.Error(), "beyond 255") {
		t.Errorf("%+v, %v", e, err)
	}
	poor := entry(255, 3)
	poor.Type = GIDTypeIB
	p.GIDs = append(p.GIDs, poor)
	if e, err := pickGID(p, -1); err != nil || e.Index != 255 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestParseClasses(t *testing.T) {
	for _, c := range []struct {
		class, level string
		wantClass    int
		wantLevel    int
		err          string
	}{
		{"", "", 0, 0, ""},
		{"255", " 15 ", 255, 15, ""},
		{"106", "", 106, 0, ""},
		{"256", "", 0, 0, "MC_IB_TC=256: want a number from 0 to 255"},
		{"-1", "", 0, 0, "MC_IB_TC=-1: want a number from 0 to 255"},
		{"", "16", 0, 0, "MC_IB_SL=16: want a number from 0 to 15"},
		{"0x10", "", 0, 0, "MC_IB_TC=0x10"},
	} {
		env := map[string]string{"MC_IB_TC": c.class, "MC_IB_SL": c.level}
		class, level, err := ParseClasses(func(name string) string { return env[name] })
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v", c, err)
			}
		case err != nil || class != c.wantClass || level != c.wantLevel:
			t.Errorf("%v: %d, %d, %v", c, class, level, err)
		}
	}
}

func TestParseWish(t *testing.T) {
	for name, c := range map[string]struct {
		names string
		env   map[string]string
		want  Wish
		err   string
	}{
		"nothing":       {"", nil, Wish{NUMA: -1, GIDIndex: -1}, ""},
		"blank":         {"  ", nil, Wish{NUMA: -1, GIDIndex: -1}, ""},
		"names":         {" mlx5_1, mlx5_0 ", nil, Wish{Names: []string{"mlx5_1", "mlx5_0"}, NUMA: -1, GIDIndex: -1}, ""},
		"pins":          {"", map[string]string{"MC_IB_PORT": "2", "MC_GID_INDEX": " 3 ", "MC_PKEY_INDEX": "1"}, Wish{NUMA: -1, Port: 2, GIDIndex: 3, PKeyIndex: 1}, ""},
		"other gid":     {"", map[string]string{"NCCL_IB_GID_INDEX": "5"}, Wish{NUMA: -1, GIDIndex: 5}, ""},
		"ours first":    {"", map[string]string{"NCCL_IB_GID_INDEX": "5", "MC_GID_INDEX": "0"}, Wish{NUMA: -1}, ""},
		"best gid":      {"", map[string]string{"NCCL_IB_GID_INDEX": "-1"}, Wish{NUMA: -1, GIDIndex: -1}, ""},
		"bad port":      {"", map[string]string{"MC_IB_PORT": "one"}, Wish{}, "MC_IB_PORT=one: want a number from 1 to 64"},
		"bad gid":       {"", map[string]string{"NCCL_IB_GID_INDEX": "5000"}, Wish{}, "NCCL_IB_GID_INDEX=5000: want a number from -1 to 255"},
		"bad pkey":      {"", map[string]string{"MC_PKEY_INDEX": "-1"}, Wish{}, "MC_PKEY_INDEX=-1: want a number from 0 to 1023"},
		"comma at end":  {"mlx5_0,", nil, Wish{}, `--device_name=mlx5_0,: "" is no name of a device`},
		"line feed":     {"mlx5_0\nmlx5_1", nil, Wish{}, `"mlx5_0\nmlx5_1" is no name of a device`},
		"not a list":    {"mlx5_0 mlx5_1", nil, Wish{}, `"mlx5_0 mlx5_1" is no name of a device`},
		"a whole novel": {"", map[string]string{"MC_IB_PORT": strings.Repeat("9", 500)}, Wish{}, "…: want a number"},
	} {
		got, err := ParseWish(c.names, func(name string) string { return c.env[name] })
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// TestGIDClasses ranks single entries as published clients do.
func TestGIDClasses(t *testing.T) {
	for _, c := range []struct {
		address, netDev, kind, link string
		want                        gidClass
	}{
		{"192.0.2.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidRoutable},
		{"192.168.1.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidRoutable},
		{"2001:db8::1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidRoutable},
		{"fe80::1", "", GIDTypeIB, LinkInfiniBand, gidRoutable},
		{"192.0.2.1", "", GIDTypeRoCEv2, LinkEthernet, gidRoutableBare},
		{"10.0.0.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidPrivate},
		{"172.31.0.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidPrivate},
		{"172.32.0.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidRoutable},
		{"100.64.0.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidPrivate},
		{"192.0.2.1", "docker0", GIDTypeRoCEv2, LinkEthernet, gidLocal},
		{"192.0.2.1", "vxlan.calico", GIDTypeRoCEv2, LinkEthernet, gidLocal},
		{"10.244.0.1", "cni0", GIDTypeRoCEv2, LinkEthernet, gidLocal},
		{"fe80::1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidLocal},
		{"169.254.1.1", "eth0", GIDTypeRoCEv2, LinkEthernet, gidLocal},
		{"fe80::1", "", GIDTypeRoCEv2, LinkEthernet, gidDegraded},
		{"10.0.0.1", "", GIDTypeRoCEv2, LinkEthernet, gidDegraded},
		{"127.0.0.1", "lo", GIDTypeRoCEv2, LinkEthernet, gidDegraded},
		{"192.0.2.1", "eth0", GIDTypeIB, LinkEthernet, gidOther},
		{"192.0.2.1", "eth0", "", LinkEthernet, gidOther},
	} {
		e := &GIDEntry{GID: netip.MustParseAddr(c.address).As16(), Type: c.kind, NetDev: c.netDev}
		if got := classOf(e, c.link); got != c.want {
			t.Errorf("%s on %q, %q, %s: class %d, want %d", c.address, c.netDev, c.kind, c.link, got, c.want)
		}
	}
}

// BenchmarkChoose is a host of eight adapters with all their virtual functions; a choice is made at every change of a port.
func BenchmarkChoose(b *testing.B) {
	var devices []Device
	for i := range 1024 {
		devices = append(devices, Device{Name: fmt.Sprint("mlx5_", i), NUMA: i % 2, Virtual: i >= 8, Ports: []Port{{
			Number: 1, State: StateActive, LinkLayer: LinkEthernet, PKeys: []uint16{0xffff}, RateGbps: 400,
			GIDs: []GIDEntry{{GID: netip.MustParseAddr("192.0.2.1").As16(), Type: GIDTypeRoCEv2, NetDev: "eth0"}},
		}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Choose(devices, Wish{NUMA: 1, GIDIndex: -1}); err != nil {
			b.Fatal(err)
		}
	}
}
