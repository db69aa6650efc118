package interop

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mooncake/bundle"
	"mooncake/client"
)

// TestGoClient hands rollouts from published clients to the client in Go and back, through the same keys: what either writes the
// other reads, byte by byte. It counts the calls to the master that this takes.
func TestGoClient(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{V12Port: true})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 512 * mib})
	for _, release := range Releases {
		t.Run(release.String(), func(t *testing.T) {
			address := m.RPC
			if release == R12 {
				address = m.RPCv12
			}
			wheel := startStore(t, r, release, StoreOptions{Master: address, BufferBytes: 256 * mib})
			ours, err := client.New(client.Config{Masters: []string{m.GRPC}})
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			for _, rows := range []int{1, 256, 8192} {
				// Many rows keep a wheel busy for long, and many chunks of them for longer.
				large := rows > 1000
				if large && release != R13 && !*soak {
					continue
				}
				t.Run(fmt.Sprint(rows), func(t *testing.T) {
					exchange(t, m, wheel, ours, Bundle{Rows: rows, Seed: 7})
					if !large || *soak {
						exchange(t, m, wheel, ours, Bundle{Rows: rows, Seed: 8, Chunk: 64 << 10})
					}
				})
			}
			exchangeObjects(t, wheel, ours)
		})
	}
}

// exchange has the wheel write a rollout, reads it, makes every field anew from its rows, writes that, and has the wheel
// compare it with what it wrote.
func exchange(t *testing.T, m *Master, wheel *Store, ours *client.Client, b Bundle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultCallLimit)
	defer cancel()
	theirs := putBundle(t, wheel, b)
	h, err := bundle.ParseHandle(theirs)
	if err != nil {
		t.Fatal(err)
	}
	before := ours.Stats()
	began := time.Now()
	got, err := ours.GetRollout(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	read := time.Since(began)
	if s := ours.Stats(); s.MasterCalls-before.MasterCalls > 1+s.Retries-before.Retries {
		t.Errorf("a get took %d calls to the master, want 1", s.MasterCalls-before.MasterCalls)
	}
	if len(got.Fields) != 9 || got.Rows != b.Rows {
		t.Fatalf("%d fields of %d rows", len(got.Fields), got.Rows)
	}
	for i := range got.Fields {
		f := remade(t, &got.Fields[i])
		sameBytes(t, &f, &got.Fields[i])
		got.Fields[i] = f
	}
	cleanBundle(t, wheel, theirs)

	before = ours.Stats()
	began = time.Now()
	mine, err := ours.PutRollout(ctx, got, client.BundleOptions{ChunkBytes: b.Chunk})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows: read in %v, written in %v", b.Rows, read, time.Since(began))
	if s := ours.Stats(); s.MasterCalls-before.MasterCalls > 3+4*(s.Retries-before.Retries) {
		t.Errorf("a put took %d calls to the master, at most 3", s.MasterCalls-before.MasterCalls)
	}
	text, err := mine.Encode()
	if err != nil {
		t.Fatal(err)
	}
	getBundle(t, wheel, Handle(text), b)
	if err := ours.RemoveRollout(ctx, mine); err != nil {
		t.Error(err)
	}
	if left := keysOf(t, m, strings.TrimSuffix(Handle(text).ManifestKey(), "manifest")); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// remade makes a field from the rows of one.
func remade(t *testing.T, f *bundle.Field) bundle.Field {
	t.Helper()
	var out bundle.Field
	var err error
	switch f.Codec + " " + f.DType {
	case "typed_ragged int32":
		out, err = ragged[int32](f)
	case "typed_ragged float32":
		out, err = ragged[float32](f)
	case "ndarray int64":
		out, err = scalars[int64](f)
	case "ndarray float32":
		out, err = scalars[float32](f)
	case "msgpack_ragged ":
		var rows []any
		if rows, err = bundle.ReadValues(f); err == nil {
			out, err = bundle.Values(f.Name, rows)
		}
	default:
		t.Fatalf("field %s is %s of %q", f.Name, f.Codec, f.DType)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ragged[T bundle.Number](f *bundle.Field) (bundle.Field, error) {
	rows, err := bundle.ReadRagged[T](f)
	if err != nil {
		return bundle.Field{}, err
	}
	plain := make([][]T, len(rows))
	for i := range rows {
		plain[i] = rows[i].Elements
	}
	return bundle.Ragged(f.Name, plain), nil
}

func scalars[T bundle.Number](f *bundle.Field) (bundle.Field, error) {
	rows, _, err := bundle.ReadScalars[T](f)
	return bundle.Scalars(f.Name, rows), err
}

// sameBytes compares all that is stored of two fields.
func sameBytes(t *testing.T, got, want *bundle.Field) {
	t.Helper()
	if got.Codec != want.Codec || got.DType != want.DType || got.Rows != want.Rows || len(got.Members) != len(want.Members) {
		t.Errorf("field %s is %s of %s, %d members, %d rows; the wheel's is %s of %s, %d members, %d rows", got.Name, got.Codec, got.DType, len(got.Members), got.Rows,
			want.Codec, want.DType, len(want.Members), want.Rows)
		return
	}
	for i := range got.Members {
		g, w := &got.Members[i], &want.Members[i]
		if g.Part != w.Part || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("field %s: %s is %s of shape %d, %d bytes; the wheel's %s is %s of shape %d, %d bytes, and they differ", got.Name, g.Part, g.DType, g.Shape, len(g.Data),
				w.Part, w.DType, w.Shape, len(w.Data))
		}
	}
}

// exchangeObjects writes an object on each side and reads it on the other.
func exchangeObjects(t *testing.T, wheel *Store, ours *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultCallLimit)
	defer cancel()
	item := Item{Key: "from the wheel", Size: 9 << 20, Seed: 3}
	put(t, wheel, item, nil)
	data, err := ours.Get(ctx, string(item.Key))
	if err != nil || int64(len(data)) != item.Size {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	item.Key = "from Go"
	if err := ours.Put(ctx, string(item.Key), data, client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := wheel.Get(item); err != nil || !got.Same {
		t.Errorf("the wheel reads %+v, %v", got, err)
	}
	for _, key := range []string{"from the wheel", "from Go"} {
		if err := ours.Remove(ctx, key, true); err != nil {
			t.Error(err)
		}
	}
}
