package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// A Workload is a rule for a part of the objects: those whose keys start with one of Prefixes, or that were written by a
// call for one of Tenants. Of several prefixes that fit the longest counts, and any but the empty one before the tenant.
// What no rule fits is bound by none.
type Workload struct {
	Name     string
	Prefixes []string // of keys; "" is every key that no other rule fits
	Tenants  []string // names of tenants; "default" is that of calls that name none

	// SoftBytes is the share: a workload with more is the first to lose objects when anybody needs room. 0 is none.
	SoftBytes uint64
	// HardBytes is the most it may have: a put beyond it takes the room of the workload's own objects, or is refused. 0 is
	// no limit.
	HardBytes uint64
	// ReservedBytes is room that nobody else gets, used or not: in the sum over all segments, not on each.
	ReservedBytes uint64

	Evict  EvictKind
	Unread UnreadKind
	// TTLMs is the time that an object lives after its completion, a bundle or group after its last write. Reads do not
	// extend it. 0 is for ever.
	TTLMs int64
	// Priority orders the workloads that have more than their share: the lowest loses first.
	Priority int
}

// An EvictKind says what of a workload may go when others, or itself, need room.
type EvictKind uint8

// The kinds of eviction.
const (
	EvictLRU    EvictKind = iota // anything, longest untouched first
	EvictNever                   // nothing
	EvictBundle                  // whole bundles only; objects that belong to none stay
)

var evictText = [...]string{EvictLRU: "lru", EvictNever: "never", EvictBundle: "bundle"}

// String names the kind as rules do.
func (k EvictKind) String() string { return evictText[min(k, EvictBundle)] }

// MarshalText writes the kind as rules do.
func (k EvictKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String writes; nothing is EvictLRU.
func (k *EvictKind) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = EvictLRU
		return nil
	}
	at := slices.Index(evictText[:], string(text))
	if at < 0 {
		return fmt.Errorf("evict: %.40q is none of lru, never, bundle", text)
	}
	*k = EvictKind(at)
	return nil
}

// An UnreadKind says what becomes of published bundles that nobody has read when nothing else can go.
type UnreadKind uint8

// The ways to treat unread bundles.
const (
	UnreadDrop UnreadKind = iota // they go last
	UnreadKeep                   // they stay, and the put is refused
)

var unreadText = [...]string{UnreadDrop: "drop", UnreadKeep: "keep"}

// String names the way as rules do.
func (k UnreadKind) String() string { return unreadText[min(k, UnreadKeep)] }

// MarshalText writes the way as rules do.
func (k UnreadKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String writes; nothing is UnreadDrop.
func (k *UnreadKind) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = UnreadDrop
		return nil
	}
	at := slices.Index(unreadText[:], string(text))
	if at < 0 {
		return fmt.Errorf("unread: %.40q is none of drop, keep", text)
	}
	*k = UnreadKind(at)
	return nil
}

// clone returns a copy that shares nothing.
func (w *Workload) clone() Workload {
	d := *w
	d.Name = strings.Clone(w.Name)
	d.Prefixes, d.Tenants = cloneTexts(w.Prefixes), cloneTexts(w.Tenants)
	return d
}

func cloneTexts(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.Clone(out[i])
	}
	return out
}

// CheckWorkloads tells what is wrong with a set of rules, in one line that names the workload; nil when nothing is.
func CheckWorkloads(list []Workload) error {
	if len(list) > limits.Workloads {
		return fmt.Errorf("%w: %d workloads, at most %d are allowed", ErrInvalidParams, len(list), limits.Workloads)
	}
	names, prefixes, tenants := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range list {
		w := &list[i]
		if err := w.check(); err != nil {
			return err
		}
		if names[w.Name] != "" {
			return fmt.Errorf("%w: two workloads are named %q", ErrInvalidParams, w.Name)
		}
		names[w.Name] = w.Name
		for _, p := range w.Prefixes {
			if other, ok := prefixes[p]; ok {
				return fmt.Errorf("%w: workload %q: prefix %.80q is a rule of workload %q already", ErrInvalidParams, w.Name, p, other)
			}
			prefixes[p] = w.Name
		}
		for _, t := range w.Tenants {
			if other, ok := tenants[t]; ok {
				return fmt.Errorf("%w: workload %q: tenant %.80q is a rule of workload %q already", ErrInvalidParams, w.Name, t, other)
			}
			tenants[t] = w.Name
		}
	}
	return nil
}

