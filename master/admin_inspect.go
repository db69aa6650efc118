package master

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mooncake/catalog"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// Lists of clients, segments, objects and tasks, page by page. Each has an order that does not change while nothing comes or
// goes; `next` is empty at the end, else after= with it continues.

// inspectPages are the pages of the lists.
func (a *Admin) inspectPages() map[string]page {
	return map[string]page{
		"/api/v1/clients":   {serve: a.serveClients, servicePlane: true},
		"/api/v1/segments":  {serve: a.serveSegmentList, servicePlane: true},
		"/api/v1/objects":   {serve: a.serveObjects, servicePlane: true},
		"/api/v1/placement": {serve: a.servePlacement, servicePlane: true},
		"/api/v1/tasks":     {serve: a.serveTasks, servicePlane: true},
		"/api/v1/healing":   {serve: a.serveHealing, servicePlane: true},
	}
}

// listQuery is what a list is asked for.
type listQuery struct {
	prefix, after, tenant string
	limit                 int
}

func listAsked(r *http.Request) (q listQuery, err error) {
	q.limit = limits.InspectPage
	text := func(name string) string {
		raw, _ := queryValue(r.URL.RawQuery, name)
		return percentDecoded(raw)
	}
	q.prefix, q.after, q.tenant = text("prefix"), text("after"), defaultTenant
	if raw, given := queryValue(r.URL.RawQuery, "limit"); given {
		q.limit, err = strconv.Atoi(raw)
		if err != nil || q.limit < 1 || q.limit > limits.InspectPageMax {
			return q, fmt.Errorf("limit=%s is no whole number from 1 to %d", quoted(raw), limits.InspectPageMax)
		}
	}
	if name, given := tenantAsked(r); given {
		var ok bool
		if q.tenant, ok = catalog.TenantName(name); !ok {
			return q, fmt.Errorf("tenant_id=%s is no name of a tenant", quoted(name))
		}
	}
	return q, nil
}

// pageOfList cuts a page out of a list in order: of what has the prefix and comes behind the cursor of the query. The item that
// the cursor names may be gone.
func pageOfList[T any](list []T, q *listQuery, behind func(*T) bool, name, cursor func(*T) string) (out []T, next string) {
	for i := range list {
		item := &list[i]
		if q.after != "" && !behind(item) || !strings.HasPrefix(name(item), q.prefix) {
			continue
		}
		if len(out) == q.limit {
			return out, cursor(&out[len(out)-1])
		}
		out = append(out, *item)
	}
	return out, ""
}

// asked reads the query of a list; it answers itself when that is wrong.
func asked(w http.ResponseWriter, r *http.Request) (q listQuery, ok bool) {
	q, err := listAsked(r)
	if err != nil {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, err.Error())
	}
	return q, err == nil
}

// clientView is a client as it is printed.
type clientView struct {
	ID          string `json:"client_id"`
	Stage       string `json:"stage"`
	Release     string `json:"release"`
	Address     string `json:"address"`
	Connections int    `json:"connections"`
	SilentMs    int64  `json:"silent_ms"` // -1: never heard as an owner
	Segments    int    `json:"segments"`
	Capacity    uint64 `json:"capacity_bytes"`
	Used        uint64 `json:"used_bytes"`
	Objects     uint64 `json:"replicas"`
}

func (a *Admin) serveClients(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	id := func(c *ClientInfo) string { return c.ID.String() }
	list, next := pageOfList(a.inspect.Clients(), &q, func(c *ClientInfo) bool { return afterID(c.ID, q.after) }, id, id)
	views := make([]clientView, len(list))
	for i, c := range list {
		views[i] = clientView{
			c.ID.String(), c.Stage.String(), c.Release, c.Address, c.Connections, c.SilentMs, c.Segments, c.Capacity, c.Used, c.Objects,
		}
	}
	replyJSON(w, http.StatusOK, struct {
		Clients []clientView `json:"clients"`
		Next    string       `json:"next"`
	}{views, next})
}

// afterID tells whether an id comes behind one that is written down; nothing does behind what is no id.
func afterID(id catalog.UUID, text string) bool {
	cursor, err := wire.ParseUUID(text)
	return err == nil && compareIDs(id, clientID(cursor)) > 0
}

// segmentView is a segment as it is printed.
type segmentView struct {
	Name        string `json:"segment"`
	ID          string `json:"segment_id"`
	Client      string `json:"client_id"`
	Stage       string `json:"client_stage"`
	State       string `json:"status"`
	Host        string `json:"host"`
	Endpoint    string `json:"transport_endpoint"`
	Protocol    string `json:"protocol"`
	Reached     string `json:"endpoint_state"`
	Size        uint64 `json:"size_bytes"`
	Used        uint64 `json:"used_bytes"`
	Quarantined uint64 `json:"quarantined_bytes"`
	LargestFree uint64 `json:"largest_free_bytes"`
	Objects     uint64 `json:"replicas"`
	Note        string `json:"note"`
}

