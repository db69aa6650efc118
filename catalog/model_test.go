package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mooncake/bundle"
)

// model is a naive master: maps, no leases in clever places, no order. It answers every call as the Catalog must, save
// where the Catalog may choose: which place, and which victims. Those it takes over, after judging them.
type model struct {
	cfg     Config
	objects map[string]*modelObject
	segs    map[UUID]SegmentInfo
	clients map[UUID]*modelClient
	units   map[string]*modelUnit
	held    []modelRange
	swept   Time
	started bool
}

type modelObject struct {
	key, group string
	client     UUID
	size       uint64
	time       Time
	open       bool
	lease      Time
	hard       bool
	pin        Time
	asks       bool
	ask        Time // life of the soft pin asked for
	sum        uint64
	hasSum     bool
	replicas   []Replica
}

type modelClient struct {
	ok   bool
	ping Time
}

type modelUnit struct{ lease, touch Time }

type modelRange struct {
	seg          UUID
	off, size    uint64
	until, early Time
}

func newModel(cfg Config) *model {
	return &model{
		cfg: cfg, objects: map[string]*modelObject{}, segs: map[UUID]SegmentInfo{},
		clients: map[UUID]*modelClient{}, units: map[string]*modelUnit{},
	}
}

// unitOf names what goes together: a group, a bundle without group, or nothing.
func unitOf(o *modelObject) string {
	if o.group != "" {
		return "group " + o.group
	}
	if prefix := bundle.Prefix(o.key); prefix != "" {
		return "bundle " + prefix
	}
	return ""
}

func (m *model) unit(o *modelObject) *modelUnit { return m.units[unitOf(o)] }

func (m *model) members(unit string) (list []*modelObject) {
	for _, o := range m.objects {
		if unitOf(o) == unit {
			list = append(list, o)
		}
	}
	return list
}

func (m *model) add(o *modelObject) {
	m.objects[o.key] = o
	if name := unitOf(o); name != "" {
		if m.units[name] == nil {
			m.units[name] = &modelUnit{}
		}
		m.units[name].touch = max(m.units[name].touch, o.time)
	}
}

func (m *model) drop(o *modelObject, until, early Time) {
	for _, r := range o.replicas {
		if _, mounted := m.segs[r.Segment.ID]; mounted && until > 0 {
			m.held = append(m.held, modelRange{r.Segment.ID, r.Offset, r.Size, until, early})
		}
	}
	delete(m.objects, o.key)
	if name := unitOf(o); name != "" && len(m.members(name)) == 0 {
		delete(m.units, name)
	}
}

func (m *model) invalid(key string, size uint64, o *PutOptions) bool {
	return key == "" || size == 0 || o.Replicas == 0 || o.SoftPin > SoftPinDisable ||
		o.SoftPinTTLSet && (o.SoftPin != SoftPinEnable || o.SoftPinTTLMs > m.cfg.MaxSoftPinMs)
}

// putStart gives the error that must come, or what must be dropped first when a place is found.
func (m *model) putStart(now Time, key string, size uint64, o *PutOptions) (old *modelObject, err error) {
	if m.invalid(key, size, o) {
		return nil, ErrInvalidParams
	}
	old = m.objects[key]
	if old != nil && (!old.open || old.time+Time(m.cfg.PutDiscardMs) >= now) {
		return nil, ErrObjectExists
	}
	return old, nil
}

// created notes a write that found its places.
func (m *model) created(now Time, id UUID, key string, size uint64, o *PutOptions, replicas []Replica, from *modelObject) *modelObject {
	n := &modelObject{key: key, group: o.Group, client: id, size: size, time: now, open: true, hard: o.HardPin, replicas: slices.Clone(replicas)}
	if from != nil {
		n.group, n.pin = from.group, from.pin
		n.hard = n.hard || from.hard && !from.open
		if n.pin <= now {
			n.pin = 0
		}
	}
	m.asked(n, o)
	m.add(n)
	return n
}

func (m *model) asked(n *modelObject, o *PutOptions) {
	n.asks, n.ask = o.SoftPin != SoftPinPreserve, 0
	if o.SoftPin == SoftPinEnable {
		n.ask = Time(m.cfg.SoftPinMs)
		if o.SoftPinTTLSet {
			n.ask = Time(o.SoftPinTTLMs)
		}
	}
}

func (m *model) putEnd(now Time, id UUID, key string, sum uint64, hasSum bool) error {
	o := m.objects[key]
	switch {
	case o == nil:
		return ErrObjectNotFound
	case o.client != id:
		return ErrIllegalClient
	case !o.open:
		return nil
	}
	o.open, o.time, o.sum, o.hasSum = false, now, sum, hasSum
	if o.asks {
		o.pin = 0
		if o.ask > 0 {
			o.pin = now + o.ask
		}
	}
	o.asks = false
	if u := m.unit(o); u != nil {
		u.touch = max(u.touch, now)
	}
	return nil
}

func (m *model) putRevoke(id UUID, key string) error {
	o := m.objects[key]
	switch {
	case o == nil:
		return ErrObjectNotFound
	case o.client != id:
		return ErrIllegalClient
	case !o.open:
		return ErrInvalidWrite
	}
	m.drop(o, 0, 0)
	return nil
}

func (m *model) readable(key string) (*modelObject, error) {
	o := m.objects[key]
	if o == nil {
		return nil, ErrObjectNotFound
	}
	if o.open {
		return nil, ErrNotReady
	}
	return o, nil
}

func (m *model) lease(now Time, o *modelObject) {
	until := now + Time(m.cfg.LeaseMs)
	if u := m.unit(o); u != nil {
		u.lease = max(u.lease, until)
		if o.group != "" {
			return
		}
	}
	o.lease = max(o.lease, until)
}

