package replication

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// fill puts small objects in batches of a hundred, each batch of starts and of ends one record, and large ones one by one.
func fill(m *master, prefix string, small, large int) {
	put := func(size uint64, keys ...string) {
		for _, key := range keys {
			if _, err := m.cat.PutStart(m.now, m.client, key, size, &catalog.PutOptions{Replicas: 1}, nil); err != nil {
				m.t.Fatal(err)
			}
		}
		m.settle()
		for _, key := range keys {
			if err := m.cat.PutEnd(m.now, m.client, key, 0, false, catalog.ReplicaTypeAll); err != nil {
				m.t.Fatal(err)
			}
		}
		m.settle()
		m.now += 5
	}
	keys := make([]string, 100)
	for from := 0; from < small; from += len(keys) {
		for i := range keys {
			keys[i] = fmt.Sprintf("%s/small/%d", prefix, from+i)
		}
		put(4096, keys...)
	}
	for i := range large {
		put(16<<20, fmt.Sprintf("%s/large/%d", prefix, i))
	}
}

// BenchmarkOpen takes up what a master leaves behind that was killed: files of the real size, most of which is zeros.
func BenchmarkOpen(b *testing.B) {
	for _, objects := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			dir := b.TempDir()
			cfg := Config{Dir: dir, FileBytes: limits.LogFileBytes, Sync: SyncNever, Log: zap.NewNop()}
			m := open(b, cfg)
			m.mount(1, 4<<30)
			m.mount(2, 4<<30)
			fill(m, "before", objects, objects/500)
			files, err := filepath.Glob(filepath.Join(dir, journalPrefix+"*"))
			if err != nil || len(files) == 0 {
				b.Fatal(files, err)
			}
			copies := b.TempDir()
			for i := range b.N {
				one := filepath.Join(copies, fmt.Sprint(i))
				if err := os.Mkdir(one, 0o700); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				one := filepath.Join(copies, fmt.Sprint(i))
				for _, f := range files {
					text, err := os.ReadFile(f)
					if err != nil {
						b.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(one, filepath.Base(f)), text, 0o600); err != nil {
						b.Fatal(err)
					}
				}
				own := cfg
				own.Dir, own.Catalog = one, catalogConfig()
				b.StartTimer()
				j, h, err := Open(own)
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				if n := h.Catalog.Stats().Keys; n != uint64(objects+objects/500) {
					b.Fatalf("%d objects", n)
				}
				if err := j.Close(); err != nil {
					b.Fatal(err)
				}
				h.Catalog.Close()
				if err := os.RemoveAll(one); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
