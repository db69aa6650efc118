package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mooncake/internal/limits"
)

// Client reads and writes single keys of one etcd cluster.
type Client struct {
	cluster   *Cluster
	endpoints string // for messages
	call      time.Duration
}

// Open makes a client for the endpoints. It does not wait for a connection: a cluster that is down shows at the first
// call, within that call's deadline.
func Open(endpoints []string, access Access) (*Client, error) {
	cluster, err := OpenCluster(endpoints, access)
	if err != nil {
		return nil, err
	}
	return &Client{cluster: cluster, endpoints: strings.Join(endpoints, ","), call: limits.EtcdCallMs * time.Millisecond}, nil
}

// Close ends the connections.
func (c *Client) Close() error { return c.cluster.Close() }

// Get returns the value of a key and whether the key exists.
func (c *Client) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	kvs, _, _, err := c.cluster.Range(bounded, key, key+"\x00", Page{})
	if err != nil {
		return nil, false, c.explain(ctx, "get", key, err)
	}
	if len(kvs) == 0 {
		return nil, false, nil
	}
	return kvs[0].Value, true, nil
}

// Put sets a key, whether it existed or not.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	if _, err := c.cluster.Txn(bounded, nil, []Op{Put(key, value, 0)}, nil); err != nil {
		return c.explain(ctx, "put", key, err)
	}
	return nil
}

// Delete removes a key and reports whether it existed. After a call that had to be made at a second member it may say no
// of a key that it has removed itself.
func (c *Client) Delete(ctx context.Context, key string) (existed bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	out, err := c.cluster.Txn(bounded, nil, []Op{Get(key), Delete(key)}, nil)
	if err != nil {
		return false, c.explain(ctx, "delete", key, err)
	}
	return len(out.Got[0]) > 0, nil
}

// explain says who did not answer, instead of the library's "context deadline exceeded" that names nobody.
func (c *Client) explain(ctx context.Context, what, key string, err error) error {
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrDenied):
		return fmt.Errorf("%s of %q: %w", what, key, err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("etcd %s: no answer to %s of %q within %v", c.endpoints, what, key, c.call)
	}
	return fmt.Errorf("etcd %s: %s of %q: %w", c.endpoints, what, key, err)
}
