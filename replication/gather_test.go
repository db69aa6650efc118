package replication

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdsim"
)

// TestWritersMeet lets half of the writers begin while a record of the other half is under way: soon all of them share records,
// and do not take turns.
func TestWritersMeet(t *testing.T) {
	const writers, each = 16, 40
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		etcd := etcdsim.NewStore()
		var all sync.WaitGroup
		all.Go(func() { etcd.Run(ctx) })
		began, link := time.Now(), etcd.Link(1)
		m, err := OpenMember(MemberConfig{
			Cluster: "test", Address: "a:1", TTL: 3 * time.Second, Catalog: catalogConfig(), Log: zap.NewNop(),
			Store: link, Boot: func() int64 { return int64(time.Since(began)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = m.Follow(ctx) }) // it ends without an error
		term, h, err := m.Lead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		link.Slow(4*time.Millisecond, 0)
		ended := make(chan error, 1)
		leading, leave := context.WithCancel(ctx)
		go func() { ended <- term.Run(leading) }()
		var writing sync.WaitGroup
		for i := range writers {
			writing.Go(func() {
				<-time.After(time.Duration(i%2) * time.Millisecond) // of the bubble
				for n := range each {
					if err := term.Wait(ctx, term.AppendName(NameChange{Name: fmt.Sprint(i), Value: fmt.Append(nil, n)})); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		if n := term.Stats().Records; n > each*3/2 {
			t.Errorf("%d records for %d writes of each of %d writers", n, each, writers)
		}
		leave()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		m.Ended(term)
		h.Catalog.Close()
		cancel()
		all.Wait()
	})
}
