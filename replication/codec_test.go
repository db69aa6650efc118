package replication

import (
	"bytes"
	"hash/crc32"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"mooncake/catalog"
)

func drawID(t *rapid.T) catalog.UUID {
	return catalog.UUID{Hi: rapid.Uint64Range(0, 5).Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo") % 30}
}

func drawChange(t *rapid.T) catalog.Change {
	text, number, small := rapid.StringN(0, 20, 60), rapid.Uint64(), rapid.Uint8()
	at := rapid.Map(rapid.Int64(), func(v int64) catalog.Time { return catalog.Time(v) })
	c := catalog.Change{
		Kind: catalog.ChangeKind(small.Draw(t, "kind")), Cause: catalog.Cause(small.Draw(t, "cause")), DataType: small.Draw(t, "type"),
		SoftPin: small.Draw(t, "pin"), HardPin: rapid.Bool().Draw(t, "hard"), Staged: rapid.Bool().Draw(t, "staged"),
		HasChecksum: rapid.Bool().Draw(t, "sum"), KeepChecksum: rapid.Bool().Draw(t, "keep"),
		Time: at.Draw(t, "time"), Until: at.Draw(t, "until"), HandedOut: at.Draw(t, "handed"), PinnedUntil: at.Draw(t, "pinned"),
		SoftPinTTLMs: rapid.Int64().Draw(t, "ttl"), Client: drawID(t), Key: text.Draw(t, "key"), Group: text.Draw(t, "group"),
		Size: number.Draw(t, "size"), Checksum: number.Draw(t, "checksum"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "replicas") {
		c.Replicas = append(c.Replicas, catalog.ReplicaChange{ID: number.Draw(t, "id"), Segment: drawID(t), Offset: number.Draw(t, "offset"), Size: number.Draw(t, "bytes")})
	}
	c.Tenant, c.Wanted = text.Draw(t, "tenant"), small.Draw(t, "wanted")
	c.Below = number.Draw(t, "below")
	c.Sum, c.HasSum = rapid.Uint32().Draw(t, "crc"), rapid.Bool().Draw(t, "has crc")
	for range rapid.IntRange(0, 2).Draw(t, "workloads") {
		c.Workloads = append(c.Workloads, catalog.Workload{
			Name: text.Draw(t, "rule"), Prefixes: []string{text.Draw(t, "prefix")}, SoftBytes: number.Draw(t, "soft"),
			Evict: catalog.EvictKind(small.Draw(t, "evict")), TTLMs: rapid.Int64().Draw(t, "life"), Priority: rapid.Int().Draw(t, "priority"),
		})
	}
	if rapid.Bool().Draw(t, "bundle") {
		c.Bundle = &catalog.BundleChange{
			Created: at.Draw(t, "created"), LastWrite: at.Draw(t, "written"), Published: at.Draw(t, "published"), Touched: at.Draw(t, "touched"),
			Reads: rapid.Uint32().Draw(t, "reads"), Lost: rapid.Uint32().Draw(t, "lost"), Facts: small.Draw(t, "facts"), Copies: small.Draw(t, "copies"),
		}
	}
	if rapid.Bool().Draw(t, "segment") {
		c.Segment = &catalog.Segment{
			ID: drawID(t), Name: text.Draw(t, "name"), Base: number.Draw(t, "base"), Size: number.Draw(t, "length"),
			Endpoint: text.Draw(t, "endpoint"), Protocol: text.Draw(t, "protocol"), HostID: text.Draw(t, "host"), Locality: text.Draw(t, "locality"),
		}
	}
	return c
}

// TestRecordsComeBack writes random records and reads them.
func TestRecordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := rapid.SliceOfN(rapid.Custom(drawChange), 0, 20).Draw(t, "changes")
		names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) NameChange {
			n := NameChange{Name: rapid.String().Draw(t, "name"), Removed: rapid.Bool().Draw(t, "removed")}
			if !n.Removed {
				n.Value = rapid.SliceOf(rapid.Byte()).Draw(t, "value")
			}
			return n
		}), 0, 3).Draw(t, "names")
		b := new(batch)
		b.start(9, 7, []Grant{{drawID(t), 5, 6}})
		b.addChanges(changes)
		for i := range names {
			b.addName(&names[i])
		}
		record := b.seal(77)
		h, payload, ok := recordAt(record, 0, 77)
		if !ok || len(record) != padded(h.length) {
			t.Fatalf("not read back: %+v", h)
		}
		if _, _, ok := recordAt(record, 0, 78); ok {
			t.Fatal("read as another journal's")
		}
		e, err := parsePayload(&h, payload)
		if err != nil {
			t.Fatal(err)
		}
		if e.Number != 9 || e.Since != 7 || len(e.Before) != 1 {
			t.Fatalf("%+v", e)
		}
		for i := range names {
			if len(names[i].Value) == 0 {
				names[i].Value = nil
			}
		}
		if len(e.Changes) != len(changes) || len(changes) > 0 && !reflect.DeepEqual(e.Changes, changes) || len(names) > 0 && !reflect.DeepEqual(e.Names, names) {
			t.Fatalf("\n got %+v %+v\nwant %+v %+v", e.Changes, e.Names, changes, names)
		}
	})
}

