package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/master"
)

// BenchmarkPutRollout writes rollouts to a master without a log, with a journal, and with a log in an etcd whose
// transactions take 1.8 ms, as those of three members on disks do. The median counts: other work disturbs the mean.
func BenchmarkPutRollout(b *testing.B) {
	etcd, err := etcdfake.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(etcd.Stop)
	for _, samples := range []int{16, 512, 2048} {
		for _, log := range []string{"none", "journal", "etcd"} {
			b.Run(fmt.Sprintf("%d/%s", samples, log), func(b *testing.B) {
				p := newPool(b, 1, func(cfg *master.Config) {
					switch log {
					case "journal":
						cfg.DataDir = b.TempDir()
					case "etcd":
						cfg.HA, cfg.HAConnString, cfg.ClusterID, cfg.LeaderTTL = true, etcd.Address(), b.Name(), time.Minute
					}
				})
				c, r := p.client(Config{}), miles(b, samples)
				etcd.Delay(1800 * time.Microsecond)
				defer etcd.Delay(0)
				took := make([]time.Duration, 0, b.N)
				b.ResetTimer()
				for range b.N {
					began := time.Now()
					h, err := c.PutRollout(context.Background(), r, BundleOptions{})
					if took = append(took, time.Since(began)); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := c.RemoveRollout(context.Background(), h); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-us")
			})
		}
	}
}
