package interop

import (
	"context"
	"fmt"
	"testing"

	"mooncake/client"
)

// TestVerifiedManifests has the master look at manifests that lie with the segment daemon: a rollout of a published client stays
// as it is, and one whose manifest names an object that was never written is damaged. They are looked at in order, so the verdict
// on the second shows that the first had its own.
func TestVerifiedManifests(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 128 * mib})
	store := startStore(t, r, R13, StoreOptions{Master: m.RPC, BufferBytes: 128 * mib})
	ours, err := client.New(client.Config{Masters: []string{m.GRPC}})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultCallLimit)
	defer cancel()
	// Only a bundle that is published once the daemon has its stream is looked at, so this is tried until there is a verdict.
	n := 0
	eventually(t, startLimit, "a bundle whose manifest names what is not there to be damaged", func() bool {
		n++
		if n > 1 {
			if list, err := m.Bundles("?prefix=missing/&state=DAMAGED"); err != nil {
				t.Fatal(err)
			} else if len(list) > 0 {
				return true
			}
		}
		putBundle(t, store, Bundle{Rows: 16, Seed: n})
		id := fmt.Sprintf("missing/default/%032x", n)
		manifest := fmt.Sprintf(`{"version":1,"layout":"bundle","object_id":"default/%032x","meta":{"key":"%[2]s/meta","bytes":4,"chunks":[{"key":"%[2]s/meta","bytes":4}]},`+
			`"buffers":{"m":{"key":"%[2]s/buffer/m","bytes":4,"chunks":[{"key":"%[2]s/buffer/m","bytes":4}]}}}`, n, id)
		for _, object := range [][2]string{{"/meta", "meta"}, {"/manifest", manifest}} {
			if err := ours.Put(ctx, id+object[0], []byte(object[1]), client.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return false
	})
	list, err := m.Bundles("?prefix=miles-object-store/")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d rollouts, %v", len(list), err)
	}
	for _, b := range list {
		if b.State != "PUBLISHED" && b.State != "READING" {
			t.Errorf("the rollout %s is %s", b.ID, b.State)
		}
	}
}