// TestEveryFieldIsKept sets each field of a Change alone: a field that the codec forgets shows here.
func TestEveryFieldIsKept(t *testing.T) {
	typ := reflect.TypeFor[catalog.Change]()
	for i := range typ.NumField() {
		var c catalog.Change
		switch f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("text")
		case reflect.Int64:
			f.SetInt(7)
		case reflect.Uint8, reflect.Uint32, reflect.Uint64:
			f.SetUint(7)
		case reflect.Slice:
			if typ.Field(i).Name == "Workloads" {
				c.Workloads = []catalog.Workload{{Name: "n", Prefixes: []string{"p"}, Tenants: []string{"t"}, SoftBytes: 1, HardBytes: 2, ReservedBytes: 3, Evict: 1, Unread: 1, TTLMs: 4, Priority: -5}}
				break
			}
			c.Replicas = []catalog.ReplicaChange{{ID: 1, Segment: catalog.UUID{Hi: 2, Lo: 3}, Offset: 4, Size: 5}}
		case reflect.Pointer:
			if typ.Field(i).Name == "Bundle" {
				c.Bundle = &catalog.BundleChange{Created: 1, LastWrite: 2, Published: 3, Touched: 4, Reads: 5, Lost: 6, Facts: 7, Copies: 8}
				break
			}
			c.Segment = &catalog.Segment{ID: catalog.UUID{Hi: 1, Lo: 2}, Name: "n", Base: 3, Size: 4, Endpoint: "e", Protocol: "p", HostID: "h", Locality: "l"}
		case reflect.Struct:
			c.Client = catalog.UUID{Hi: 1, Lo: 2}
		default:
			t.Fatalf("field %s of kind %v", typ.Field(i).Name, f.Kind())
		}
		var recent recentIDs
		r := reader{in: appendChange(nil, &recent, 0, &c)}
		if got := r.change(0); r.err != nil || !reflect.DeepEqual(got, c) || len(r.in) > 0 {
			t.Errorf("%s: %v\n got %+v\nwant %+v", typ.Field(i).Name, r.err, got, c)
		}
	}
}

// FuzzPayload reads anything: it ends with an error or with an entry that can be written again to the same content.
func FuzzPayload(f *testing.F) {
	b := new(batch)
	b.start(2, 1, []Grant{{catalog.UUID{Hi: 1, Lo: 2}, 3, 4}})
	b.addChanges([]catalog.Change{
		{Kind: catalog.ChangeMount, Segment: &catalog.Segment{Name: "n"}},
		{Kind: catalog.ChangePut, Key: "k", Size: 9, Replicas: []catalog.ReplicaChange{{ID: 1, Size: 9}}},
	})
	b.addName(&NameChange{Name: "a", Value: []byte("b")})
	f.Add(append([]byte(nil), b.seal(1)[headerBytes:]...), uint32(2))
	f.Add([]byte{partGrants, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint32(0))
	f.Add([]byte{partChange, 3, 0xff, 0xff, 3}, uint32(1))
	f.Fuzz(func(t *testing.T, payload []byte, changes uint32) {
		h := header{number: 2, changes: changes}
		e, err := parsePayload(&h, payload)
		if err != nil {
			return
		}
		b := new(batch)
		b.start(e.Number, e.Since, e.Before)
		b.addChanges(e.Changes)
		for i := range e.Names {
			b.addName(&e.Names[i])
		}
		again := b.buf[headerBytes:]
		h.base = b.base
		back, err := parsePayload(&h, again)
		if err != nil || len(back.Changes) != len(e.Changes) || len(back.Names) != len(e.Names) {
			t.Fatalf("%v: %d changes of %d", err, len(back.Changes), len(e.Changes))
		}
	})
}

// FuzzScan reads any file: nothing is passed on whose checksums are wrong.
func FuzzScan(f *testing.F) {
	h := fileHeader{kindJournal, 5, 1}
	b := new(batch)
	b.start(1, 1, nil)
	b.addName(&NameChange{Name: "a", Value: []byte("b")})
	f.Add(append(h.append(nil), b.seal(5)...))
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := scan("f", text, 5, func(h *header, payload []byte) error {
			if crc32.Checksum(payload, castagnoli) != h.sum {
				t.Fatal("a payload with a wrong checksum")
			}
			return nil
		})
		if err != nil || s.end > int64(max(len(text), fileHeaderBytes))+recordAlign {
			t.Fatalf("%+v: %v", s, err)
		}
	})
}
