package master

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mooncake/catalog"
	"mooncake/kvevents"
	"mooncake/metrics"
)

// exchange is one recorded request and answer of a published master.
type exchange struct {
	method, target, body string // of the request
	status               int
	contentType, answer  string
}

func readExchange(t *testing.T, name string) exchange {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/http", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	request, rest, _ := strings.Cut(string(text), "\n")
	head, answer, ok := strings.Cut(rest, "\r\n\r\n")
	if !ok {
		t.Fatalf("%s: no end of the header", name)
	}
	e := exchange{method: http.MethodGet}
	fields := strings.Fields(strings.TrimPrefix(request, "# request: "))
	for i, f := range fields {
		switch {
		case f == "-I":
			e.method = http.MethodHead
		case f == "-X":
			e.method = fields[i+1]
		case f == "-d":
			e.body = fields[i+1]
		case strings.HasPrefix(f, "http://"):
			_, path, _ := strings.Cut(f[len("http://"):], "/")
			e.target = "/" + path
		}
	}
	length := 0
	for i, line := range strings.Split(head, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case i == 0:
			e.status, err = strconv.Atoi(strings.Fields(line)[1])
		case name == "Content-Length":
			length, err = strconv.Atoi(value)
		case name == "Content-Type":
			e.contentType = value
		}
		if err != nil {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
	}
	if e.method != http.MethodHead {
		e.answer = answer[:length]
	}
	return e
}

// compare sends the request of e to h and compares the whole answer.
func (e exchange) compare(t *testing.T, name string, h http.Handler) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(e.method, e.target, strings.NewReader(e.body)))
	got := w.Body.String()
	if e.method == http.MethodHead {
		got = "" // the server, not the handler, drops the body
	}
	if w.Code != e.status || w.Header().Get("Content-Type") != e.contentType || got != e.answer {
		t.Errorf("%s: %s %s\n got %d %q %s\nwant %d %q %s", name, e.method, e.target,
			w.Code, w.Header().Get("Content-Type"), got, e.status, e.contentType, e.answer)
	}
}

// fakeMaster is an AdminSource with a fixed content.
type fakeMaster struct {
	fakeBundles
	standing Standing
	stats    metrics.Stats
	keys     []string
	segments []catalog.SegmentStatus
	objects  map[string][]catalog.Replica
	errors   map[string]error
	lookups  []string
	tenants  []catalog.TenantStat
}

func (f *fakeMaster) Standing() Standing                          { return f.standing }
func (f *fakeMaster) Stats() metrics.Stats                        { return f.stats }
func (f *fakeMaster) BundleFigures() metrics.Bundles              { return metrics.Bundles{} }
func (f *fakeMaster) WorkloadFigures() []metrics.Workload         { return nil }
func (f *fakeMaster) TenantFigures() metrics.Tenants              { return metrics.Tenants{} }
func (f *fakeMaster) Workloads() ([]catalog.WorkloadStat, Origin) { return nil, Origin{} }
func (f *fakeMaster) ChangeWorkloads(func([]catalog.Workload) ([]catalog.Workload, error)) error {
	return errors.New("fixed")
}

func (f *fakeMaster) TenantStats() ([]catalog.TenantStat, uint64, error) {
	if f.tenants == nil {
		return nil, 0, errNoTenants
	}
	return f.tenants, 0, nil
}

func (f *fakeMaster) SetTenantQuota(_ context.Context, name string, bytes uint64) error {
	if f.tenants == nil {
		return errNoTenants
	}
	f.tenants = append(f.tenants, catalog.TenantStat{Name: name, Requested: bytes, Effective: bytes, Policy: true})
	return nil
}

func (f *fakeMaster) DropTenantQuota(_ context.Context, name string) error {
	if f.tenants == nil {
		return errNoTenants
	}
	for i := range f.tenants {
		if f.tenants[i].Name == name {
			if f.tenants[i].Charged > 0 {
				return catalog.ErrTenantNotEmpty
			}
			f.tenants = append(f.tenants[:i:i], f.tenants[i+1:]...)
			return nil
		}
	}
	return catalog.ErrObjectNotFound
}

func (f *fakeMaster) EventStats() (bool, kvevents.Stats) { return false, kvevents.Stats{} }

func (f *fakeMaster) FilePath(key string) string { return "/files/" + key }

func (f *fakeMaster) RemoveAllOf(bool, string) (int64, error)  { return 4, nil }
func (f *fakeMaster) SegmentStatuses() []catalog.SegmentStatus { return f.segments }

