package interop

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestMetadataHTTP keeps the descriptors in the master's HTTP metadata server.
func TestMetadataHTTP(t *testing.T) {
	beside(t, waits)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{HTTPMetadata: true, ClientTTLSec: 3, Flags: []string{"--client_lost_ttl_sec=4"}})
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
	for _, release := range []Release{R13, R14} {
		t.Run("the name of a dead client of "+release.String(), func(t *testing.T) { nameOfDead(t, r, m, release) })
	}
}

// nameOfDead kills a client with an explicit name and starts it again. When nobody starts it again its keys go.
func nameOfDead(t *testing.T, r *Rig, m *Master, release Release) {
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	options := StoreOptions{Master: m.RPC, Metadata: m.MetadataURL, SegmentBytes: 16 * mib, Host: local(ports[0])}
	for round := range 2 {
		doomed := startStore(t, r, release, options)
		segments(t, m, 1)
		entry := "mooncake/ram/" + doomed.Hostname
		if status := metadataStatus(t, m, entry); status != 200 {
			t.Fatalf("GET of %s: status %d", entry, status)
		}
		i := Item{Key: key("%s/%d", release, round), Size: 1000, Seed: 1}
		put(t, doomed, i, nil)
		get(t, doomed, i)
		doomed.Client.Kill()
		if round == 0 {
			eventually(t, 60*time.Second, "the silence is noticed", func() bool {
				return metric(t, m, "mooncake_go_clients_suspected")+metric(t, m, "mooncake_go_clients_lost") > 0
			})
			continue
		}
		eventually(t, 60*time.Second, "the descriptor is gone", func() bool { return metadataStatus(t, m, entry) == 404 })
	}
}

// TestMetadataEtcd keeps the descriptors in etcd.
func TestMetadataEtcd(t *testing.T) {
	beside(t, works)
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
