package catalog

import (
	"strings"

	"mooncake/internal/limits"
)

// defaultTenant is the name of the tenant of calls that name none.
const defaultTenant = "default"

// TenantName gives the name of a tenant as calls write it: that of calls that name none is "default". ok is false for what
// no tenant can be called.
func TenantName(given string) (name string, ok bool) {
	if given == "" {
		return defaultTenant, true
	}
	if len(given) > limits.WorkloadTextBytes || given[0] == '_' {
		return "", false
	}
	for i := range len(given) {
		if given[i] < 0x20 || given[i] == 0x7f {
			return "", false
		}
	}
	return given, true
}

// TenantKey gives the key under which an object is kept where tenants are told apart. Keys of the default tenant stay what
// they are; others begin with a zero byte and the tenant's name. Two pairs of tenant and key never give the same.
func TenantKey(tenant, key string) string {
	if tenant == defaultTenant && (key == "" || key[0] != 0) || key == "" {
		return key
	}
	return "\x00" + tenant + "\x00" + key
}

// SplitTenantKey undoes TenantKey.
func SplitTenantKey(key string) (tenant, plain string) {
	if key == "" || key[0] != 0 {
		return defaultTenant, key
	}
	at := strings.IndexByte(key[1:], 0)
	if at < 0 {
		return defaultTenant, key
	}
	return key[1 : at+1], key[at+2:]
}
