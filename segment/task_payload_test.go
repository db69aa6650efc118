package segment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooncake/wire"
)

const probeText = `{"tenant_id":"default","key":"k","source":"","targets":[],"dynamic_replication_lease_id_high":1,"dynamic_replication_lease_id_low":2,"dynamic_replication_version_epoch":3}`

func TestParseCopy(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want copyPayload
	}{
		"12": {
			`{"key":"k","source":"a:1","targets":["b:1","c:1"],"tenant_id":"t"}`,
			copyPayload{TenantID: "t", Key: "k", Source: "a:1", Targets: []string{"b:1", "c:1"}},
		},
		"13 asks": {probeText, copyPayload{TenantID: "default", Key: "k", Targets: []string{}, LeaseHigh: 1, LeaseLow: 2, VersionEpoch: 3}},
		"large numbers": {
			`{"key":"k","dynamic_replication_lease_id_high":18446744073709551615,"new_in_15":{}}`,
			copyPayload{Key: "k", LeaseHigh: 1<<64 - 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseCopy(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParsePayloadRefuses(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", "[]", `{"key":`, `{"key":7}`, `{"key":"k","targets":"b"}`, `{"key":"k","dynamic_replication_version_epoch":-1}`,
		`{"key":"k","targets":[` + strings.Repeat(`"t",`, 2000) + `"t"]}`, `{"key":"` + strings.Repeat("k", 2<<20) + `"}`,
	} {
		if p, err := parseCopy(text); err == nil {
			t.Errorf("%.40q became %+v", text, p)
		}
	}
	for _, text := range []string{"", "{}", `{"key":"k","target":7}`} {
		if p, err := parseMove(text); err == nil {
			t.Errorf("%.40q became %+v", text, p)
		}
	}
}

func FuzzParseTask(f *testing.F) {
	f.Add(probeText)
	f.Add(`{"key":"k","source":"a:1","targets":["b:1"],"tenant_id":"t"}`)
	f.Add(`{"key":"k","source":"a:1","target":"b:1","tenant_id":"t"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseCopy(text); err == nil && p.Key == "" {
			t.Fatal("a copy without a key")
		}
		if p, err := parseMove(text); err == nil && p.Key == "" {
			t.Fatal("a move without a key")
		}
	})
}

func TestOwnBytes(t *testing.T) {
	const base, size = 1 << 44, 1 << 16
	mem := make([]byte, size)
	d := &Daemon{state: &State{Endpoint: "127.0.0.1:18000", Base: base, Size: size}}
	d.extents.add(&extent{state: d.state, arena: &Arena{mapped: mem, size: size}})
	for name, c := range map[string]struct {
		b  wire.BufferDescriptor
		ok bool
	}{
		"all":          {wire.BufferDescriptor{BufferAddress: base, Size: size}, true},
		"last byte":    {wire.BufferDescriptor{BufferAddress: base + size - 1, Size: 1}, true},
		"one too many": {wire.BufferDescriptor{BufferAddress: base + size - 1, Size: 2}, false},
		"below":        {wire.BufferDescriptor{BufferAddress: base - 1, Size: 1}, false},
		"above":        {wire.BufferDescriptor{BufferAddress: base + size, Size: 1}, false},
		"wraps":        {wire.BufferDescriptor{BufferAddress: base + 1, Size: 1<<64 - base}, false},
		"huge":         {wire.BufferDescriptor{BufferAddress: base, Size: 1<<64 - 1}, false},
		"elsewhere":    {wire.BufferDescriptor{BufferAddress: base, Size: 1, TransportEndpoint: "127.0.0.1:18001"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.b.TransportEndpoint == "" {
				c.b.TransportEndpoint = d.state.Endpoint
			}
			got, done, err := d.ownBytes(&c.b)
			if err == nil {
				done()
			}
			if (err == nil) != c.ok || (err == nil && uint64(len(got)) != c.b.Size) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
