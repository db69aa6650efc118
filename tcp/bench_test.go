package tcp

import (
	"context"
	"fmt"
	"testing"
)

// Put and get of the sizes that matter, over the loopback interface, one request at a time. Both ends are in this
// process, so the time is that of both.
func BenchmarkTransfer(b *testing.B) {
	for _, io := range []string{IORaw, IOStd} {
		o := DefaultOptions()
		o.IO = io
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 64 << 20} {
			for _, write := range []bool{true, false} {
				name := "get"
				if write {
					name = "put"
				}
				b.Run(fmt.Sprintf("%s/%s/%dKiB", io, name, size>>10), func(b *testing.B) { benchTransfer(b, o, size, write) })
			}
		}
	}
}

func benchTransfer(b *testing.B, o Options, size int, write bool) {
	h := startHolder(b, ServerConfig{Options: o}, pattern(size, 1))
	dialer := startDialer(b, DialerConfig{Options: o})
	body := pattern(size, 2)
	ctx := context.Background()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if write {
			err = dialer.Write(ctx, h.target, testBase, body)
		} else {
			err = dialer.Read(ctx, h.target, testBase, body)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
