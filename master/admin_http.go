package master

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mooncake/metrics"
	"mooncake/wire"
)

// Admin answers the admin port: metrics, health and the views of objects and segments, in the forms of the published
// masters. It keeps nothing but the rates of the summary; everything else is asked of its source per request.
type Admin struct {
	source    AdminSource
	bundles   BundleSource
	workloads WorkloadSource
	drains    DrainSource
	inspect   InspectSource
	registry  *metrics.Registry
	build     metrics.Build
	summary   *summary
	pages     map[string]page
	items     map[string]page // by the path that they are below
}

// page is what one path does: get, and perhaps other methods. Pages of the service plane answer only while this master
// serves.
type page struct {
	serve        http.HandlerFunc
	servicePlane bool
	others       map[string]http.HandlerFunc // by method
}

// handler is what the page does for a method; nil is nothing.
func (p *page) handler(method string) http.HandlerFunc {
	if method == http.MethodGet {
		return p.serve
	}
	return p.others[method]
}

// NewAdmin returns the pages over source and the counters of remote calls.
func NewAdmin(source AdminSource, calls *metrics.Calls, build metrics.Build) *Admin {
	a := &Admin{
		source: source, bundles: source, workloads: source, drains: source, inspect: source, build: build,
		registry: metrics.NewRegistry(source, calls, build),
		summary:  newSummary(source, calls, time.Now()),
	}
	a.pages = map[string]page{
		"/metrics":                {serve: a.serveMetrics},
		"/metrics/summary":        {serve: a.serveSummary},
		"/health":                 {serve: a.serveHealth},
		"/role":                   {serve: a.serveRole},
		"/ha_status":              {serve: a.serveState},
		"/leader":                 {serve: a.serveLeader},
		"/livez":                  {serve: serveLive},
		"/readyz":                 {serve: a.serveReady},
		"/version":                {serve: a.serveVersion},
		"/api/v1/dfs/shard_count": {serve: serveNoDFS, servicePlane: true},
		"/kv_events/status":       {serve: a.serveEventsStatus, servicePlane: true},
		"/get_all_keys":           {serve: a.serveKeys, servicePlane: true},
		"/query_key":              {serve: a.serveQueryKey, servicePlane: true},
		"/batch_query_keys":       {serve: a.serveBatchQuery, servicePlane: true},
		"/get_all_segments":       {serve: a.serveSegmentNames, servicePlane: true},
		"/get_segments_detail":    {serve: a.serveSegments, servicePlane: true},
		"/query_segment":          {serve: a.serveQuerySegment, servicePlane: true},
		"/api/v1/segments/status": {serve: a.serveSegmentState, servicePlane: true},
		drainPath:                 {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.createDrain}},
		drainPath + "/query":      {serve: a.serveDrain, servicePlane: true},
		drainPath + "/cancel":     {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.cancelDrain}},
		softPinPath:               {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.softPin}},
		softUnpinPath:             {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.softUnpin}},
		bundlesPath:               {serve: a.serveBundles, servicePlane: true},
		bundlesPath + "/gc":       {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.collectBundles}},
		"/api/v1/remove_all":      {servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: a.removeAll}},
		"/api/v1/tenant_quotas": {serve: a.serveTenants, servicePlane: true, others: map[string]http.HandlerFunc{
			http.MethodPut: a.putTenant, http.MethodDelete: a.deleteTenant,
		}},
		workloadsPath: {serve: a.serveWorkloads, servicePlane: true, others: map[string]http.HandlerFunc{
			http.MethodPut: a.putWorkloads, http.MethodDelete: a.deleteWorkloads,
		}},
	}
	maps.Copy(a.pages, a.inspectPages())
	maps.Copy(a.pages, a.integrityPages())
	a.items = map[string]page{
		bundlesPath: {serve: a.serveBundle, servicePlane: true, others: map[string]http.HandlerFunc{http.MethodDelete: a.reclaimBundle}},
		workloadsPath: {serve: a.serveWorkload, servicePlane: true, others: map[string]http.HandlerFunc{
			http.MethodPut: a.putWorkload, http.MethodDelete: a.deleteWorkload,
		}},
	}
	return a
}

// ServeHTTP finds the page; unknown paths, and methods that a page does not have, are 404.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline(w)
	p := a.pageOf(r.URL.Path)
	serve := p.handler(r.Method)
	switch {
	case serve == nil:
		notFound(w)
	case p.servicePlane && !a.source.Standing().Ready:
		if leader := a.source.Standing().LeaderAddress; leader != "" {
			w.Header().Set(leaderHeader, leader)
		}
		replyError(w, http.StatusServiceUnavailable, wire.ErrUnavailableInCurrentMode, "service plane is not active")
	default:
		serve(w, r)
	}
}

