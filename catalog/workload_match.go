package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// A matcher finds the share of an object by its key and tenant. It is built anew with every set of rules.
type matcher struct {
	prefixes []prefixRule // in ascending order
	tenants  map[string]uint8
	rest     uint8 // share of what nothing else fits
}

type prefixRule struct {
	text  string
	share uint8
	outer int // the longest of the prefixes that this one begins with; -1 is none
}

// add takes over the prefixes and tenants of a rule.
func (m *matcher) add(w *Workload, share uint8) {
	for _, p := range w.Prefixes {
		if p == "" {
			m.rest = share
		} else {
			m.prefixes = append(m.prefixes, prefixRule{text: p, share: share})
		}
	}
	for _, t := range w.Tenants {
		if m.tenants == nil {
			m.tenants = map[string]uint8{}
		}
		m.tenants[t] = share
	}
}

// finish makes the matcher ready for use.
func (m *matcher) finish() {
	slices.SortFunc(m.prefixes, func(a, b prefixRule) int { return cmp.Compare(a.text, b.text) })
	for i := range m.prefixes {
		outer := i - 1
		for outer >= 0 && !strings.HasPrefix(m.prefixes[i].text, m.prefixes[outer].text) {
			outer = m.prefixes[outer].outer
		}
		m.prefixes[i].outer = outer
	}
}

// match finds the share of a key and a tenant; what a key says of its tenant is no part of any prefix. The last prefix that is not after the key begins with every prefix of the
// key that there is, so only those that it begins with are looked at.
func (m *matcher) match(key, tenant string) uint8 {
	if len(m.prefixes) > 0 {
		_, key = SplitTenantKey(key)
		low, high := 0, len(m.prefixes)
		for low < high {
			if mid := (low + high) / 2; m.prefixes[mid].text <= key {
				low = mid + 1
			} else {
				high = mid
			}
		}
		for at := low - 1; at >= 0; at = m.prefixes[at].outer {
			if strings.HasPrefix(key, m.prefixes[at].text) {
				return m.prefixes[at].share
			}
		}
	}
	if len(m.tenants) > 0 {
		if tenant == "" {
			tenant = defaultTenant
		}
		if share, ok := m.tenants[tenant]; ok {
			return share
		}
	}
	return m.rest
}

// same tells whether two sets of rules find the same workload for everything. It may say no although they do.
func (m *matcher) same(o *matcher) bool {
	if m.rest != o.rest || len(m.tenants) != len(o.tenants) {
		return false
	}
	for t, share := range m.tenants {
		if other, ok := o.tenants[t]; !ok || other != share {
			return false
		}
	}
	return slices.Equal(m.prefixes, o.prefixes)
}
