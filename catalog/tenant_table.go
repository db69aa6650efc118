package catalog

import (
	"strings"

	"mooncake/internal/limits"
)

// tenantTable gives small numbers to the names of tenants for as long as an object has one, and counts what each has. 0 is
// the default.
type tenantTable struct {
	byName  map[string]uint16
	list    []tenantEntry
	numbers []uint16 // free places of list
}

type tenantEntry struct {
	name             string
	objects          uint64
	bytes, lostBytes uint64 // of replicas on mounted segments; of them, on lost ones
}

// charged gives the bytes that count against the tenant's quota.
func (e *tenantEntry) charged() uint64 { return e.bytes - e.lostBytes }

func (t *tenantTable) init() {
	t.list, t.byName = make([]tenantEntry, 1), map[string]uint16{}
}

func (t *tenantTable) ref(name string) uint16 {
	n := t.numberOf(name)
	t.list[n].objects++
	return n
}

// numberOf gives the number of a name, a new one if it needs that: ref must follow. What cannot have one is the default's.
func (t *tenantTable) numberOf(name string) uint16 {
	if name == "" || name == defaultTenant || len(name) > limits.WorkloadTextBytes {
		return 0
	}
	if n, ok := t.byName[name]; ok {
		return n
	}
	n := uint16(len(t.list))
	switch free := len(t.numbers); {
	case free > 0:
		n, t.numbers = t.numbers[free-1], t.numbers[:free-1]
	case len(t.list) > limits.TenantsMax:
		return 0
	default:
		t.list = append(t.list, tenantEntry{})
	}
	name = strings.Clone(name)
	t.list[n] = tenantEntry{name: name}
	t.byName[name] = n
	return n
}

func (t *tenantTable) unref(n uint16) {
	if t.list[n].objects--; t.list[n].objects == 0 && n != 0 {
		delete(t.byName, t.list[n].name)
		t.list[n] = tenantEntry{}
		t.numbers = append(t.numbers, n)
	}
}

// name gives the name of a number; "" is the default.
func (t *tenantTable) name(n uint16) string { return t.list[n].name }

// find gives what a tenant has; nothing if it has no object.
func (t *tenantTable) find(name string) tenantEntry {
	if name == defaultTenant {
		return t.list[0]
	}
	if n, ok := t.byName[name]; ok {
		return t.list[n]
	}
	return tenantEntry{}
}

// segmentTenants are the bytes of tenants on one segment. Most segments carry one tenant: that one needs no map, which would
// cost each put four lines of memory.
type segmentTenants struct {
	first  uint16
	bytes  uint64 // of the first; 0: there is none
	others map[uint16]uint64
}

func (st *segmentTenants) add(n uint16, size uint64) {
	switch {
	case st.bytes == 0 && len(st.others) == 0:
		st.first, st.bytes = n, size
	case st.bytes != 0 && st.first == n:
		st.bytes += size
	default:
		if st.others == nil {
			st.others = map[uint16]uint64{}
		}
		st.others[n] += size
	}
}

func (st *segmentTenants) sub(n uint16, size uint64) {
	if st.bytes != 0 && st.first == n {
		st.bytes -= size
	} else if st.others[n] -= size; st.others[n] == 0 {
		delete(st.others, n)
	}
}

// all yields every tenant that has bytes here.
func (st *segmentTenants) all(yield func(n uint16, size uint64) bool) {
	if st.bytes != 0 && !yield(st.first, st.bytes) {
		return
	}
	for n, size := range st.others {
		if !yield(n, size) {
			return
		}
	}
}

// chargeTenant accounts a replica to a tenant; dischargeTenant takes it off again.
func (t *tenantTable) chargeTenant(seg *segment, n uint16, size uint64) {
	seg.tenants.add(n, size)
	e := &t.list[n]
	e.bytes += size
	if seg.lost {
		e.lostBytes += size
	}
}

func (t *tenantTable) dischargeTenant(seg *segment, n uint16, size uint64) {
	seg.tenants.sub(n, size)
	e := &t.list[n]
	e.bytes -= size
	if seg.lost {
		e.lostBytes -= size
	}
}

// dischargeTenants takes off everything on a segment that goes; it does not count as lost any more.
func (t *tenantTable) dischargeTenants(seg *segment) {
	for n, size := range seg.tenants.all {
		t.list[n].bytes -= size
	}
	seg.tenants = segmentTenants{}
}

func (t *tenantTable) setTenantsLost(seg *segment, lost bool) {
	for n, size := range seg.tenants.all {
		if lost {
			t.list[n].lostBytes += size
		} else {
			t.list[n].lostBytes -= size
		}
	}
}
