package master

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

// InspectSource is what the lists of clients, segments, objects and tasks show. Its methods may be called from any goroutine,
// take no lease and hold no lock for longer than a slice of their work.
type InspectSource interface {
	// Clients lists the clients that are connected or own segments, by id.
	Clients() []ClientInfo
	// AllSegments lists the segments of all clients, lost ones too.
	AllSegments() []catalog.SegmentStatus
	// Verdict tells whether the endpoint of a segment answered when it was mounted.
	Verdict(client catalog.UUID, endpoint string) Verdict
	// KeysFrom lists up to limit readable keys of a tenant that begin with prefix and come behind after, in the order of bytes.
	KeysFrom(tenant, prefix, after string, limit int) (keys []string, more bool)
	// Peek returns the copies of a tenant's object without a lease.
	Peek(tenant, key string) (catalog.Object, []catalog.Replica, error)
	// Tasks lists the tasks by the time they were made.
	Tasks() []TaskInfo
	// Healing tells how far objects with too few copies have come.
	Healing() HealInfo
	// Integrity tells of sums and of copies that did not have them; ScrubNow has all daemons look at everything now, and
	// ReleaseCorrupt lets ranges of a segment, or of all with "", be used again. Both return how many.
	Integrity() IntegrityInfo
	ScrubNow() int
	ReleaseCorrupt(segment string) int
}

// ClientInfo is what is known of a client.
type ClientInfo struct {
	ID          catalog.UUID
	Stage       catalog.Stage
	Release     string // as far as its calls showed it
	Address     string // of its last connection
	Connections int
	SilentMs    int64 // since its last ping; -1 is never
	Segments    int
	Capacity    uint64
	Used        uint64
	Objects     uint64
}

// TaskInfo is a copy or move that a client was asked for.
type TaskInfo struct {
	ID      wire.UUID
	Kind    wire.TaskType
	Status  wire.TaskStatus
	Client  wire.UUID
	Created catalog.Time
	Updated catalog.Time
	Message string
}

// Clients implements InspectSource.
func (s *Service) Clients() []ClientInfo {
	seen := map[catalog.UUID]*ClientInfo{}
	of := func(id catalog.UUID) *ClientInfo {
		if seen[id] == nil {
			seen[id] = &ClientInfo{ID: id, Stage: s.cat.ClientStage(id), Release: familyUnknown.String(), SilentMs: -1}
		}
		return seen[id]
	}
	now := time.Now()
	s.families.each(func(c *peerClient) {
		info := of(clientID(c.id))
		info.Release, info.Connections = c.fam.String(), c.conns
		if c.peer.IsValid() {
			info.Address = c.peer.String()
		}
		if !c.pinged.IsZero() {
			info.SilentMs = max(0, now.Sub(c.pinged).Milliseconds())
		}
	})
	for _, seg := range s.cat.AllSegments() {
		info := of(seg.Client)
		info.Segments++
		info.Capacity += seg.Size
		info.Used += seg.Used
		info.Objects += seg.ObjectCount
	}
	out := make([]ClientInfo, 0, len(seen))
	for _, info := range seen {
		out = append(out, *info)
	}
	slices.SortFunc(out, func(a, b ClientInfo) int { return compareIDs(a.ID, b.ID) })
	return out
}

// each visits what is remembered of the clients. visit must be short.
func (r *familyRegistry) each(visit func(c *peerClient)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		visit(c)
	}
}

// addressOf is where a client called from last; "" if it is not known.
func (r *familyRegistry) addressOf(id catalog.UUID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[wireID(id)]; c != nil && c.peer.IsValid() {
		return c.peer.String()
	}
	return ""
}

func compareIDs(a, b catalog.UUID) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// AllSegments implements InspectSource.
func (s *Service) AllSegments() []catalog.SegmentStatus { return s.cat.AllSegments() }

// Verdict implements InspectSource.
func (s *Service) Verdict(client catalog.UUID, endpoint string) Verdict {
	return s.suspicion.verdict(client, endpoint)
}

// KeysFrom implements InspectSource. It looks at every key, in slices, and keeps no more than twice the page.
func (s *Service) KeysFrom(tenant, prefix, after string, limit int) (keys []string, more bool) {
	last := "" // of the page as it stands
	cut := func() {
		slices.Sort(keys)
		if len(keys) > limit {
			keys, more = keys[:limit], true
			last = keys[limit-1]
		}
	}
	for key := range s.cat.Keys {
		of, plain := s.plainKey(key)
		if of != tenant || plain <= after && after != "" || !strings.HasPrefix(plain, prefix) || more && plain > last {
			continue
		}
		if keys = append(keys, strings.Clone(plain)); len(keys) >= 2*limit {
			cut()
		}
	}
	cut()
	return keys, more
}

// Peek implements InspectSource.
func (s *Service) Peek(tenant, key string) (catalog.Object, []catalog.Replica, error) {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return catalog.Object{}, nil, catalog.ErrInvalidParams
	}
	return s.cat.Peek(kept, nil)
}

// Tasks implements InspectSource.
func (s *Service) Tasks() []TaskInfo {
	list := s.tasks.list()
	slices.SortFunc(list, func(a, b TaskInfo) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), compareIDs(clientID(a.ID), clientID(b.ID)))
	})
	return list
}

func (b *taskBook) list() []TaskInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]TaskInfo, 0, len(b.byID))
	for _, t := range b.byID {
		out = append(out, TaskInfo{t.id, t.kind, t.status, t.client, t.created, t.updated, t.message})
	}
	return out
}

// Clients implements InspectSource.
func (c *cluster) Clients() (out []ClientInfo) {
	c.leading(func(s *Service) { out = s.Clients() })
	return out
}

// AllSegments implements InspectSource.
func (c *cluster) AllSegments() (out []catalog.SegmentStatus) {
	c.leading(func(s *Service) { out = s.AllSegments() })
	return out
}

// Verdict implements InspectSource.
func (c *cluster) Verdict(client catalog.UUID, endpoint string) (v Verdict) {
	c.leading(func(s *Service) { v = s.Verdict(client, endpoint) })
	return v
}

// KeysFrom implements InspectSource.
func (c *cluster) KeysFrom(tenant, prefix, after string, limit int) (keys []string, more bool) {
	c.leading(func(s *Service) { keys, more = s.KeysFrom(tenant, prefix, after, limit) })
	return keys, more
}

// Peek implements InspectSource.
func (c *cluster) Peek(tenant, key string) (o catalog.Object, replicas []catalog.Replica, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { o, replicas, err = s.Peek(tenant, key) })
	return o, replicas, err
}

// Tasks implements InspectSource.
func (c *cluster) Tasks() (out []TaskInfo) {
	c.leading(func(s *Service) { out = s.Tasks() })
	return out
}
