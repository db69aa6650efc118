package etcdkv

import (
	"errors"
	"testing"
)

// TestFull fills etcd: it says how full it is, refuses what needs room, and lets deletions through.
func TestFull(t *testing.T) {
	fake := startFake(t)
	c, ctx := openCluster(t, fake.Address()), t.Context()
	if _, err := c.Txn(ctx, nil, []Op{Put("k", []byte("v"), 0)}, nil); err != nil {
		t.Fatal(err)
	}
	fake.Fill(300, 100, 1000)
	if size, err := c.Size(ctx); err != nil || size != (Size{Bytes: 300, InUse: 100, Quota: 1000}) {
		t.Errorf("%+v, %v", size, err)
	}
	fake.Full(true)
	if size, err := c.Size(ctx); err != nil || !size.Full {
		t.Errorf("%+v, %v", size, err)
	}
	if _, err := c.Txn(ctx, nil, []Op{Put("other", []byte("v"), 0)}, nil); !errors.Is(err, ErrFull) {
		t.Errorf("a put: %v", err)
	}
	if out, err := c.Txn(ctx, nil, []Op{Delete("k")}, nil); err != nil || !out.Done {
		t.Errorf("a deletion: %v", err)
	}
	fake.Full(false)
	if _, err := c.Txn(ctx, nil, []Op{Put("other", []byte("v"), 0)}, nil); err != nil {
		t.Errorf("a put after it was disarmed: %v", err)
	}
}
