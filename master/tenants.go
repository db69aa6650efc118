package master

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// Where tenants are told apart, an object is kept under a key that says whose it is. Everything that takes a key from a
// call, or gives one back, passes here.

// keyOf gives the key under which the catalog has an object. Where tenants are not told apart a call's tenant says nothing.
func (s *Service) keyOf(tenant, key string) (string, wire.ErrorCode) {
	if !s.cfg.MultiTenants {
		return key, 0
	}
	name, ok := catalog.TenantName(tenant)
	if !ok {
		return "", wire.ErrInvalidParams
	}
	return catalog.TenantKey(name, key), 0
}

// keysOf is keyOf for many.
func (s *Service) keysOf(tenant string, keys []string) ([]string, wire.ErrorCode) {
	if !s.cfg.MultiTenants {
		return keys, 0
	}
	out := make([]string, len(keys))
	for i := range keys {
		var code wire.ErrorCode
		if out[i], code = s.keyOf(tenant, keys[i]); code != 0 {
			return nil, code
		}
	}
	return out, 0
}

// tenantOf gives the name under which what a tenant writes is accounted for.
func (s *Service) tenantOf(tenant string) string {
	if name, ok := catalog.TenantName(tenant); ok && s.cfg.MultiTenants {
		return name
	}
	return tenant
}

// plainKey gives the key of an object as its tenant knows it, and the tenant.
func (s *Service) plainKey(key string) (tenant, plain string) {
	if !s.cfg.MultiTenants {
		return defaultTenant, key
	}
	return catalog.SplitTenantKey(key)
}

// among limits a match to the keys of one tenant, as that tenant knows them.
func (s *Service) among(tenant string, match func(key string) bool) (func(key string) bool, wire.ErrorCode) {
	if !s.cfg.MultiTenants {
		return match, 0
	}
	name, ok := catalog.TenantName(tenant)
	if !ok {
		return nil, wire.ErrInvalidParams
	}
	return func(key string) bool {
		owner, plain := catalog.SplitTenantKey(key)
		return owner == name && match(plain)
	}, 0
}

// tenants keeps the policy of quotas. Its lock is held over reading, changing and writing it, and over calls into the
// catalog; it is taken with nothing else held.
type tenants struct {
	mu    sync.Mutex
	store policyStore
	asked map[string]uint64
}

// loadTenants puts the policy of quotas into force, where tenants are told apart.
func (s *Service) loadTenants() error {
	if !s.cfg.MultiTenants {
		return nil
	}
	store, err := s.cfg.openPolicy()
	if err != nil {
		return err
	}
	asked, err := store.load(context.Background())
	if err != nil {
		return errors.Join(err, store.close())
	}
	s.tenants.store, s.tenants.asked = store, asked
	s.cat.SetTenantQuotas(asked)
	s.log.Info("tenants are told apart", zap.Int("tenants", len(asked)), zap.String("policy", s.cfg.TenantPolicyURI))
	return nil
}

// closeTenants gives up what loadTenants opened.
func (s *Service) closeTenants() error {
	if s.tenants.store == nil {
		return nil
	}
	return s.tenants.store.close()
}

var errNoTenants = errors.New("tenants are not told apart: --enable_multi_tenants")

// TenantStats implements TenantSource.
func (s *Service) TenantStats() (list []catalog.TenantStat, capacity uint64, err error) {
	if !s.cfg.MultiTenants {
		return nil, 0, errNoTenants
	}
	list, capacity = s.cat.TenantStats()
	return list, capacity, nil
}

// SetTenantQuota implements TenantSource.
func (s *Service) SetTenantQuota(ctx context.Context, name string, bytes uint64) error {
	if !s.cfg.MultiTenants {
		return errNoTenants
	}
	return s.changeQuotas(ctx, func(asked map[string]uint64) error {
		if _, ok := asked[name]; !ok && len(asked) >= limits.TenantPolicies {
			return fmt.Errorf("%w: %d tenants have quotas, more are not allowed", catalog.ErrInvalidParams, len(asked))
		}
		asked[name] = bytes
		return nil
	})
}

// DropTenantQuota implements TenantSource.
func (s *Service) DropTenantQuota(ctx context.Context, name string) error {
	if !s.cfg.MultiTenants {
		return errNoTenants
	}
	return s.changeQuotas(ctx, func(asked map[string]uint64) error {
		if err := s.cat.CloseTenant(name); err != nil {
			return err
		}
		delete(asked, name)
		return nil
	})
}

// changeQuotas writes a changed policy down and puts it into force; nothing changes when that fails.
func (s *Service) changeQuotas(ctx context.Context, edit func(asked map[string]uint64) error) error {
	t := &s.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := make(map[string]uint64, len(t.asked)+1)
	for name, bytes := range t.asked {
		changed[name] = bytes
	}
	if err := edit(changed); err != nil {
		return err
	}
	if err := t.store.save(ctx, changed); err != nil {
		s.cat.SetTenantQuotas(t.asked) // who was to go may write again
		return err
	}
	t.asked = changed
	s.cat.SetTenantQuotas(changed)
	s.log.Info("quotas of tenants changed", zap.String("action", "tenant_quotas_changed"), zap.Int("tenants", len(changed)))
	return nil
}
