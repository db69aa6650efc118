package catalog

import (
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
	bundles map[string]*modelBundle
	held    []modelRange
	away    []Departure // gone, but their writes are not ended yet
	swept   Time
	started bool
	rules   []Workload
	now     Time
	since   Time // from when on the idle are watched
}

type modelObject struct {
	key, group string
	tenant     string
	client     UUID
	size       uint64
	time       Time
	open       bool
	lease      Time
	handed     Time
	next       *modelObject // the write that will replace it
	hard       bool
	pin        Time
	asks       bool
	ask        Time // life of the soft pin asked for
	sum        uint64
	hasSum     bool
	replicas   []Replica
}

type modelClient struct {
	ok       bool
	ping     Time
	stage    Stage
	reported bool
}

type modelUnit struct {
	lease, touch Time
	blocked      Time // when it last could not end whatever its age
	knotted      Time // when it last went together with others
}

type modelRange struct {
	seg           UUID
	off, size     uint64
	until, handed Time
	writer        UUID // whose death shortens the wait
	began         Time
}

func newModel(cfg Config) *model {
	return &model{
		cfg: cfg, objects: map[string]*modelObject{}, segs: map[UUID]SegmentInfo{},
		clients: map[UUID]*modelClient{}, units: map[string]*modelUnit{}, bundles: map[string]*modelBundle{},
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
	for _, o := range m.all() {
		if unitOf(o) == unit {
			list = append(list, o)
		}
	}
	return list
}

// all lists the objects and the writes that will replace some of them.
func (m *model) all() (list []*modelObject) {
	for _, o := range m.objects {
		if list = append(list, o); o.next != nil {
			list = append(list, o.next)
		}
	}
	return list
}

// stage gives the stage of the owner of a segment.
func (m *model) stage(seg UUID) Stage { return m.clients[m.segs[seg].Client].stage }

func (m *model) lost(o *modelObject) bool {
	return !slices.ContainsFunc(o.replicas, func(r Replica) bool { return m.stage(r.Segment.ID) < StageLost })
}

// hold tells until when a reader may be at the ranges of an object.
func (m *model) hold(now Time, o *modelObject) (until, handed Time) {
	if until = o.handed + Time(m.cfg.LeaseMs); o.handed == 0 || until <= now {
		return 0, 0
	}
	return until, o.handed
}

// outlast puts the end of a quarantine off until no reader can be at an object that is written over in place.
func (m *model) outlast(now Time, o *modelObject, until Time) Time {
	readers, _ := m.hold(now, o)
	return max(until, readers)
}

// inPlace tells whether no copy of an object is of a silent client.
func (m *model) inPlace(o *modelObject) bool {
	return !slices.ContainsFunc(o.replicas, func(r Replica) bool { return m.stage(r.Segment.ID) > StageSuspect })
}

func (m *model) add(o *modelObject) {
	if old := m.objects[o.key]; old != nil {
		old.next = o
	} else {
		m.objects[o.key] = o
	}
	if name := unitOf(o); name != "" {
		if m.units[name] == nil {
			m.units[name] = &modelUnit{}
		}
		m.units[name].touch = max(m.units[name].touch, o.time)
	}
	m.joined(o)
}

func (m *model) drop(o *modelObject, cause Cause, until, handed Time) {
	for _, r := range o.replicas {
		if _, mounted := m.segs[r.Segment.ID]; mounted && until > 0 {
			h := modelRange{seg: r.Segment.ID, off: r.Offset, size: r.Size, until: until, handed: handed}
			if handed == Never && o.handed == 0 {
				h.writer, h.began = o.client, o.time
			}
			m.held = append(m.held, h)
		}
	}
	switch first := m.objects[o.key]; {
	case first != o:
		if first.next = nil; first.client == o.client {
			first.client = UUID{}
		}
	case o.next != nil:
		m.objects[o.key] = o.next
	default:
		delete(m.objects, o.key)
	}
	if name := unitOf(o); name != "" && len(m.members(name)) == 0 {
		delete(m.units, name)
	}
	m.left(o, cause)
}

func (m *model) invalid(key string, size uint64, o *PutOptions) bool {
	return key == "" || size == 0 || o.Replicas == 0 || o.SoftPin > SoftPinDisable ||
		o.SoftPinTTLSet && (o.SoftPin != SoftPinEnable || o.SoftPinTTLMs > m.cfg.MaxSoftPinMs)
}

// putStart gives the error that must come, or what must be dropped first when a place is found.
func (m *model) putStart(now Time, id UUID, key string, size uint64, o *PutOptions) (old *modelObject, err error) {
	if m.invalid(key, size, o) {
		return nil, ErrInvalidParams
	}
	if m.late(now, id, key) {
		return nil, ErrUnavailableStatus
	}
	old = m.objects[key]
	if old != nil && !m.lost(old) && (!old.open || old.time+Time(m.cfg.PutDiscardMs) >= now) {
		return nil, ErrObjectExists
	}
	return old, nil
}

// makeWay drops what a put that found its places, or a removal, takes the place of.
func (m *model) makeWay(now Time, old *modelObject) {
	release := now + Time(m.cfg.PutReleaseMs)
	if m.lost(old) {
		if old.next != nil {
			m.drop(old.next, CauseDiscard, release, Never)
		}
		if old.open {
			m.drop(old, CauseLost, m.outlast(now, old, release), Never)
			return
		}
		until, handed := m.hold(now, old)
		m.drop(old, CauseLost, until, handed)
		return
	}
	until := m.outlast(now, old, old.time+Time(m.cfg.PutReleaseMs))
	if until <= now {
		until = 0
	}
	m.drop(old, CauseDiscard, until, Never)
}

// created notes a write that found its places. From is the object that it will replace, or an unfinished one that it
// pushed aside.
func (m *model) created(now Time, id UUID, key string, size uint64, o *PutOptions, replicas []Replica, from *modelObject) *modelObject {
	n := &modelObject{key: key, group: o.Group, tenant: o.Tenant, client: id, size: size, time: now, open: true, hard: o.HardPin, replicas: slices.Clone(replicas)}
	if from != nil {
		n.group = from.group
		switch {
		case from.open && from.pin > now:
			n.pin = from.pin
		case !from.open && from.size == size:
			n.hard = from.hard
		case !from.open:
			n.hard = n.hard || from.hard
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
	o, err := m.written(id, key)
	if err != nil || !o.open {
		return err
	}
	if old := m.objects[key]; old != o {
		until, handed := m.hold(now, old)
		o.pin, old.pin = old.pin, 0
		m.drop(old, CauseUpsert, until, handed)
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
	m.wrote(o)
	return nil
}

// written finds what a client wrote under a key.
func (m *model) written(id UUID, key string) (*modelObject, error) {
	o := m.objects[key]
	if o == nil {
		return nil, ErrObjectNotFound
	}
	if o.next != nil {
		o = o.next
	}
	if o.client != id {
		return nil, ErrIllegalClient
	}
	return o, nil
}

func (m *model) putRevoke(now Time, id UUID, key string) error {
	o, err := m.written(id, key)
	if err != nil {
		return err
	}
	if !o.open {
		return ErrInvalidWrite
	}
	until, handed := m.hold(now, o)
	m.drop(o, CauseRevoke, until, handed)
	return nil
}

func (m *model) softPin(now Time, key string, ttlMs int64) error {
	if key == "" || ttlMs > m.cfg.MaxSoftPinMs {
		return ErrInvalidParams
	}
	o, _, err := m.readable(key)
	if err != nil {
		return err
	}
	o.pin = 0
	if ttlMs > 0 {
		o.pin = now + Time(ttlMs)
	}
	return nil
}

func (m *model) readable(key string) (o *modelObject, replicas []Replica, err error) {
	o = m.objects[key]
	if o == nil {
		return nil, nil, ErrObjectNotFound
	}
	best := StageGone
	err = ErrObjectNotFound
	for _, r := range o.replicas {
		switch stage := m.stage(r.Segment.ID); {
		case stage == StageLost:
		case o.open || stage == StageSuspected:
			err = ErrNotReady
		default:
			best = min(best, stage)
		}
	}
	if best == StageGone {
		return nil, nil, err
	}
	if b := m.bundles[bundle.Prefix(key)]; b != nil && b.lost > 0 && m.cfg.HideDamagedBundles && strings.HasSuffix(key, "/manifest") {
		return nil, nil, ErrObjectNotFound
	}
	for _, r := range o.replicas {
		if m.stage(r.Segment.ID) == best {
			replicas = append(replicas, r)
		}
	}
	return o, replicas, nil
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

func (m *model) remove(now Time, key string, force, abort bool) error {
	o := m.objects[key]
	if o == nil {
		return ErrObjectNotFound
	}
	if m.lost(o) {
		until, handed := m.hold(now, o)
		if o.open {
			until, handed = m.outlast(now, o, now+Time(m.cfg.PutReleaseMs)), Never
		}
		m.drop(o, CauseLost, until, handed)
		if next := m.objects[key]; next != nil && m.lost(next) {
			return m.remove(now, key, force, abort)
		}
		return ErrObjectNotFound
	}
	writing := o.open || o.next != nil
	switch {
	case !force && m.leased(now, o):
		return ErrHasLease
	case writing && !(force && abort):
		return ErrNotReady
	}
	release := now + Time(m.cfg.PutReleaseMs)
	if o.next != nil {
		m.drop(o.next, CauseAbort, release, Never)
	}
	if o.open {
		m.drop(o, CauseAbort, m.outlast(now, o, release), Never)
		return nil
	}
	until, handed := m.hold(now, o)
	m.drop(o, CauseRemove, until, handed)
	return nil
}

// dead ends the writes of a client.
func (m *model) dead(now Time, d Departure) (n int) {
	for _, b := range m.bundles {
		if len(m.parts(b)) > 0 && b.client == d.Client && b.lastWrite <= d.At && b.published == 0 && b.deadAt == 0 && !b.writers {
			b.deadAt = now
		}
	}
	for _, o := range m.all() {
		if o.open && o.client == d.Client && o.time <= d.At {
			m.drop(o, CauseDead, m.outlast(now, o, now+Time(m.cfg.WriterQuarantineMs)), Never)
			n++
		}
	}
	for i := range m.held {
		if h := &m.held[i]; h.writer == d.Client && h.began <= d.At {
			h.until = min(h.until, now+Time(m.cfg.WriterQuarantineMs))
		}
	}
	return n
}

func (m *model) removeMatching(now Time, match func(string) bool, force bool) (n int64) {
	for key := range m.objects {
		if match(key) && m.remove(now, key, force, false) == nil {
			n++
		}
	}
	return n
}

func (m *model) unmount(id UUID) {
	delete(m.segs, id)
	m.held = slices.DeleteFunc(m.held, func(r modelRange) bool { return r.seg == id })
	for _, o := range m.all() {
		o.replicas = slices.DeleteFunc(o.replicas, func(r Replica) bool { return r.Segment.ID == id })
		if len(o.replicas) == 0 {
			m.drop(o, 0, 0, 0)
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
		_ = m.mount(now, id, s)
	}
	c.ok = true
	return nil
}

func (m *model) touch(now Time, id UUID) *modelClient {
	if m.clients[id] == nil {
		m.clients[id] = &modelClient{}
	}
	c := m.clients[id]
	c.ping, c.stage, c.reported = now, StageActive, false
	return m.clients[id]
}

func (m *model) mount(now Time, id UUID, s Segment) error {
	if s.Base == 0 || s.Size == 0 {
		return ErrInvalidParams
	}
	if have, ok := m.segs[s.ID]; ok && have.Client != id {
		if m.stage(s.ID) < StageSuspected {
			return ErrInvalidParams
		}
		m.forget(now, have.Client)
	}
	if have, ok := m.segs[s.ID]; ok {
		if have.Base != s.Base || have.Size != s.Size {
			return ErrInvalidParams
		}
		return nil
	}
	gone := map[UUID]bool{}
	for _, have := range m.segs {
		stage, other := m.stage(have.ID), have.Client != id
		overlap := have.Endpoint == s.Endpoint && s.Base < have.Base+have.Size && have.Base < s.Base+s.Size
		switch {
		case other && have.Endpoint == s.Endpoint && stage >= StageSuspected, other && overlap && stage == StageSuspect,
			other && have.Name == s.Name && stage == StageLost:
			gone[have.Client] = true
		case overlap:
			return ErrInvalidParams
		}
	}
	for other := range gone {
		m.forget(now, other)
	}
	m.segs[s.ID] = SegmentInfo{s, id}
	return nil
}

func (m *model) forget(now Time, id UUID) {
	for seg, info := range m.segs {
		if info.Client == id {
			m.unmount(seg)
		}
	}
	delete(m.clients, id)
	m.away = append(m.away, Departure{id, now - 1})
}
