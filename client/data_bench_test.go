package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mooncake/bundle"
)

// used is the processor time that this process has taken. On a machine with other work it tells more than a clock.
func used(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs something again and again, and reports the processor time of everything in this process: client, master and
// segment daemon.
func measured(b *testing.B, bytes int, do func() error) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	began := used(b)
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((used(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
}

func BenchmarkObjects(b *testing.B) {
	p := newPool(b, 2)
	c, ctx := p.client(Config{}), context.Background()
	for _, size := range []int{64 * kib, mib, 4 * mib, 16 * mib} {
		key, data, memory := fmt.Sprint(size), randomBytes(1, size), make([]byte, size)
		if err := c.Put(ctx, key, data, PutOptions{}); err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("%dKiB", size/kib)
		b.Run("Get/"+name, func(b *testing.B) {
			measured(b, size, func() error { _, err := c.Get(ctx, key); return err })
		})
		b.Run("GetInto/"+name, func(b *testing.B) {
			measured(b, size, func() error { _, err := c.GetInto(ctx, key, memory); return err })
		})
		b.Run("Put/"+name, func(b *testing.B) {
			measured(b, size, func() error { return c.Put(ctx, key, data, PutOptions{Upsert: true}) })
		})
	}
}

// BenchmarkGetRollout reads rollouts into rows.
func BenchmarkGetRollout(b *testing.B) {
	p := newPool(b, 2)
	c, ctx := p.client(Config{}), context.Background()
	for _, samples := range []int{16, 512, 8192} {
		r := miles(b, samples)
		h, err := c.PutRollout(ctx, r, BundleOptions{})
		if err != nil {
			b.Fatal(err)
		}
		bytes := 0
		for i := range r.Fields {
			for _, m := range r.Fields[i].Members {
				bytes += len(m.Data)
			}
		}
		b.Run(fmt.Sprint(samples), func(b *testing.B) {
			measured(b, bytes, func() error {
				got, err := c.GetRollout(ctx, h)
				if err != nil {
					return err
				}
				for i := range got.Fields {
					if err := readRows(&got.Fields[i]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func readRows(f *bundle.Field) (err error) {
	switch f.Codec + " " + f.DType {
	case "typed_ragged int32":
		_, err = bundle.ReadRagged[int32](f)
	case "typed_ragged float32":
		_, err = bundle.ReadRagged[float32](f)
	case "ndarray int64":
		_, _, err = bundle.ReadScalars[int64](f)
	case "ndarray float32":
		_, _, err = bundle.ReadScalars[float32](f)
	case "msgpack_ragged ":
		_, err = bundle.ReadValues(f)
	default:
		err = fmt.Errorf("field %s is %s of %s", f.Name, f.Codec, f.DType)
	}
	return err
}