func (f *fakeMaster) Segments() []metrics.Segment {
	var out []metrics.Segment
	for _, s := range f.segments {
		out = append(out, metrics.Segment{Name: s.Name, AllocatedBytes: s.Used, CapacityBytes: s.Size, Replicas: s.ObjectCount})
	}
	return out
}

func (f *fakeMaster) Keys(yield func(string) bool) {
	for _, key := range f.keys {
		if !yield(key) {
			return
		}
	}
}

func (f *fakeMaster) Lookup(key string) ([]catalog.Replica, error) {
	f.lookups = append(f.lookups, key)
	if err := f.errors[key]; err != nil {
		return nil, err
	}
	if r, ok := f.objects[key]; ok {
		return r, nil
	}
	return nil, catalog.ErrObjectNotFound
}

// recordedMaster has the content that the recorded master had.
func recordedMaster() *fakeMaster {
	seg := catalog.SegmentStatus{Used: 15000, ObjectCount: 5, Status: catalog.SegmentOK}
	seg.ID = catalog.UUID{Hi: 14504059084244361616, Lo: 1524273179256238479}
	seg.Client = catalog.UUID{Hi: 9317730933552030077, Lo: 172706393530978958}
	seg.Name, seg.Endpoint, seg.Protocol = "127.0.0.1:51363", "127.0.0.1:51363", "tcp"
	seg.Base, seg.Size = 0x7f910f000000, 67108864
	replica := func(address, size uint64) []catalog.Replica {
		return []catalog.Replica{{Segment: &seg.SegmentInfo, Offset: address - seg.Base, Size: size, Status: catalog.ReplicaComplete}}
	}
	return &fakeMaster{
		standing: Alone,
		keys:     []string{"key1", "key0", "key3", "key2", "soft"},
		segments: []catalog.SegmentStatus{seg},
		objects:  map[string][]catalog.Replica{"key1": replica(140260998644736, 2000), "key2": replica(140260998646784, 3000)},
	}
}

func admin(f *fakeMaster) *Admin {
	return NewAdmin(f, metrics.NewCalls(), metrics.Build{Version: "2.0.0", Display: "test"})
}

func TestRecordedAdminPages(t *testing.T) {
	h := admin(recordedMaster())
	for _, name := range []string{
		"health", "role", "ha_status", "leader", "get_all_keys", "get_all_segments", "get_segments_detail",
		"query_key", "query_key_missing", "query_key_noparam", "query_key_tenant",
		"query_segment", "query_segment_missing", "query_segment_noparam",
		"batch_query_keys", "batch_query_keys_noparam", "batch_query_keys_pct",
		"quota_put_notenant", "quota_put_zero", "quota_put", "quota_get", "quotas_list", "quota_delete",
		"segment_status", "segment_status_missing", "segment_status_noparam", "kv_events_status",
		"unknown", "root", "metrics_head", "metrics_post",
	} {
		readExchange(t, name).compare(t, name, h)
	}
}

func TestRecordedStandbyPages(t *testing.T) {
	f := recordedMaster()
	f.standing = Standing{Role: "standby", State: "standby", LeaderAddress: "127.0.0.1:51382", ViewVersion: 2}
	h := admin(f)
	for _, name := range []string{
		"standby_health", "standby_leader", "standby_role", "standby_ha_status", "standby_get_all_keys", "standby_query_key_key_a",
	} {
		readExchange(t, name).compare(t, name, h)
	}
	if len(f.lookups) > 0 {
		t.Error("a standby looked objects up")
	}
}

// TestRecordedMetadata plays the recorded requests in an order in which each meets the state it was recorded in.
func TestRecordedMetadata(t *testing.T) {
	m := NewMetadataServer("")
	for _, name := range []string{
		"meta_health", "meta_get_none", "meta_put_nokey", "meta_post",
		"meta_put", "meta_get", "meta_put_again", "meta_delete", "meta_delete_missing", "meta_get_missing",
		"meta_rpc_put", "meta_rpc_same", "meta_rpc_dup", "meta_pct_put", "meta_pct_get2", "unknown",
	} {
		readExchange(t, name).compare(t, name, m)
	}
	// Where we differ on purpose: a raw key finds what was stored under the encoded one.
	e := readExchange(t, "meta_pct_get")
	e.status, e.contentType, e.answer = http.StatusOK, "application/json", `{"ip":"2"}`
	e.compare(t, "meta_pct_get", m)
}
