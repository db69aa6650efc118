package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// leader knows where the master is: at a fixed address, or, where several share a pool, at the one that stands in the
// leader's key in etcd.
type leader struct {
	etcd *etcdkv.Cluster // nil: the address is fixed
	key  string
	log  *zap.Logger

	mu      sync.Mutex
	addr    string          // empty: not known yet
	created int64           // revision of the key
	reign   context.Context // ends when another leads
	end     context.CancelFunc
	changes uint64
}

// errNoLeader says that nobody leads, as far as is known.
var errNoLeader = errors.New("no master is known")

// fixedLeader is a master whose address does not change.
func fixedLeader(addr string) *leader {
	return &leader{addr: addr, reign: context.Background(), end: func() {}}
}

// newLeader prepares to find the master. It waits for nobody.
func newLeader(c *Config, log *zap.Logger) (*leader, error) {
	if !c.byEtcd() {
		host, port, err := hostport.Parse(c.MasterAddress, 0)
		return fixedLeader(hostport.Join(host, port)), err
	}
	endpoints, err := etcdkv.ParseEndpoints(c.MasterAddress)
	if err != nil {
		return nil, err
	}
	etcd, err := etcdkv.OpenCluster(endpoints, c.Etcd)
	if err != nil {
		return nil, err
	}
	l := &leader{etcd: etcd, key: leaderKey(c.ClusterID), log: log}
	l.reign, l.end = context.WithCancel(context.Background())
	return l, nil
}

// prove tells what no waiting cures.
func (l *leader) prove(ctx context.Context) error {
	if l.etcd == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limits.EtcdCallMs*time.Millisecond)
	defer cancel()
	if err := l.etcd.Prove(ctx, l.key); err != nil {
		return fmt.Errorf("--master_server_address: %w", err)
	}
	return nil
}

// leaderKey is where the masters of a cluster, ours and the published ones, put who leads.
func leaderKey(cluster string) string {
	return "mooncake-store/" + strings.TrimRight(cluster, "/") + "/master_view"
}

// now gives the address of the master, and a context that ends when another leads.
func (l *leader) now() (addr string, reign context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addr == "" {
		return "", l.reign, fmt.Errorf("%w: etcd has no key %s", errNoLeader, l.key)
	}
	return l.addr, l.reign, nil
}

// changed is how often another master was found to lead.
func (l *leader) changed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// follow keeps the address up to date until ctx ends. While nobody leads the last one stays: its master may be about to
// hand over, and passes calls on.
func (l *leader) follow(ctx context.Context) {
	if l.etcd == nil {
		return
	}
	said := ""
	l.etcd.FollowKey(ctx, l.key, func(kv *etcdkv.KV) {
		said = ""
		if kv != nil {
			l.take(string(kv.Value), kv.Created)
		}
	}, func(err error) {
		if text := err.Error(); text != said {
			said = text
			l.log.Warn("the key of the leading master cannot be read, trying on", zap.String("key", l.key), zap.Error(err))
		}
	})
}

// take notes who leads. A master that leads again after another did is a change as well.
func (l *leader) take(value string, created int64) {
	host, port, err := hostport.Parse(value, 0)
	if err != nil || port == 0 || len(value) > limits.SegmentNameBytes {
		l.log.Warn("the key of the leading master does not hold host:port", zap.String("key", l.key), zap.String("value", value[:min(len(value), limits.LogTextBytes)]))
		return
	}
	addr := hostport.Join(host, port)
	l.mu.Lock()
	defer l.mu.Unlock()
	if addr == l.addr && created == l.created {
		return
	}
	if l.addr != "" {
		l.changes++
	}
	l.addr, l.created = addr, created
	l.end()
	l.reign, l.end = context.WithCancel(context.Background())
	l.log.Info("a master leads", zap.String("master", addr), zap.Int64("term", created))
}

func (l *leader) close() error {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	if l.etcd == nil {
		return nil
	}
	return l.etcd.Close()
}

// byEtcd tells whether the master is found through etcd.
func (c *Config) byEtcd() bool { return strings.HasPrefix(c.MasterAddress, etcdkv.Scheme) }

// pool names what the segment belongs to: a master, or the masters of a cluster.
func (c *Config) pool() string {
	if !c.byEtcd() {
		return c.MasterAddress
	}
	endpoints, err := etcdkv.ParseEndpoints(c.MasterAddress)
	if err != nil {
		return c.MasterAddress // Validate refuses it
	}
	return etcdkv.Scheme + strings.Join(endpoints, ";") + "/" + c.ClusterID
}

// samePool compares two names of pools. Members of one etcd may be listed in any order, and come and go: one in common is
// enough.
func samePool(a, b string) bool {
	if a == b {
		return true
	}
	listA, clusterA, okA := cutPool(a)
	listB, clusterB, okB := cutPool(b)
	if !okA || !okB || clusterA != clusterB {
		return false
	}
	return slices.ContainsFunc(listA, func(e string) bool { return slices.Contains(listB, e) })
}

func cutPool(name string) (endpoints []string, cluster string, ok bool) {
	rest, ok := strings.CutPrefix(name, etcdkv.Scheme)
	list, cluster, cut := strings.Cut(rest, "/")
	return strings.Split(list, ";"), cluster, ok && cut
}
