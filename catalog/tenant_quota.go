package catalog

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// quotas is what tenants may have, where they are told apart. It is no part of the state: the policy is kept elsewhere, and
// every leader is told. The zero value binds nobody.
type quotas struct {
	on       bool
	byName   map[string]*quota
	capacity uint64 // what the quotas were shared out of
	stale    bool   // they have to be shared out again
	at       cursor // where the search for victims goes on
}

type quota struct {
	requested, effective uint64
	closed               bool // the tenant is about to go
	rejected             uint64
	evictedBytes         uint64
}

// TenantStat is what a tenant may have and has.
type TenantStat struct {
	Name      string
	Requested uint64 // by the policy
	Effective uint64 // of what there is: together not more than the pool
	Charged   uint64 // bytes of replicas, unfinished ones included
	Objects   uint64
	Closed    bool   // it may write nothing
	Policy    bool   // there is one
	Rejected  uint64 // puts beyond the quota
	Evicted   uint64 // bytes that went to keep it within its quota
}

// Over tells whether a tenant has more than it may.
func (t *TenantStat) Over() bool { return t.Charged > t.Effective }

// SetTenantQuotas sets what tenants may have, in bytes, and from now on only those named may write. A tenant that keeps its
// place keeps its figures.
func (c *Catalog) SetTenantQuotas(requested map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := quotas{on: true, byName: make(map[string]*quota, len(requested)), stale: true, at: c.quotas.at}
	for name, bytes := range requested {
		q.byName[name] = &quota{requested: bytes}
		if old := c.quotas.byName[name]; old != nil {
			*q.byName[name] = quota{requested: bytes, rejected: old.rejected, evictedBytes: old.evictedBytes}
		}
	}
	c.quotas = q
}

// CloseTenant takes a tenant's leave to write away, before its quota goes: ErrObjectNotFound without a quota,
// ErrTenantNotEmpty while it has objects, and then it may write on. SetTenantQuotas opens it again.
func (c *Catalog) CloseTenant(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.quotas.byName[name]
	if q == nil {
		return ErrObjectNotFound
	}
	if e := c.s.shares.find(name); e.objects > 0 || c.s.disks.of(name) > 0 {
		return ErrTenantNotEmpty
	}
	q.closed = true
	return nil
}

// TenantStats lists the tenants that have a quota or objects, by name, and what there is to share out.
func (c *Catalog) TenantStats() (list []TenantStat, capacity uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shareOut()
	for name, q := range c.quotas.byName {
		e := c.s.shares.find(name)
		list = append(list, TenantStat{
			Name: name, Requested: q.requested, Effective: q.effective, Charged: e.charged(), Objects: e.objects,
			Closed: q.closed, Policy: true, Rejected: q.rejected, Evicted: q.evictedBytes,
		})
	}
	for n := range c.s.shares.tenantTable.list {
		e := &c.s.shares.tenantTable.list[n]
		name := cmp.Or(e.name, defaultTenant)
		if e.objects > 0 && c.quotas.byName[name] == nil {
			list = append(list, TenantStat{Name: strings.Clone(name), Charged: e.charged(), Objects: e.objects, Closed: true})
		}
	}
	slices.SortFunc(list, func(a, b TenantStat) int { return cmp.Compare(a.Name, b.Name) })
	return list, c.quotas.capacity
}

// shareOut gives every tenant its part of what there is: what it asked for, or less if there is not enough for all, each
// by the same proportion.
func (c *Catalog) shareOut() {
	q := &c.quotas
	capacity := uint64(0)
	for _, seg := range c.s.segments.mounted {
		if seg.at() < StageLost {
			capacity += seg.info.Size
		}
	}
	if capacity == q.capacity && !q.stale {
		return
	}
	q.capacity, q.stale = capacity, false
	sum := new(big.Int)
	for _, t := range q.byName {
		sum.Add(sum, number(t.requested))
		t.effective = t.requested
	}
	if sum.Cmp(number(capacity)) > 0 {
		q.scale(capacity, sum)
	}
}