func (w *Workload) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: workload %.80q: "+format, append([]any{ErrInvalidParams, w.Name}, args...)...)
	}
	switch {
	case w.Name == "":
		return fmt.Errorf("%w: a workload has no name", ErrInvalidParams)
	case len(w.Name) > limits.WorkloadNameBytes:
		return bad("the name has %d bytes, at most %d are allowed", len(w.Name), limits.WorkloadNameBytes)
	case len(w.Prefixes) == 0 && len(w.Tenants) == 0:
		return bad("neither prefixes nor tenants: no object would be its")
	case len(w.Prefixes) > limits.WorkloadNames || len(w.Tenants) > limits.WorkloadNames:
		return bad("%d prefixes and %d tenants, at most %d of each are allowed", len(w.Prefixes), len(w.Tenants), limits.WorkloadNames)
	case w.Evict > EvictBundle || w.Unread > UnreadKeep:
		return bad("unknown kind of eviction or of unread bundles")
	case w.HardBytes > 0 && w.SoftBytes > w.HardBytes:
		return bad("soft limit of %d bytes above the hard limit of %d", w.SoftBytes, w.HardBytes)
	case w.HardBytes > 0 && w.ReservedBytes > w.HardBytes:
		return bad("reservation of %d bytes above the hard limit of %d", w.ReservedBytes, w.HardBytes)
	case w.TTLMs < 0 || w.TTLMs > limits.WorkloadTTLMs:
		return bad("a TTL of %d ms is not between 0 and %d", w.TTLMs, limits.WorkloadTTLMs)
	}
	for _, p := range w.Prefixes {
		if len(p) > limits.WorkloadTextBytes {
			return bad("a prefix has %d bytes, at most %d are allowed", len(p), limits.WorkloadTextBytes)
		}
	}
	for _, t := range w.Tenants {
		if t == "" || len(t) > limits.WorkloadTextBytes {
			return bad("a tenant's name has %d bytes; 1 to %d are allowed", len(t), limits.WorkloadTextBytes)
		}
	}
	return nil
}

// SetWorkloads replaces all rules. It waits until the objects that are there are accounted for anew, which it does in
// slices between which others get on. A workload that keeps its name keeps its figures. The error says in one line what
// is wrong with the rules; then the old ones stay.
func (c *Catalog) SetWorkloads(now Time, list []Workload) error {
	if err := CheckWorkloads(list); err != nil {
		return err
	}
	c.mu.Lock()
	c.begin()
	c.note(ChangeWorkloads, now).Workloads = list
	c.commit()
	c.mu.Unlock()
	c.inSlices(func() bool { return c.s.reaccount(limits.CatalogSliceItems) })
	return nil
}

// Workloads lists the rules, in the order of their names.
func (c *Catalog) Workloads() []Workload {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Workload
	for i := range c.s.shares.list {
		if sh := &c.s.shares.list[i]; sh.ruled {
			list = append(list, sh.rule.clone())
		}
	}
	slices.SortFunc(list, func(a, b Workload) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// WorkloadOf names the workload of an object that a call for the tenant would write under the key; "" is none.
func (c *Catalog) WorkloadOf(key, tenant string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.shares.list[c.s.shares.match(key, tenant)].rule.Name
}

func cloneWorkloads(list []Workload) []Workload {
	out := slices.Clone(list)
	for i := range out {
		out[i] = list[i].clone()
	}
	return out
}
