package replication

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/etcdkv/etcdfake"
)

// flooded is a log that a leader wrote as fast as it could: batches of a hundred objects put, and removed as others come.
func flooded(b *testing.B, objects int) (s shelf, took time.Duration) {
	b.Helper()
	etcd, err := etcdfake.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(etcd.Stop)
	m, err := OpenMember(MemberConfig{
		Endpoints: []string{etcd.Address()}, Cluster: "test", Address: "127.0.0.1:1", TTL: 60 * time.Second,
		Catalog: catalogConfig(), Log: zap.NewNop(), SnapshotBytes: 1 << 40,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	term, h, err := m.Lead(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- term.Run(ctx) }()
	w := &master{t: b, log: term, history: h, cat: h.Catalog, now: h.Time + 1, client: catalog.UUID{Hi: 1, Lo: 1}}
	w.cat.SetLog(term)
	term.OnDurable(w.cat.Settled)
	w.mount(1, 4<<30)
	w.mount(2, 4<<30)
	began := time.Now()
	fill(w, fmt.Sprintf("job-%x", 0x5eed), objects, 0)
	took = time.Since(began)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	w.cat.Close()
	return m.shelf, took
}

// BenchmarkLoadFromEtcd reads a log of so many objects.
func BenchmarkLoadFromEtcd(b *testing.B) {
	for _, objects := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			s, took := flooded(b, objects)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				h, err := s.load(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if n := h.Catalog.Stats().Keys; n != uint64(objects) {
					b.Fatalf("%d objects", n)
				}
				b.StopTimer()
				h.Catalog.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(objects)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
			b.ReportMetric(float64(objects)/took.Seconds(), "written/s")
		})
	}
}
