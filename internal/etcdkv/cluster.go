package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooncake/internal/limits"
)

// Cluster talks to the members of one etcd cluster, with one connection to each. A call that a member does not answer
// soon is made again on the next, beside the first, and the silent one is left aside for a while. So a call may take effect
// more than once, or after its answer or error: callers use conditions.
type Cluster struct {
	members []*member
	first   atomic.Pointer[member] // leads etcd, as far as is known; nil: nobody in particular
	call    time.Duration
	hedge   time.Duration
	aside   time.Duration
}

type member struct {
	address   string
	etcd      *clientv3.Client
	identity  *identity // nil: nobody in particular
	transport transport
	until     atomic.Int64 // left aside until then, in Unix nanoseconds
	id        atomic.Uint64
}

// ErrCompacted says that a watch begins, or a read asks, before what etcd still has.
var ErrCompacted = errors.New("etcd has compacted the revision")

// OpenCluster makes a client for the endpoints. It does not wait for connections.
func OpenCluster(endpoints []string, access Access) (*Cluster, error) {
	config, password, err := access.load()
	if err != nil {
		return nil, err
	}
	c := &Cluster{call: limits.EtcdTryMs * time.Millisecond, hedge: limits.EtcdHedgeMs * time.Millisecond, aside: limits.EtcdAsideMs * time.Millisecond}
	for _, address := range endpoints {
		m := &member{address: address, transport: newTransport(config)}
		opts := []grpc.DialOption{grpc.WithTransportCredentials(m.transport)}
		if access.User != "" {
			m.identity = &identity{user: access.User, password: password}
			opts = append(opts, grpc.WithPerRPCCredentials(m.identity))
		}
		m.etcd, err = clientv3.New(clientv3.Config{
			Endpoints:            []string{address},
			DialTimeout:          limits.EtcdDialMs * time.Millisecond,
			DialKeepAliveTime:    limits.EtcdKeepaliveMs * time.Millisecond,
			DialKeepAliveTimeout: limits.EtcdDialMs * time.Millisecond,
			MaxUnaryRetries:      1, // the next member is the retry
			Logger:               zap.NewNop(),
			DialOptions:          opts,
		})
		if err != nil {
			_ = c.Close() // the error that led here is the one that counts
			return nil, fmt.Errorf("etcd %s: %w", address, err)
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

// Prove asks for a key and returns what makes etcd unusable and does not pass by waiting: ErrRefused or ErrDenied. Members
// that are merely away prove nothing.
func (c *Cluster) Prove(ctx context.Context, key string) error {
	_, _, _, err := c.Range(ctx, key, key+"\x00", Page{KeysOnly: true})
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrDenied) {
		return err
	}
	return nil
}

// Close ends the connections.
func (c *Cluster) Close() error {
	var err error
	for _, m := range c.members {
		err = errors.Join(err, m.etcd.Close())
	}
	return err
}

// inOrder gives the members that answered last, the one that leads etcd before the others, and then those that are left
// aside, the longest silent first.
func (c *Cluster) inOrder() []*member {
	now, first := time.Now().UnixNano(), c.first.Load()
	order := slices.Clone(c.members)
	slices.SortStableFunc(order, func(a, b *member) int {
		x, y := max(a.until.Load()-now, 0), max(b.until.Load()-now, 0)
		switch {
		case x < y, x == y && a == first && b != first:
			return -1
		case x > y, x == y && b == first && a != first:
			return 1
		}
		return 0
	})
	return order
}

// elsewhere tells whether another member may answer what one did not.
func elsewhere(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.Is(err, ErrNoLease) || errors.Is(err, ErrRefused) {
		return false
	}
	if errors.As(err, &known) {
		code = known.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

// A Condition holds when a key has a create revision; 0 means that there is no such key.
type Condition struct {
	Key     string
	Created int64
}

// Op is a step of a transaction. The zero value is useless; Put, Delete, Get and their kin make one.
type Op struct {
	Kind  OpKind
	Key   string
	To    string // of a range: the first key that is not in it; empty: the one key
	Value []byte
	Lease int64 // of OpPut; 0: none
	Limit int64 // of OpGet: keys; 0 = all
}

// OpKind is what a step does.
type OpKind uint8

// The kinds of steps.
const (
	OpPut OpKind = iota + 1
	OpDelete
	OpGet
)

// Put sets a key. A lease other than 0 ends the key with the lease.
func Put(key string, value []byte, lease int64) Op {
	return Op{Kind: OpPut, Key: key, Value: value, Lease: lease}
}

// Delete removes a key.
func Delete(key string) Op { return Op{Kind: OpDelete, Key: key} }

// DeleteRange removes the keys from one up to, and without, another.
func DeleteRange(from, to string) Op { return Op{Kind: OpDelete, Key: from, To: to} }

// Get reads a key.
func Get(key string) Op { return Op{Kind: OpGet, Key: key} }

// GetRange reads the keys from one up to, and without, another, but no more than limit.
func GetRange(from, to string, limit int64) Op {
	return Op{Kind: OpGet, Key: from, To: to, Limit: limit}
}

// native is the step as the library wants it.
func (o *Op) native() clientv3.Op {
	var opts []clientv3.OpOption
	if o.To != "" {
		opts = append(opts, clientv3.WithRange(o.To))
	}
	switch o.Kind {
	case OpPut:
		if o.Lease != 0 {
			opts = append(opts, clientv3.WithLease(clientv3.LeaseID(o.Lease)))
		}
		return clientv3.OpPut(o.Key, string(o.Value), opts...)
	case OpDelete:
		return clientv3.OpDelete(o.Key, opts...)
	}
	return clientv3.OpGet(o.Key, append(opts, clientv3.WithLimit(o.Limit))...)
}

// KV is a key as etcd has it.
type KV struct {
	Key      string
	Value    []byte
	Created  int64 // revision
	Modified int64 // revision
	Lease    int64
}

// Outcome is what a transaction did.
type Outcome struct {
	Done     bool // the conditions held
	Revision int64
	Got      [][]KV // one for each step, empty but for reads
}

// Txn does all of then when all conditions hold, and all of otherwise when not.
func (c *Cluster) Txn(ctx context.Context, conditions []Condition, then, otherwise []Op) (Outcome, error) {
	cmps := make([]clientv3.Cmp, len(conditions))
	for i, cond := range conditions {
		cmps[i] = clientv3.Compare(clientv3.CreateRevision(cond.Key), "=", cond.Created)
	}
	ops := func(list []Op) []clientv3.Op {
		out := make([]clientv3.Op, len(list))
		for i := range list {
			out[i] = list[i].native()
		}
		return out
	}
	yes, no := ops(then), ops(otherwise)
	return ask(ctx, c, "transaction", c.hedge, func(ctx context.Context, etcd *clientv3.Client) (Outcome, error) {
		answer, err := etcd.Txn(ctx).If(cmps...).Then(yes...).Else(no...).Commit()
		if err != nil {
			return Outcome{}, err
		}
		out := Outcome{Done: answer.Succeeded, Revision: answer.Header.GetRevision()}
		for _, r := range answer.Responses {
			var got []KV
			if ranged := r.GetResponseRange(); ranged != nil {
				got = kvs((*clientv3.GetResponse)(ranged))
			}
			out.Got = append(out.Got, got)
		}
		return out, nil
	})
}

// Page says what of a range to read.
type Page struct {
	Limit    int64 // keys; 0 = all
	Revision int64 // as of; 0 = now
	KeysOnly bool
	Last     bool // the last keys first
}

// Range reads the keys from one up to, and without, another.
func (c *Cluster) Range(ctx context.Context, from, to string, p Page) (found []KV, more bool, revision int64, err error) {
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithLimit(p.Limit), clientv3.WithRev(p.Revision)}
	if p.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if p.Last {
		opts = append(opts, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	}
	answer, err := ask(ctx, c, "range from "+from, c.hedge, func(ctx context.Context, etcd *clientv3.Client) (*clientv3.GetResponse, error) {
		return etcd.Get(ctx, from, opts...)
	})
	if err != nil {
		return nil, false, 0, err
	}
	return kvs(answer), answer.More, answer.Header.GetRevision(), nil
}

func kvs(answer *clientv3.GetResponse) []KV {
	out := make([]KV, len(answer.Kvs))
	for i, kv := range answer.Kvs {
		out[i] = KV{string(kv.Key), kv.Value, kv.CreateRevision, kv.ModRevision, kv.Lease}
	}
	return out
}

// PrefixEnd is the first key that does not begin with a prefix.
func PrefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// Grant makes a lease.
func (c *Cluster) Grant(ctx context.Context, ttl time.Duration) (lease int64, granted time.Duration, err error) {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	answer, err := ask(ctx, c, "grant of a lease", 0, func(ctx context.Context, etcd *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		return etcd.Grant(ctx, seconds)
	})
	if err != nil {
		return 0, 0, err
	}
	return int64(answer.ID), time.Duration(answer.TTL) * time.Second, nil
}

// ErrNoLease says that a lease has ended.
var ErrNoLease = errors.New("the lease has ended")

// KeepAlive renews a lease once.
func (c *Cluster) KeepAlive(ctx context.Context, lease int64) error {
	return c.do(ctx, c.hedge, "renewal of the lease", func(ctx context.Context, etcd *clientv3.Client) error {
		answer, err := etcd.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
		if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && answer.TTL <= 0 {
			return ErrNoLease
		}
		return err
	})
}

// Revoke ends a lease and its keys. One that has ended already is no error.
func (c *Cluster) Revoke(ctx context.Context, lease int64) error {
	return c.do(ctx, c.hedge, "end of the lease", func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.Revoke(ctx, clientv3.LeaseID(lease))
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return err
	})
}

// Compact lets etcd forget the history before a revision, of all keys of the cluster.
func (c *Cluster) Compact(ctx context.Context, revision int64) error {
	return c.do(ctx, 0, "compaction", func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.Compact(ctx, revision)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil // somebody else was there before
		}
		return err
	})
}