// pageOf finds the page of a path: that of the path itself, or that of the items below one.
func (a *Admin) pageOf(path string) page {
	if p, ok := a.pages[path]; ok {
		return p
	}
	for above, p := range a.items {
		if itemOf(path, above) != "" {
			return p
		}
	}
	return page{}
}

// itemOf is what follows the slash after a path; "" is nothing.
func itemOf(path, above string) string {
	rest, ok := strings.CutPrefix(path, above)
	if !ok || rest == "" || rest[0] != '/' {
		return ""
	}
	return rest[1:]
}

// Summary is the text of /metrics/summary, which the log repeats.
func (a *Admin) Summary() string { return a.summary.text(time.Now()) }

const (
	typeMetrics = "text/plain; version=0.0.4"
	typeText    = "text/plain; charset=utf-8"
	typeJSON    = "application/json; charset=utf-8"
)

func (a *Admin) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := a.registry.WriteText(&b); err != nil {
		reply(w, http.StatusInternalServerError, typeText, err.Error())
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	reply(w, http.StatusOK, typeMetrics, b.String())
}

func (a *Admin) serveSummary(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, typeMetrics, a.Summary())
}

func (a *Admin) serveRole(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, typeText, a.source.Standing().Role)
}

func (a *Admin) serveState(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, typeText, a.source.Standing().State)
}

// leader is the part of an answer that names the leader; both are null without an election.
type leader struct {
	LeaderAddress *string `json:"leader_address"`
	ViewVersion   *uint64 `json:"view_version"`
}

func (s Standing) leader() leader {
	if s.LeaderAddress == "" {
		return leader{}
	}
	return leader{&s.LeaderAddress, &s.ViewVersion}
}

func (a *Admin) serveHealth(w http.ResponseWriter, _ *http.Request) {
	s := a.source.Standing()
	replyJSON(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Role    string `json:"role"`
		HAState string `json:"ha_state"`
		Ready   bool   `json:"service_ready"`
		leader
	}{"ok", s.Role, s.State, s.Ready, s.leader()})
}

// leaderHeader names the master to ask instead.
const leaderHeader = "X-Mooncake-Leader"

func (a *Admin) serveLeader(w http.ResponseWriter, _ *http.Request) {
	l := a.source.Standing().leader()
	replyJSON(w, http.StatusOK, struct {
		Present bool `json:"present"`
		leader
	}{l.LeaderAddress != nil, l})
}

func (a *Admin) serveVersion(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, struct {
		Version string `json:"version"`
		Display string `json:"display_version"`
	}{a.build.Version, a.build.Display})
}

// serveNoDFS is the answer of a master without a DFS.
func serveNoDFS(w http.ResponseWriter, _ *http.Request) {
	replyError(w, http.StatusConflict, wire.ErrUnavailableInCurrentMode, wire.ErrUnavailableInCurrentMode.String())
}

// serveEventsStatus tells whether events are published, and how many were.
func (a *Admin) serveEventsStatus(w http.ResponseWriter, _ *http.Request) {
	on, st := a.source.EventStats()
	replyJSON(w, http.StatusOK, struct {
		Enabled   bool   `json:"enabled"`
		Batches   uint64 `json:"published_batches"`
		Published uint64 `json:"published_events"`
		Dropped   uint64 `json:"dropped_events"`
		Skipped   uint64 `json:"skipped_keyless_events"`
	}{on, st.Batches, st.Published, st.Dropped, st.Keyless})
}

// replyJSON sends v as it is: no blanks, and no escapes beyond what JSON demands.
func replyJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		reply(w, http.StatusInternalServerError, typeText, err.Error())
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()-1))
	reply(w, status, typeJSON, strings.TrimSuffix(b.String(), "\n"))
}

// replyError sends the body of a refusal.
func replyError(w http.ResponseWriter, status int, code wire.ErrorCode, message string) {
	replyJSON(w, status, struct {
		Success bool   `json:"success"`
		Code    int32  `json:"error_code"`
		Message string `json:"error_message"`
	}{false, int32(code), message})
}

// replyCode sends a refusal that the catalog gave, with the status that goes with its code.
func replyCode(w http.ResponseWriter, err error) {
	code := codeOf(err)
	status := http.StatusInternalServerError
	switch code {
	case wire.ErrInvalidParams:
		status = http.StatusBadRequest
	case wire.ErrObjectNotFound, wire.ErrSegmentNotFound, wire.ErrTenantNotRegistered:
		status = http.StatusNotFound
	case wire.ErrUnavailableInCurrentMode, wire.ErrUnavailableInCurrentStatus, wire.ErrTenantNotEmpty:
		status = http.StatusConflict
	}
	replyError(w, status, code, code.String())
}
