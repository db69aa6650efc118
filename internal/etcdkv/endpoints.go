package etcdkv

import (
	"fmt"
	"strings"

	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// Scheme begins the name of a metadata server that is etcd. A name without any scheme means etcd as well.
const Scheme = "etcd://"

// ParseEndpoints reads one or several addresses, separated by ';' or ',', with or without the scheme.
func ParseEndpoints(text string) ([]string, error) {
	list := strings.TrimPrefix(text, Scheme)
	parts := strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' })
	if len(parts) == 0 {
		return nil, fmt.Errorf("etcd endpoints %q: none named", text)
	}
	if len(parts) > limits.EtcdEndpoints {
		return nil, fmt.Errorf("etcd endpoints %q: %d named, limit %d", text, len(parts), limits.EtcdEndpoints)
	}
	endpoints := make([]string, 0, len(parts))
	for _, part := range parts {
		host, port, err := hostport.Parse(strings.TrimSpace(part), limits.EtcdPortDefault)
		if err != nil {
			return nil, fmt.Errorf("etcd endpoints %q: %w", text, err)
		}
		if port == 0 {
			return nil, fmt.Errorf("etcd endpoints %q: port 0", text)
		}
		endpoints = append(endpoints, hostport.Join(host, port))
	}
	return endpoints, nil
}
