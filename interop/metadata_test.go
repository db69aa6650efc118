package interop

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestMetadataHTTP keeps the descriptors in the master's HTTP metadata server.
func TestMetadataHTTP(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{HTTPMetadata: true, ClientTTLSec: 3})
	s := startSegment(t, r, m, 1, SegmentOptions{Metadata: m.MetadataURL})
	key := "mooncake/ram/" + segments(t, m, 1)[0].Name
	if status := metadataStatus(t, m, key); status != 200 {
		t.Fatalf("GET of %s: status %d", key, status)
	}
	c := joinTraining(t, r, m, R13, R13, m.MetadataURL)
	runBundleCases(t, c)
	withOwnSegment(t, r, m, m.MetadataURL)
	leaves(t, m, s)
	if status := metadataStatus(t, m, key); status != 404 {
		t.Fatalf("GET of %s after the daemon has left: status %d", key, status)
	}
	t.Run("keys of a dead client go", func(t *testing.T) {
		doomed := startStore(t, r, R13, StoreOptions{Master: m.RPC, Metadata: m.MetadataURL, SegmentBytes: 16 * mib})
		segments(t, m, 1)
		key := "mooncake/ram/" + doomed.Hostname
		if status := metadataStatus(t, m, key); status != 200 {
			t.Fatalf("GET of %s: status %d", key, status)
		}
		doomed.Client.Kill()
		eventually(t, 20*time.Second, "the descriptor is gone", func() bool { return metadataStatus(t, m, key) == 404 })
	})
}

// TestMetadataEtcd keeps the descriptors in etcd.
func TestMetadataEtcd(t *testing.T) {
	r := newRig(t)
	etcd, err := r.StartEtcd()
	if err != nil {
		t.Fatal(err)
	}
	m := startMaster(t, r, MasterOptions{})
	s := startSegment(t, r, m, 1, SegmentOptions{Metadata: "etcd://" + etcd})
	runBundleCases(t, joinTraining(t, r, m, R13, R13, "etcd://"+etcd))
	withOwnSegment(t, r, m, "etcd://"+etcd)
	leaves(t, m, s)
}

// withOwnSegment reads across: the daemon's memory and a client's own in one cluster.
func withOwnSegment(t *testing.T, r *Rig, m *Master, metadata string) {
	t.Helper()
	own := startStore(t, r, R13, StoreOptions{Master: m.RPC, Metadata: metadata, SegmentBytes: 64 * mib})
	reader := startStore(t, r, R13, StoreOptions{Master: m.RPC, Metadata: metadata})
	for _, seg := range segments(t, m, 2) {
		i := Item{Key: Key("on " + seg.Name), Size: mib + 1, Seed: 1}
		put(t, reader, i, Config{"preferred_segment": seg.Name})
		if at := replicas(t, own, i.Key); len(at) != 1 || at[0].Endpoint != seg.Endpoint {
			t.Fatalf("%q lies at %+v", i.Key, at)
		}
		get(t, own, i)
		get(t, reader, i)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	segments(t, m, 1)
}

func metadataStatus(t *testing.T, m *Master, key string) int {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(m.MetadataURL, "http://"), "/metadata")
	status, _, err := HTTPGet(host, "/metadata?key="+url.QueryEscape(key))
	if err != nil {
		t.Fatal(err)
	}
	return status
}