func number(n uint64) *big.Int { return new(big.Int).SetUint64(n) }

// scale gives every tenant the same part of what it asked for, and what rounding left over to those that lost most by it.
func (q *quotas) scale(capacity uint64, sum *big.Int) {
	type part struct {
		name string
		t    *quota
		left *big.Int
	}
	parts, given := make([]part, 0, len(q.byName)), uint64(0)
	for name, t := range q.byName {
		share, left := new(big.Int).QuoRem(new(big.Int).Mul(number(t.requested), number(capacity)), sum, new(big.Int))
		t.effective = share.Uint64() // not above the capacity
		given += t.effective
		parts = append(parts, part{name, t, left})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(b.left.Cmp(a.left), cmp.Compare(a.name, b.name)) })
	for i := 0; i < len(parts) && given < capacity; i++ {
		parts[i].t.effective++
		given++
	}
}

// mayWrite tells whether a tenant has leave to write.
func (c *Catalog) mayWrite(tenant string) bool {
	if !c.quotas.on {
		return true
	}
	q := c.quotas.byName[cmp.Or(tenant, defaultTenant)]
	return q != nil && !q.closed
}

// admit tells whether a put stays within its tenant's quota. What it replaces counts no more.
func (c *Catalog) admit(w *write) error {
	if !c.quotas.on {
		return nil
	}
	name := cmp.Or(w.o.Tenant, defaultTenant)
	q := c.quotas.byName[name]
	if q == nil || q.closed {
		return ErrTenantNotRegistered
	}
	c.shareOut()
	over := c.beyond(w, q, name)
	if over > 0 && over <= q.effective && c.cfg.TenantsEvictOnPut {
		c.evictOf(w, name, over)
		over = c.beyond(w, q, name)
	}
	if over > 0 {
		q.rejected++
		c.stats.PutStartAllocFailures++
		return ErrTenantQuota
	}
	return nil
}

// beyond gives the bytes by which a put would exceed its tenant's quota.
func (c *Catalog) beyond(w *write, q *quota, name string) uint64 {
	high, wanted := bits.Mul64(w.size, min(w.replicas, limits.ReplicasPerObjectMax))
	if high > 0 {
		return w.size
	}
	e := c.s.shares.find(name)
	used := e.charged()
	if w.old != 0 {
		used -= min(used, c.s.bytesOf(w.old))
	}
	if after, carry := bits.Add64(used, wanted, 0); carry > 0 || after > q.effective {
		return max(after-q.effective, 1)
	}
	return 0
}

// evictOf evicts the oldest objects of a put's tenant for the bytes that it wants, or nothing if that is not enough.
func (c *Catalog) evictOf(w *write, tenant string, bytes uint64) {
	n, ok := c.s.shares.tenantTable.byName[tenant]
	if !ok && tenant != defaultTenant {
		return
	}
	c.heedReads()
	a := c.askFor(w)
	a.unread, a.soft = true, c.cfg.AllowEvictSoftPinned
	c.startVictims()
	c.placer.needer = needer(c.s.shares.match(w.key, w.o.Tenant))
	wanted := map[uint16]uint64{n: bytes}
	if c.pickOf(&a, wanted, limits.VictimsMax); len(wanted) > 0 {
		c.spareVictims()
		return
	}
	c.evictTenants(w.now)
}

