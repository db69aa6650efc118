package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkReaders has one reader, and eight, of objects of 16 MiB on one segment. The bytes per second are those of all.
func BenchmarkReaders(b *testing.B) {
	p := newPool(b, 1)
	ctx := context.Background()
	const size = 16 * mib
	if err := p.client(Config{}).Put(ctx, "k", randomBytes(1, size), PutOptions{}); err != nil {
		b.Fatal(err)
	}
	for _, readers := range []int{1, 8} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			clients := make([]*Client, readers)
			memory := make([][]byte, readers)
			for i := range clients {
				clients[i], memory[i] = p.client(Config{}), make([]byte, size)
			}
			measured(b, readers*size, func() error {
				errs := make([]error, readers)
				var group sync.WaitGroup
				for i, c := range clients {
					group.Go(func() { _, errs[i] = c.GetInto(ctx, "k", memory[i]) })
				}
				group.Wait()
				for _, err := range errs {
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