// hostOf is the machine that a segment is on, as far as it says.
func hostOf(s *catalog.SegmentStatus) string {
	if s.HostID != "" {
		return s.HostID
	}
	if host, _, err := hostport.Parse(s.Endpoint, 0); err == nil {
		return host
	}
	return s.Endpoint
}

func (a *Admin) viewOfSegment(s *catalog.SegmentStatus) segmentView {
	return segmentView{
		Name: printable(s.Name), ID: s.ID.String(), Client: s.Client.String(), Stage: s.Stage.String(), State: stateName(s.Status),
		Host: printable(hostOf(s)), Endpoint: printable(s.Endpoint), Protocol: printable(s.Protocol), Reached: a.inspect.Verdict(s.Client, s.Endpoint).String(),
		Size: s.Size, Used: s.Used, Quarantined: s.Quarantined, LargestFree: s.LargestFree, Objects: s.ObjectCount, Note: printable(s.Note),
	}
}

// segmentsInOrder lists all segments by id: names need not be unique.
func (a *Admin) segmentsInOrder() []catalog.SegmentStatus {
	list := a.inspect.AllSegments()
	slices.SortFunc(list, func(x, y catalog.SegmentStatus) int { return compareIDs(x.ID, y.ID) })
	return list
}

func (a *Admin) serveSegmentList(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	list, next := pageOfList(a.segmentsInOrder(), &q, func(s *catalog.SegmentStatus) bool { return afterID(s.ID, q.after) },
		func(s *catalog.SegmentStatus) string { return s.Name }, func(s *catalog.SegmentStatus) string { return s.ID.String() })
	views := make([]segmentView, len(list))
	for i := range list {
		views[i] = a.viewOfSegment(&list[i])
	}
	replyJSON(w, http.StatusOK, struct {
		Segments []segmentView `json:"segments"`
		Next     string        `json:"next"`
	}{views, next})
}

// objectView is an object as it is printed.
type objectView struct {
	Key      string `json:"key"`
	Bytes    uint64 `json:"bytes"`
	Replicas int    `json:"replicas"`
	OnDisk   bool   `json:"only_on_disk"`
	HardPin  bool   `json:"hard_pin"`
}

func (a *Admin) serveObjects(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	keys, more := a.inspect.KeysFrom(q.tenant, q.prefix, q.after, q.limit)
	views, next := []objectView{}, ""
	for _, key := range keys {
		o, replicas, err := a.inspect.Peek(q.tenant, key)
		if err != nil {
			continue // it went meanwhile
		}
		views = append(views, objectView{printable(key), o.Size, len(replicas), o.OnDisk, o.HardPin})
	}
	if more {
		next = percentEncoded(keys[len(keys)-1])
	}
	replyJSON(w, http.StatusOK, struct {
		Objects []objectView `json:"objects"`
		Next    string       `json:"next"`
	}{views, next})
}

// taskView is a task as it is printed.
type taskView struct {
	ID      string       `json:"task_id"`
	Kind    string       `json:"type"`
	Status  string       `json:"status"`
	Client  string       `json:"client_id"`
	Created catalog.Time `json:"created_at_ms_epoch"`
	Updated catalog.Time `json:"last_updated_at_ms_epoch"`
	Message string       `json:"message"`
}

func (a *Admin) serveTasks(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	// The order is that of their making, so the cursor has the time as well.
	cursor := func(t *TaskInfo) string { return fmt.Sprintf("%d-%s", t.Created, t.ID) }
	behind := func(t *TaskInfo) bool {
		at, id, _ := strings.Cut(q.after, "-")
		created, err := strconv.ParseInt(at, 10, 64)
		return err == nil && (int64(t.Created) > created || int64(t.Created) == created && afterID(clientID(t.ID), id))
	}
	list, next := pageOfList(a.inspect.Tasks(), &q, behind, func(t *TaskInfo) string { return t.Status.String() }, cursor)
	views := make([]taskView, len(list))
	for i, t := range list {
		views[i] = taskView{t.ID.String(), t.Kind.String(), t.Status.String(), t.Client.String(), t.Created, t.Updated, printable(t.Message)}
	}
	replyJSON(w, http.StatusOK, struct {
		Tasks []taskView `json:"tasks"`
		Next  string     `json:"next"`
	}{views, next})
}

// serveHealing shows how far objects with too few copies have come.
func (a *Admin) serveHealing(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, a.inspect.Healing())
}
