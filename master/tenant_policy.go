package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// policyStore is where the quotas of tenants are kept, as one document.
type policyStore interface {
	load(ctx context.Context) (map[string]uint64, error)
	save(ctx context.Context, asked map[string]uint64) error
	close() error
}

// openPolicy opens the store that the flags name.
func (c *Config) openPolicy() (policyStore, error) {
	if c.TenantPolicyType == policyInEtcd {
		endpoints, err := etcdkv.ParseEndpoints(c.TenantPolicyURI)
		if err != nil {
			return nil, fmt.Errorf("--tenant_quota_connector_uri: %w", err)
		}
		etcd, err := etcdkv.Open(endpoints, c.Etcd)
		if err != nil {
			return nil, fmt.Errorf("--tenant_quota_connector_uri: %w", err)
		}
		return &etcdPolicy{etcd, "mooncake-store/" + strings.TrimRight(c.ClusterID, "/") + "/tenant_quota_policy"}, nil
	}
	return filePolicy(c.TenantPolicyURI), nil
}

// The kinds of stores.
const (
	policyInFile = "file"
	policyInEtcd = "etcd"
)

// checkTenants names what cannot work of the settings about tenants.
func (c *Config) checkTenants() error {
	switch {
	case !(c.TenantWatermark >= 0 && c.TenantWatermark <= 1):
		return fmt.Errorf("--tenant_eviction_high_watermark_ratio=%g is outside 0..1", c.TenantWatermark)
	case !c.MultiTenants:
		return nil
	case c.TenantPolicyType != policyInFile && c.TenantPolicyType != policyInEtcd:
		return fmt.Errorf("--tenant_quota_connector_type=%q is neither file nor etcd", c.TenantPolicyType)
	case c.TenantPolicyURI == "":
		return fmt.Errorf("--enable_multi_tenants needs --tenant_quota_connector_uri: where the quotas of tenants are kept")
	case c.TenantPolicyType == policyInEtcd:
		if _, err := etcdkv.ParseEndpoints(c.TenantPolicyURI); err != nil {
			return fmt.Errorf("--tenant_quota_connector_uri: %w", err)
		}
		return nil
	}
	_, err := filePolicy(c.TenantPolicyURI).load(context.Background())
	return err
}

// A filePolicy is the path of the document.
type filePolicy string

func (p filePolicy) load(context.Context) (map[string]uint64, error) {
	f, err := os.Open(string(p))
	if err != nil {
		return nil, fmt.Errorf("--tenant_quota_connector_uri: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limits.TenantPolicyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--tenant_quota_connector_uri: %w", err)
	}
	asked, err := decodePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("--tenant_quota_connector_uri=%s: %w", string(p), err)
	}
	return asked, nil
}

// save puts a new file in the place of the old one, so that a crash leaves one of the two.
func (p filePolicy) save(_ context.Context, asked map[string]uint64) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(string(p)); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(string(p)), filepath.Base(string(p))+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(encodePolicy(asked))
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), string(p))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(string(p)))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (p filePolicy) close() error { return nil }

// An etcdPolicy keeps the document under a key.
type etcdPolicy struct {
	etcd *etcdkv.Client
	key  string
}

func (p *etcdPolicy) load(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.TenantPolicyMs*time.Millisecond)
	defer cancel()
	text, found, err := p.etcd.Get(ctx, p.key)
	if err != nil || !found { // nobody has a quota yet
		return map[string]uint64{}, err
	}
	asked, err := decodePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("etcd key %s: %w", p.key, err)
	}
	return asked, nil
}

func (p *etcdPolicy) save(ctx context.Context, asked map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, limits.TenantPolicyMs*time.Millisecond)
	defer cancel()
	return p.etcd.Put(ctx, p.key, encodePolicy(asked))
}

func (p *etcdPolicy) close() error { return p.etcd.Close() }

// decodePolicy reads a document {version: 1, tenants: [{name, quota}, …]}.
func decodePolicy(text []byte) (map[string]uint64, error) {
	if len(text) > limits.TenantPolicyBytes {
		return nil, fmt.Errorf("more than %d bytes of quotas", limits.TenantPolicyBytes)
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the document of quotas is empty")
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, errors.New("the document of quotas is empty")
	}
	asked, version := map[string]uint64{}, ""
	err := eachPair(doc.Content[0], "the document of quotas", func(key string, n *yaml.Node) (err error) {
		switch key {
		case "version":
			if version, err = scalar(n, key); err == nil && version != "1" {
				err = complain(n, "version %s of the document of quotas; known is 1", quoted(version))
			}
		case "tenants":
			if n.Kind != yaml.SequenceNode && n.Tag != "!!null" {
				return complain(n, "tenants is not a list")
			}
			for _, item := range n.Content {
				if err := decodeTenant(item, asked); err != nil {
					return err
				}
			}
		default:
			err = complain(n, "unknown key %s; a document of quotas has version and tenants", quoted(key))
		}
		return err
	})
	if err == nil && version == "" {
		err = complain(doc.Content[0], "no version; known is version: 1")
	}
	return asked, err
}

func decodeTenant(n *yaml.Node, asked map[string]uint64) error {
	name, bytes := "", uint64(0)
	err := eachPair(n, "a tenant", func(key string, value *yaml.Node) (err error) {
		switch key {
		case "name":
			name, err = scalar(value, key)
		case "quota":
			var text string
			if text, err = scalar(value, key); err == nil {
				if bytes, err = parseQuota(text); err != nil {
					err = complain(value, "%v", err)
				}
			}
		default:
			err = complain(value, "a tenant has no key %s", quoted(key))
		}
		return err
	})
	if err != nil {
		return err
	}
	known, ok := catalog.TenantName(name)
	_, twice := asked[known]
	switch {
	case !ok || name == "":
		return complain(n, "name %s: a tenant's name has 1 to %d bytes, no control characters, and does not begin with _", quoted(name), limits.WorkloadTextBytes)
	case bytes == 0:
		return complain(n, "tenant %s has no quota", quoted(name))
	case twice:
		return complain(n, "tenant %s is there twice", quoted(name))
	case len(asked) >= limits.TenantPolicies:
		return complain(n, "more than %d tenants", limits.TenantPolicies)
	}
	asked[known] = bytes
	return nil
}

// parseQuota reads a number of bytes, or of units of 1024: B, KB, MB, GB, TB.
func parseQuota(text string) (uint64, error) {
	digits := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	shift, known := map[string]int{"": 0, "B": 0, "KB": 10, "MB": 20, "GB": 30, "TB": 40}[strings.ToUpper(strings.TrimSpace(text[len(digits):]))]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !known || err != nil || n == 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("quota %s is no number of bytes from 1 to %d, with or without B, KB, MB, GB, TB", quoted(text), int64(math.MaxInt64))
	}
	return n << shift, nil
}

// encodePolicy writes what decodePolicy reads, tenants by name.
func encodePolicy(asked map[string]uint64) []byte {
	names := make([]string, 0, len(asked))
	for name := range asked {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteString("version: 1\ntenants:")
	if len(names) == 0 {
		b.WriteString(" []")
	}
	b.WriteByte('\n')
	for _, name := range names {
		fmt.Fprintf(&b, "  - name: %s\n    quota: %d\n", strconv.Quote(name), asked[name])
	}
	return b.Bytes()
}
