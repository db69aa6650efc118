package master

import (
	"maps"
	"net/http"
	"slices"

	"mooncake/catalog"
)

// placedView is one copy of an object and where it lies.
type placedView struct {
	Replica  uint64 `json:"replica_id"`
	Complete bool   `json:"complete"`
	Bytes    uint64 `json:"bytes"`
	Medium   string `json:"medium"` // memory, file or disk
	Segment  string `json:"segment,omitempty"`
	ID       string `json:"segment_id,omitempty"`
	Client   string `json:"client_id,omitempty"`
	Host     string `json:"host,omitempty"`
	Endpoint string `json:"transport_endpoint,omitempty"`
	Address  uint64 `json:"buffer_address,omitempty"`
	File     string `json:"file_path,omitempty"`
}

// hostView is what a machine gives to the pool.
type hostView struct {
	Host        string `json:"host"`
	Segments    int    `json:"segments"`
	Capacity    uint64 `json:"capacity_bytes"`
	Used        uint64 `json:"used_bytes"`
	LargestFree uint64 `json:"largest_free_bytes"`
	Objects     uint64 `json:"replicas"`
}

// servePlacement tells where the copies of an object lie, or without a key how the pool is spread over machines. It takes no
// lease.
func (a *Admin) servePlacement(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	raw, given := queryValue(r.URL.RawQuery, "key")
	if !given {
		a.serveHosts(w, &q)
		return
	}
	key := percentDecoded(raw)
	o, replicas, err := a.inspect.Peek(q.tenant, key)
	if err != nil {
		replyCode(w, err)
		return
	}
	views := make([]placedView, len(replicas))
	for i := range replicas {
		views[i] = a.viewOfPlaced(key, &replicas[i])
	}
	replyJSON(w, http.StatusOK, struct {
		Key      string       `json:"key"`
		Bytes    uint64       `json:"bytes"`
		HardPin  bool         `json:"hard_pin"`
		Replicas []placedView `json:"replicas"`
	}{printable(key), o.Size, o.HardPin, views})
}

func (a *Admin) viewOfPlaced(key string, r *catalog.Replica) placedView {
	v := placedView{Replica: r.ID, Complete: r.Status == catalog.ReplicaComplete, Bytes: r.Size}
	switch {
	case r.Disk == nil:
		s := catalog.SegmentStatus{SegmentInfo: *r.Segment}
		v.Medium, v.Segment, v.ID, v.Client = "memory", printable(s.Name), s.ID.String(), s.Client.String()
		v.Host, v.Endpoint, v.Address = printable(hostOf(&s)), printable(s.Endpoint), s.Base+r.Offset
	case r.Disk.Owner == catalog.UUID{}:
		v.Medium, v.File = "file", printable(a.source.FilePath(key))
	default:
		v.Medium, v.Client, v.Endpoint = "disk", r.Disk.Owner.String(), printable(r.Disk.Endpoint)
	}
	return v
}

// serveHosts lists machines by name.
func (a *Admin) serveHosts(w http.ResponseWriter, q *listQuery) {
	byName := map[string]*hostView{}
	for _, s := range a.inspect.AllSegments() {
		name := hostOf(&s)
		h := byName[name]
		if h == nil {
			h = &hostView{Host: printable(name)}
			byName[name] = h
		}
		h.Segments++
		h.Capacity += s.Size
		h.Used += s.Used
		h.Objects += s.ObjectCount
		h.LargestFree = max(h.LargestFree, s.LargestFree)
	}
	names := slices.Sorted(maps.Keys(byName))
	self := func(name *string) string { return *name }
	names, next := pageOfList(names, q, func(name *string) bool { return *name > q.after }, self, self)
	views := make([]hostView, len(names))
	for i, name := range names {
		views[i] = *byName[name]
	}
	replyJSON(w, http.StatusOK, struct {
		Hosts []hostView `json:"hosts"`
		Next  string     `json:"next"`
	}{views, percentEncoded(next)})
}
