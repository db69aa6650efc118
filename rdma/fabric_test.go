package rdma

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

func TestConfigRefusals(t *testing.T) {
	one := []Verdict{{Device: "mlx5_0", Port: 1}}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no RDMA device is chosen"},
		{Config{Rails: make([]Verdict, 17)}, "17 RDMA devices are chosen, at most 16 can be used"},
		{Config{Rails: []Verdict{{Device: "mlx5_0", Port: 1}, {Device: "mlx5_0", Port: 2}}}, "mlx5_0 is chosen twice"},
		{Config{Rails: one, MTU: 1500}, "path MTU 1500 is not one of 256, 512, 1024, 2048, 4096"},
		{Config{Rails: one, MTU: 8192}, "path MTU 8192"},
		{Config{Rails: []Verdict{{Device: "mlx5_0", Port: 1, GIDIndex: 256}}}, "GID index 256 of device mlx5_0 is not from 0 to 255"},
		{Config{Rails: one, TrafficClass: 256}, "traffic class 256 is not from 0 to 255"},
		{Config{Rails: one, ServiceLevel: 16}, "service level 16 is not from 0 to 15"},
		{Config{Rails: one, QPsPerPeerMax: 10, QPsMax: 5}, "10 queue pairs for each peer and 5 in all"},
		{Config{Rails: one, Retry: 7}, "retry count 7 is not from 1 to 6"},
		{Config{Rails: one, Timeout: 32}, "timeout exponent 32 is not from 1 to 31"},
		{Config{Rails: one, ProbeEvery: -time.Second}, "probe interval -1s is negative"},
		{Config{Rails: one, PartBytes: 4096}, "parts of 4096 bytes are not a multiple of 2097152"},
	} {
		c.cfg.verbs = modelLayer{newModel(t)}
		if _, err := OpenFabric(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestOpenFails closes what was opened before the one that could not be.
func TestOpenFails(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	rails := []Verdict{{Device: "mlx5_0", Port: 1}, {Device: "mlx5_7", Port: 1}}
	if _, err := OpenFabric(Config{Rails: rails, verbs: modelLayer{m}}); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "ibv_open_device of mlx5_7") {
		t.Error(err)
	}
	rails[1] = Verdict{Device: "mlx5_1", Port: 1, GIDIndex: 99}
	if _, err := OpenFabric(Config{Rails: rails, verbs: modelLayer{m}}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	m.checkEmpty()
}

// TestRegister gives parts with one key for each device, and tells how far it is.
func TestRegister(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	f := openModel(t, m, Config{PartBytes: 4 << 20}, "mlx5_0", "mlx5_1")
	var told []uint64
	const size = 15 << 20
	region, err := f.Register(t.Context(), mapped(t, size), 1<<32, func(done, total uint64) { told = append(told, done, total) })
	must(t, err)
	devices, buffers := region.Publish()
	if len(devices) != 2 || len(buffers) != 4 || m.regions != 8 {
		t.Fatalf("%d devices, %d buffers, %d regions", len(devices), len(buffers), m.regions)
	}
	for i, b := range buffers {
		want := descriptor.Buffer{Addr: 1<<32 + uint64(i)*4<<20, Length: 6 << 20}
		if i == 3 {
			want.Length = 3 << 20
		}
		if b.Addr != want.Addr || b.Length != want.Length || len(b.RKey) != 2 || len(b.LKey) != 2 || b.RKey[0] == b.RKey[1] {
			t.Errorf("buffer %d: %+v", i, b)
		}
	}
	if total := uint64(2 * (3*6 + 3) << 20); len(told) != 16 || told[14] != total || told[15] != total {
		t.Errorf("progress %v, want %d at the end", told, total)
	}
	if s := f.Stats().Devices[1]; s.Regions != 4 || s.RegisteredBytes != 21<<20 {
		t.Errorf("%+v", s)
	}
	must(t, region.Close())
	must(t, region.Close())
	if devices, buffers := region.Publish(); devices != nil || buffers != nil || m.regions != 0 {
		t.Errorf("closed: %+v %+v, %d regions", devices, buffers, m.regions)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestRegisterFails says what could not be registered and leaves nothing.
func TestRegisterFails(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	m.mrBytes = 6 << 20
	f := openModel(t, m, Config{}, "mlx5_0", "mlx5_1")
	mem := mapped(t, 9<<20)
	for _, c := range []struct {
		mem  []byte
		base uint64
		want string
	}{
		{nil, 4096, "no memory at all"},
		{mem, 0, "cannot register 9437184 bytes at address 0x0"},
		{mem, 1<<64 - 4096, "cannot register"},
		{mem, 4097, "does not lie in its page as the memory does"},
	} {
		if _, err := f.Register(t.Context(), c.mem, c.base, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	region, err := f.Register(t.Context(), mem, 1<<32, nil) // parts are as large as the devices take
	must(t, err)
	if b := region.Describe(); len(b) != 2 || b[0].Length != 6<<20 {
		t.Errorf("%+v", b)
	}
	must(t, region.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Register(ctx, mem, 1<<32, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m.failVerbs["ibv_reg_mr"] = syscall.ENOMEM
	_, err = f.Register(t.Context(), mem, 1<<32, nil)
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "of 9437184: ibv_reg_mr of mlx5_") {
		t.Error(err)
	}
	m.mrBytes = 1 << 20
	for _, r := range f.rails {
		r.caps.mrBytes = m.mrBytes
	}
	if _, err := f.Register(t.Context(), mem, 1<<32, nil); err == nil || !strings.Contains(err.Error(), "at most 1048576 bytes at a time") {
		t.Error(err)
	}
	must(t, f.Close())
	if _, err := f.Register(t.Context(), mem, 1<<32, nil); err == nil {
		t.Error("registered with closed devices")
	}
	m.checkEmpty()
}

// TestPartsOverlap finds one part for every request that is not longer than the overlap, wherever it begins.
func TestPartsOverlap(t *testing.T) {
	m := newModel(t, "mlx5_0")
	mem := mapped(t, 64<<20)
	rapid.Check(t, func(r *rapid.T) {
		part := uint64(rapid.IntRange(1, 16).Draw(r, "part")) * limits.RDMAPartBytesMin
		size := rapid.IntRange(1, len(mem)).Draw(r, "size")
		f := openModel(t, m, Config{PartBytes: part}, "mlx5_0")
		region, err := f.Register(t.Context(), mem[:size], 1<<32, nil)
		must(t, err)
		s := descriptor.Segment{Buffers: region.Describe()}
		length := rapid.IntRange(1, min(size, limits.RDMAPartOverlapBytes)).Draw(r, "length")
		at := rapid.IntRange(0, size-length).Draw(r, "at")
		if s.Remote(1<<32+uint64(at), uint64(length)) == nil {
			r.Fatalf("no part holds %d bytes at %d of %d: %+v", length, at, size, s.Buffers)
		}
		if last := s.Buffers[len(s.Buffers)-1]; last.Addr+last.Length != 1<<32+uint64(size) {
			r.Fatalf("the last part ends at %#x", last.Addr+last.Length)
		}
		must(t, f.Close())
	})
	m.checkEmpty()
}
