package client

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"mooncake/bundle"
)

// roughRoad passes connections on and resets each after so many messages from the client.
type roughRoad struct {
	every  int64
	resets atomic.Int64
}

func (r *roughRoad) serve(ctx context.Context, ln net.Listener, to string) error {
	var group sync.WaitGroup
	defer group.Wait()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		in, err := ln.Accept()
		if err != nil {
			return nil // the end of the test
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		end := sync.OnceFunc(func() {
			_ = in.(*net.TCPConn).SetLinger(0)
			_ = in.Close()
			_ = out.Close()
		})
		group.Go(func() {
			defer context.AfterFunc(ctx, end)()
			defer end()
			_, _ = io.Copy(in, out) // ends with the connection
		})
		group.Go(func() {
			defer end()
			buffer := make([]byte, 64<<10)
			for n := int64(1); ; n++ {
				k, err := in.Read(buffer)
				if err != nil {
					return
				}
				if n == r.every {
					break // this one is lost
				}
				if _, err := out.Write(buffer[:k]); err != nil {
					return
				}
			}
			r.resets.Add(1)
		})
	}
}

// TestRoughRoad reads a thousand times over a road on which connections to the master are reset again and again: nothing but
// whole objects arrives, and no error.
func TestRoughRoad(t *testing.T) {
	p := newPool(t, 1)
	ctx := soon(t)
	if err := p.client(Config{}).Put(ctx, "k", []byte("all of it"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	road := &roughRoad{every: 6}
	run(t, "the road", func(ctx context.Context) error { return road.serve(ctx, ln, p.grpc) })
	c := p.client(Config{Masters: []string{ln.Addr().String()}})
	for n := range 1000 {
		if got, err := c.Get(ctx, "k"); err != nil || string(got) != "all of it" {
			t.Fatalf("get %d: %q %v", n, got, err)
		}
	}
	if retries := c.Stats().Retries; retries < 100 {
		t.Errorf("the road was too smooth: %d resets, %d retries", road.resets.Load(), retries)
	}
	t.Logf("%d resets, %d retries", road.resets.Load(), c.Stats().Retries)
}

// TestMergedBundle reads a bundle whose manifest names members of another, as an append makes it.
func TestMergedBundle(t *testing.T) {
	p := newPool(t, 1)
	c, ctx := p.client(Config{}), soon(t)
	r := miles(t, 5)
	h, err := c.PutRollout(ctx, r, BundleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.OpenBundle(ctx, h.Stages["default"].ManifestKey)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := r.Meta()
	if err != nil {
		t.Fatal(err)
	}
	id := "default/" + "00000000000000000000000000000001"
	base := MilesPrefix + "/" + id + "/"
	merged := bundle.Listing{
		ObjectID: id, Members: first.Members, BufferIDs: []string{first.ObjectID, id},
		Meta: bundle.Payload{Key: base + "meta", Bytes: uint64(len(meta)), Chunks: []bundle.Chunk{{Key: base + "meta", Bytes: uint64(len(meta))}}},
	}
	text, err := merged.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.PutBatch(ctx, []Item{{base + "meta", meta}, {base + "manifest", text}}, PutOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Stages["default"] = bundle.StageRef{ManifestKey: base + "manifest"}
	before := c.Stats()
	got, err := c.GetRollout(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	sameFields(t, got.Fields, r.Fields)
	if s := c.Stats(); s.MasterCalls-before.MasterCalls > 2+2*(s.Retries-before.Retries) {
		t.Errorf("%d calls to the master, at most 2", s.MasterCalls-before.MasterCalls)
	}
	// A chunk that the manifest names and that is gone is an error, not a hole.
	if err := c.Remove(ctx, first.Members[0].Chunks[0].Key, true); err != nil {
		t.Fatal(err)
	}
	if got, err := c.GetRollout(ctx, h); err == nil {
		t.Errorf("a hole was read: %d fields", len(got.Fields))
	}
}