func (m *model) leased(now Time, o *modelObject) bool {
	if o.lease > now {
		return true
	}
	u := m.unit(o)
	return o.group != "" && u.lease > now && o.time <= u.lease-Time(m.cfg.LeaseMs)
}

func (m *model) remove(now Time, key string, force bool) error {
	o := m.objects[key]
	switch {
	case o == nil:
		return ErrObjectNotFound
	case !force && m.leased(now, o):
		return ErrHasLease
	case o.open:
		return ErrNotReady
	}
	m.drop(o, 0, 0)
	return nil
}

func (m *model) removeMatching(now Time, match func(string) bool, force bool) (n int64) {
	for key := range m.objects {
		if match(key) && m.remove(now, key, force) == nil {
			n++
		}
	}
	return n
}

func (m *model) unmount(id UUID) {
	delete(m.segs, id)
	m.held = slices.DeleteFunc(m.held, func(r modelRange) bool { return r.seg == id })
	for _, o := range m.objects {
		o.replicas = slices.DeleteFunc(o.replicas, func(r Replica) bool { return r.Segment.ID == id })
		if len(o.replicas) == 0 {
			m.drop(o, 0, 0)
		}
	}
}

func (m *model) remount(now Time, id UUID, list []Segment) error {
	for _, s := range list {
		if have, ok := m.segs[s.ID]; ok && (have.Segment != s || have.Client != id) {
			return ErrInvalidParams
		}
	}
	c := m.touch(now, id)
	if c.ok {
		return nil
	}
	for _, s := range list {
		m.mount(id, s)
	}
	c.ok = true
	return nil
}

func (m *model) touch(now Time, id UUID) *modelClient {
	if m.clients[id] == nil {
		m.clients[id] = &modelClient{}
	}
	m.clients[id].ping = now
	return m.clients[id]
}

func (m *model) mount(id UUID, s Segment) error {
	if s.Base == 0 || s.Size == 0 {
		return ErrInvalidParams
	}
	if _, ok := m.segs[s.ID]; !ok {
		m.segs[s.ID] = SegmentInfo{s, id}
	}
	return nil
}

// sweep does what time asks for, but for evictions.
func (m *model) sweep(now Time) {
	if gap := now - m.swept; m.started && gap > 2000 {
		for _, c := range m.clients {
			c.ping = min(now, c.ping+gap)
		}
	}
	m.swept, m.started = now, true
	for id, c := range m.clients {
		if now-c.ping > Time(m.cfg.ClientTTLMs) {
			delete(m.clients, id)
			for seg, info := range m.segs {
				if info.Client == id {
					m.unmount(seg)
				}
			}
		}
	}
	for _, o := range m.objects {
		if o.open && o.time+Time(m.cfg.PutReleaseMs) <= now {
			m.drop(o, 0, 0)
		}
	}
	m.held = slices.DeleteFunc(m.held, func(r modelRange) bool { return r.until <= now })
	for _, o := range m.objects {
		if o.pin <= now {
			o.pin = 0
		}
	}
}

// evictable judges a victim. key and group belong to the put that asks; "" when nobody does.
func (m *model) evictable(now Time, o *modelObject, key, group string, soft bool) bool {
	unit := unitOf(o)
	all := []*modelObject{o}
	if unit != "" {
		all = m.members(unit)
		u := m.units[unit]
		if u.lease > now || u.touch > now {
			return false
		}
		parts, manifests := 0, 0
		for _, x := range all {
			if _, part := bundle.Parse(x.key); part != bundle.NoPart {
				parts++
				if part == bundle.Manifest && !x.open {
					manifests++
				}
			}
		}
		if parts > 0 && manifests == 0 && u.touch+Time(m.cfg.PutDiscardMs) > now {
			return false
		}
	}
	for _, x := range all {
		prefix := bundle.Prefix(x.key)
		switch {
		case x.open, x.hard, x.pin > 0 && !soft, x.lease > now, x.time > now:
			return false
		case key != "" && (x.key == key || group != "" && x.group == group || prefix != "" && prefix == bundle.Prefix(key)):
			return false
		}
	}
	return true
}

// roomFor tells whether eviction could make room for a range on a segment.
func (m *model) roomFor(now Time, seg SegmentInfo, key, group string, size uint64, soft bool) bool {
	var walls []modelRange
	for _, o := range m.objects {
		if m.evictable(now, o, key, group, soft) {
			continue
		}
		for _, r := range o.replicas {
			if r.Segment.ID == seg.ID {
				walls = append(walls, modelRange{off: r.Offset, size: r.Size})
			}
		}
	}
	for _, r := range m.held {
		if r.seg == seg.ID && r.early > now {
			walls = append(walls, r)
		}
	}
	slices.SortFunc(walls, func(a, b modelRange) int { return cmp.Compare(a.off, b.off) })
	end := uint64(0)
	for _, w := range walls {
		if w.off-end >= size {
			return true
		}
		end = w.off + w.size
	}
	return seg.Size-end >= size
}

func (m *model) allocated() (bytes uint64) {
	for _, o := range m.objects {
		bytes += o.size * uint64(len(o.replicas))
	}
	return bytes
}

func (m *model) heldBytes() (bytes uint64) {
	for _, r := range m.held {
		bytes += r.size
	}
	return bytes
}

func (m *model) capacity() (bytes uint64) {
	for _, s := range m.segs {
		bytes += s.Size
	}
	return bytes
}

func (m *model) readableKeys() string {
	var list []string
	for key, o := range m.objects {
		if !o.open {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