// keepQuotas brings tenants that have nearly, or more than, what they may back below the mark. It evicts a slice.
func (c *Catalog) keepQuotas(now Time, out *Swept) (more bool) {
	mark := c.cfg.TenantWatermark
	if !c.quotas.on || mark <= 0 {
		return false
	}
	c.shareOut()
	var wanted map[uint16]uint64
	for name, q := range c.quotas.byName {
		n, ok := c.s.shares.tenantTable.byName[name]
		if !ok && name != defaultTenant {
			continue
		}
		charged := c.s.shares.tenantTable.list[n].charged()
		if float64(charged) <= mark*float64(q.effective) {
			continue
		}
		if wanted == nil {
			wanted = map[uint16]uint64{}
		}
		low := uint64(max(0, mark-c.cfg.EvictionRatio) * float64(q.effective))
		wanted[n] = charged - low
	}
	if wanted == nil {
		return false
	}
	c.heedReads()
	a := ask{now: now}
	c.startVictims()
	c.placer.needer = forWatermark
	if c.pickOf(&a, wanted, limits.CatalogSliceItems) {
		c.pickOnward(&a, wanted)
	}
	if len(c.placer.victims) == 0 {
		return false
	}
	keys, bytes := c.stats.EvictedKeys, c.stats.EvictedBytes
	if !c.evictTenants(now) {
		return false // one was read in the meantime: the next sweep chooses anew
	}
	out.EvictedKeys += c.stats.EvictedKeys - keys
	out.EvictedBytes += c.stats.EvictedBytes - bytes
	return true
}

// pickOf adds victims among what is oldest of some tenants, until each has given what is wanted of it. It reports whether
// it gave up before it had seen all.
func (c *Catalog) pickOf(a *ask, wanted map[uint16]uint64, most int) (more bool) {
	order := c.order(0, 0)
	steps := limits.TenantWalk
	for _, list := range victimLists {
		if !a.takes(list) {
			continue
		}
		w := order.walk(c.s.agesOf(list), a.now)
		for v := c.candidate(&w, a.now); v != 0; v = c.candidate(&w, a.now) {
			if len(wanted) == 0 || len(c.placer.victims) >= most {
				return false
			}
			if steps--; steps < 0 {
				return true
			}
			c.pickFor(a, order, v, wanted)
		}
	}
	return false
}

// pickOnward goes on through the records, wherever it ended last time: behind everything that is older than a tenant's
// own objects.
func (c *Catalog) pickOnward(a *ask, wanted map[uint16]uint64) {
	order := c.order(0, 0)
	for range limits.TenantWalk {
		if len(wanted) == 0 || len(c.placer.victims) >= limits.CatalogSliceItems {
			return
		}
		n := c.s.scan(&c.quotas.at)
		if n == 0 {
			c.quotas.at = cursor{}
			return
		}
		v := c.wholeOf(n)
		if a.takes(c.s.node(v).list) && c.age(v, a.now) <= bucketOf(int64(a.now)) {
			c.pickFor(a, order, v, wanted)
		}
	}
}

// pickFor adds a victim if it is of a tenant of which something is wanted.
func (c *Catalog) pickFor(a *ask, order *order, v name, wanted map[uint16]uint64) {
	n := c.s.record(c.firstOf(v)).tenant
	left, ok := wanted[n]
	if !ok || c.s.record(c.firstOf(v)).marks&markVictim != 0 || c.stays(v, a) || !c.yields(order, v) {
		return
	}
	from := len(c.placer.victims)
	c.addVictims(v)
	c.gone(order, v)
	for _, m := range c.placer.victims[from:] {
		left -= min(left, c.s.bytesOf(m))
	}
	if wanted[n] = left; left == 0 {
		delete(wanted, n)
	}
}

// evictTenants evicts the victims, and counts what each tenant lost.
func (c *Catalog) evictTenants(now Time) bool {
	type loss struct {
		tenant string
		bytes  uint64
	}
	var lost []loss
	for _, v := range c.placer.victims {
		lost = append(lost, loss{cmp.Or(c.s.shares.name(c.s.record(v).tenant), defaultTenant), c.s.bytesOf(v)})
	}
	if len(lost) == 0 || !c.evict(now) {
		return false
	}
	for _, l := range lost {
		if q := c.quotas.byName[l.tenant]; q != nil {
			q.evictedBytes += l.bytes
		}
	}
	return true
}
