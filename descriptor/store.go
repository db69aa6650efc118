package descriptor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"mooncake/internal/etcdkv"
)

// P2PHandshake is the name of the metadata server that stands for "there is none: ask each process itself".
const P2PHandshake = "P2PHANDSHAKE"

// ErrNotFound is returned for a key that a metadata server does not have.
var ErrNotFound = errors.New("metadata not found")

// ErrNameTaken is returned when a metadata server refuses a location because another process is registered under the
// same name. Its entry must go first: either that process lives, or it died without withdrawing.
var ErrNameTaken = errors.New("another process is registered under this name")

// Store is a metadata server: single keys with JSON values. Every call is bounded in time by the implementation.
type Store interface {
	// Get returns a value, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Put sets a value. A location that another process holds is ErrNameTaken.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes a key, or returns ErrNotFound.
	Delete(ctx context.Context, key string) error
	// Close ends connections. Nothing may be called after it.
	Close() error
}

// Open returns the store that a --metadata_server value names: P2PHANDSHAKE, http://host:port/metadata, https://…, or
// etcd://host:port;host:port. A text without a scheme is etcd. It does not connect: a server that is down shows at the
// first call. access counts with etcd only.
func Open(metadataServer string, access etcdkv.Access) (Store, error) {
	if err := Check(metadataServer); err != nil {
		return nil, err
	}
	switch {
	case metadataServer == P2PHandshake:
		return NoStore{}, nil
	case strings.HasPrefix(metadataServer, "http://"), strings.HasPrefix(metadataServer, "https://"):
		return openHTTP(metadataServer), nil
	}
	return openEtcd(metadataServer, access)
}

// NoStore is the store of P2P mode: nothing is published, and processes are asked themselves.
type NoStore struct{}

// Get finds nothing.
func (NoStore) Get(context.Context, string) ([]byte, error) { return nil, ErrNotFound }

// Put keeps nothing.
func (NoStore) Put(context.Context, string, []byte) error { return nil }

// Delete has nothing to remove.
func (NoStore) Delete(context.Context, string) error { return nil }

// Close does nothing.
func (NoStore) Close() error { return nil }

// IsP2P reports whether the store is that of P2P mode.
func IsP2P(s Store) bool {
	_, p2p := s.(NoStore)
	return p2p
}

// RAMKey is the key of a segment's descriptor.
func RAMKey(name string) string {
	if strings.Contains(name, "/") {
		return keyPrefix() + name
	}
	return keyPrefix() + "ram/" + name
}

// RPCMetaKey is the key of a segment's location.
func RPCMetaKey(name string) string { return keyPrefix() + "rpc_meta/" + name }

// keyPrefix is mooncake/, and mooncake/<id>/ when several clusters share one metadata server.
func keyPrefix() string {
	if id := strings.TrimSuffix(os.Getenv("MC_METADATA_CLUSTER_ID"), "/"); id != "" {
		return "mooncake/" + id + "/"
	}
	return "mooncake/"
}

// etcdStore keeps the keys in etcd, without leases, as the original does.
type etcdStore struct{ etcd *etcdkv.Client }

// Check tells what Open would refuse in an address, without opening anything.
func Check(metadataServer string) error {
	scheme, _, hasScheme := strings.Cut(metadataServer, "://")
	switch {
	case metadataServer == "":
		return fmt.Errorf("metadata server is empty, want %s, http://host:port/metadata or etcd://host:port", P2PHandshake)
	case metadataServer == P2PHandshake:
		return nil
	case !hasScheme || scheme == "etcd":
		if _, err := etcdkv.ParseEndpoints(metadataServer); err != nil {
			return fmt.Errorf("metadata server: %w", err)
		}
		return nil
	case scheme == "http" || scheme == "https":
		return checkHTTP(metadataServer)
	}
	return fmt.Errorf("metadata server %q: %s is not supported, want %s, http:// or etcd://", metadataServer, scheme, P2PHandshake)
}

func openEtcd(metadataServer string, access etcdkv.Access) (Store, error) {
	endpoints, err := etcdkv.ParseEndpoints(metadataServer)
	if err != nil {
		return nil, fmt.Errorf("metadata server: %w", err)
	}
	etcd, err := etcdkv.Open(endpoints, access)
	if err != nil {
		return nil, fmt.Errorf("metadata server: %w", err)
	}
	return etcdStore{etcd: etcd}, nil
}

func (s etcdStore) Get(ctx context.Context, key string) ([]byte, error) {
	value, found, err := s.etcd.Get(ctx, key)
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	return value, err
}

func (s etcdStore) Put(ctx context.Context, key string, value []byte) error {
	return s.etcd.Put(ctx, key, value)
}

func (s etcdStore) Delete(ctx context.Context, key string) error {
	existed, err := s.etcd.Delete(ctx, key)
	if err == nil && !existed {
		err = fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	return err
}

func (s etcdStore) Close() error { return s.etcd.Close() }
