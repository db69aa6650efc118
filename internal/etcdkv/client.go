package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooncake/internal/limits"
)

// Client talks to one etcd cluster.
type Client struct {
	etcd      *clientv3.Client
	endpoints string // for messages
	call      time.Duration
}

// Open makes a client for the endpoints. It does not wait for a connection: a cluster that is down shows at the first
// call, within that call's deadline.
func Open(endpoints []string) (*Client, error) {
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          limits.EtcdDialMs * time.Millisecond,
		DialKeepAliveTime:    limits.EtcdKeepaliveMs * time.Millisecond,
		DialKeepAliveTimeout: limits.EtcdDialMs * time.Millisecond,
		Logger:               zap.NewNop(),
	})
	names := strings.Join(endpoints, ",")
	if err != nil {
		return nil, fmt.Errorf("etcd %s: %w", names, err)
	}
	return &Client{etcd: etcd, endpoints: names, call: limits.EtcdCallMs * time.Millisecond}, nil
}

// Close ends the connections.
func (c *Client) Close() error { return c.etcd.Close() }

// Get returns the value of a key and whether the key exists.
func (c *Client) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	answer, err := c.etcd.Get(bounded, key)
	if err != nil {
		return nil, false, c.explain(ctx, "get", key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, false, nil
	}
	return answer.Kvs[0].Value, true, nil
}

// Put sets a key, whether it existed or not.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	if _, err := c.etcd.Put(bounded, key, string(value)); err != nil {
		return c.explain(ctx, "put", key, err)
	}
	return nil
}

// Delete removes a key and reports whether it existed.
func (c *Client) Delete(ctx context.Context, key string) (existed bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	answer, err := c.etcd.Delete(bounded, key)
	if err != nil {
		return false, c.explain(ctx, "delete", key, err)
	}
	return answer.Deleted > 0, nil
}

// explain says who did not answer, instead of the library's "context deadline exceeded" that names nobody.
func (c *Client) explain(ctx context.Context, what, key string, err error) error {
	silent := errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
	if silent && ctx.Err() == nil {
		return fmt.Errorf("etcd %s: no answer to %s of %q within %v: %w", c.endpoints, what, key, c.call, err)
	}
	return fmt.Errorf("etcd %s: %s of %q: %w", c.endpoints, what, key, err)
}
