package master

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

func (f *fakeMaster) Clients() []ClientInfo                { return nil }
func (f *fakeMaster) AllSegments() []catalog.SegmentStatus { return f.segments }
func (f *fakeMaster) Tasks() []TaskInfo                    { return nil }
func (f *fakeMaster) Healing() HealInfo                    { return HealInfo{} }
func (f *fakeMaster) Integrity() IntegrityInfo             { return IntegrityInfo{} }
func (f *fakeMaster) ScrubNow() int                        { return 0 }
func (f *fakeMaster) ReleaseCorrupt(string) int            { return 0 }

func (f *fakeMaster) Verdict(catalog.UUID, string) Verdict { return VerdictOpen }

func (f *fakeMaster) KeysFrom(_, prefix, after string, limit int) (keys []string, more bool) {
	for _, key := range slices.Sorted(slices.Values(f.keys)) {
		if key > after && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys[:min(limit, len(keys))], len(keys) > limit
}

func (f *fakeMaster) Peek(_, key string) (catalog.Object, []catalog.Replica, error) {
	r, err := f.Lookup(key)
	return catalog.Object{}, r, err
}

// walk reads a list to its end, page by page, and returns the field of all items.
func (b *bed) walk(list, target, field string, limit int) (all []string, pages int) {
	b.t.Helper()
	after := ""
	for {
		separator := "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		status, answer := b.ask(http.MethodGet, target+separator+"limit="+strconv.Itoa(limit)+"&after="+after, "")
		if status != http.StatusOK {
			b.t.Fatalf("%s: %d %v", target, status, answer)
		}
		items := answer[list].([]any)
		if len(items) > limit {
			b.t.Fatalf("%s: %d items, at most %d", target, len(items), limit)
		}
		for _, item := range items {
			all = append(all, item.(map[string]any)[field].(string))
		}
		if pages++; pages > 1000 {
			b.t.Fatalf("%s has no end", target)
		}
		if after = answer["next"].(string); after == "" {
			return all, pages
		}
	}
}

// TestListsInPages stores objects with odd keys on many segments of some clients and reads every list in pages of several
// sizes: each time the same items in the same order, none twice.
func TestListsInPages(t *testing.T) {
	b := newBed(t)
	clients := []*peer{b.client(wire.V13), b.client(wire.V14), b.client(wire.V12)}
	for i := range 9 {
		clients[i%3].mount(fmt.Sprintf("host%d", i%4), uint64(i+1)<<40, mib)
	}
	var keys []string
	for i := range 37 {
		key := fmt.Sprintf("%c/k%02d", "ab%&+é\n"[i%7], i)
		keys = append(keys, printable(key))
		clients[0].put(key, 1000)
	}
	for range 5 {
		if rep := clients[0].createCopy("a/k00", "host1"); rep.Err != 0 {
			t.Fatal(rep.Err)
		}
	}
	for _, list := range []struct {
		name, target, field string
		want                int
	}{
		{"clients", "/api/v1/clients", "client_id", 3},
		{"segments", "/api/v1/segments", "segment_id", 9},
		{"objects", "/api/v1/objects", "key", 37},
		{"objects", "/api/v1/objects?prefix=a/", "key", 6},
		{"objects", "/api/v1/objects?prefix=%25/", "key", 5},
		{"objects", "/api/v1/objects?prefix=none", "key", 0},
		{"hosts", "/api/v1/placement", "host", 4},
		{"tasks", "/api/v1/tasks", "task_id", 5},
	} {
		whole, pages := b.walk(list.name, list.target, list.field, limits.InspectPageMax)
		if len(whole) != list.want || pages != 1 {
			t.Errorf("%s: %d items on %d pages, want %d on one", list.target, len(whole), pages, list.want)
		}
		for _, limit := range []int{1, 2, 3, 7, list.want + 1} {
			if parts, _ := b.walk(list.name, list.target, list.field, limit); !slices.Equal(parts, whole) {
				t.Errorf("%s in pages of %d: %q, whole %q", list.target, limit, parts, whole)
			}
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(whole))); len(distinct) != len(whole) {
			t.Errorf("%s: %q has items twice", list.target, whole)
		}
	}
	found, _ := b.walk("objects", "/api/v1/objects", "key", 5)
	slices.Sort(found)
	slices.Sort(keys)
	if !slices.Equal(found, keys) {
		t.Errorf("%q, want %q", found, keys)
	}
	for _, target := range []string{"clients", "segments", "objects", "placement", "tasks"} {
		for _, limit := range []string{"0", "-1", "1001", "x", ""} {
			status, answer := b.ask(http.MethodGet, "/api/v1/"+target+"?limit="+limit, "")
			if status != http.StatusBadRequest || !strings.Contains(answer["error_message"].(string), "1 to 1000") {
				t.Errorf("%s, limit=%s: %d %v", target, limit, status, answer)
			}
		}
	}
}

// TestPagesOutliveTheirCursor takes the item away that the next page would continue behind.
func TestPagesOutliveTheirCursor(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	var ids []string
	for i := range 4 {
		ids = append(ids, p.mount("h", uint64(i+1)<<40, mib).ID.String())
	}
	_, page := b.ask(http.MethodGet, "/api/v1/segments?limit=2", "")
	cursor := page["next"].(string)
	id, err := wire.ParseUUID(cursor)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "unmount", p.unmount(id), 0)
	_, page = b.ask(http.MethodGet, "/api/v1/segments?after="+cursor, "")
	if rest := page["segments"].([]any); len(rest) != 2 || rest[0].(map[string]any)["segment_id"] != ids[2] {
		t.Error(page)
	}
	for _, key := range []string{"a", "b", "c"} {
		p.put(key, 10)
	}
	expect(t, "remove", p.remove("a", true), 0)
	if keys, _ := b.walk("objects", "/api/v1/objects?prefix=", "key", 1); !slices.Equal(keys, []string{"b", "c"}) {
		t.Error(keys)
	}
	_, page = b.ask(http.MethodGet, "/api/v1/objects?after=a", "")
	if n := len(page["objects"].([]any)); n != 2 {
		t.Error(page)
	}
}

// TestPlacement tells where the copies of an object lie, and takes no lease.
func TestPlacement(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	p.mount("one", 1<<40, mib)
	p.put("a b/ü", 1000)
	status, answer := b.ask(http.MethodGet, "/api/v1/placement?key=a%20b%2F%C3%BC", "")
	if status != http.StatusOK || answer["bytes"] != 1000.0 {
		t.Fatal(status, answer)
	}
	copies := answer["replicas"].([]any)
	first := copies[0].(map[string]any)
	if len(copies) != 1 || first["segment"] != "one" || first["host"] != "one" || first["medium"] != "memory" || first["complete"] != true || first["client_id"] != p.id.String() {
		t.Error(answer)
	}
	expect(t, "removed without force: nobody holds a lease", p.remove("a b/ü", false), 0)
	if status, _ := b.ask(http.MethodGet, "/api/v1/placement?key=a%20b%2F%C3%BC", ""); status != http.StatusNotFound {
		t.Error(status)
	}
}

// TestReadiness asks how a master is in each state that it can be in.
func TestReadiness(t *testing.T) {
	for name, c := range map[string]struct {
		standing Standing
		stats    metrics.Stats
		status   int
		failing  string
	}{
		"alone":             {Alone, metrics.Stats{}, http.StatusOK, ""},
		"standby, far back": {Standing{Role: "standby", State: "catching_up"}, metrics.Stats{HA: &metrics.HA{}}, http.StatusServiceUnavailable, "role"},
		"standby, could":    {Standing{Role: "standby", State: "standby", Promotable: true}, metrics.Stats{HA: &metrics.HA{}}, http.StatusOK, ""},
		"etcd is full":      {Standing{Role: "leader", State: "serving", Ready: true, NoSpace: true}, metrics.Stats{HA: &metrics.HA{}}, http.StatusServiceUnavailable, "log"},
		"disk is broken":    {Alone, metrics.Stats{Journal: &metrics.Journal{Failed: true}}, http.StatusServiceUnavailable, "journal"},
	} {
		f := recordedMaster()
		f.standing, f.stats = c.standing, c.stats
		h := admin(f)
		if status, _ := ask(h, http.MethodGet, "/readyz", ""); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
		status, text := ask(h, http.MethodGet, "/readyz?verbose", "")
		var answer struct {
			Ready  bool
			Checks []checkView
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != c.status || answer.Ready != (status == http.StatusOK) || len(answer.Checks) < 2 {
			t.Errorf("%s: %d %s %v", name, status, text, err)
		}
		for _, check := range answer.Checks {
			if check.OK == (check.Check == c.failing) {
				t.Errorf("%s: %+v", name, check)
			}
		}
		if status, text := ask(h, http.MethodGet, "/livez", ""); status != http.StatusOK || text != "ok" {
			t.Errorf("%s: livez %d %s", name, status, text)
		}
	}
}

// TestP05UnreachableName mounts a segment under a name that nobody can reach beside one that can be reached: lists, metrics
// and one warning tell them apart.
func TestP05UnreachableName(t *testing.T) {
	b := newBed(t)
	mute := "no.such.host:15001"
	b.mute.Store(&mute)
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("no.such.host", 1<<40, mib)
	q.mount("127.0.0.1", 1<<41, mib)
	states := func() map[string]string {
		_, answer := b.ask(http.MethodGet, "/api/v1/segments", "")
		out := map[string]string{}
		for _, s := range answer["segments"].([]any) {
			v := s.(map[string]any)
			out[v["segment"].(string)] = v["endpoint_state"].(string)
		}
		return out
	}
	waitFor(t, "both verdicts", func() bool {
		s := states()
		return s["no.such.host"] == "unverified" && s["127.0.0.1"] == "verified"
	})
	expect(t, "series", b.series()["mooncake_go_unverified_segments"], "1")
	warnings := b.logs.FilterField(zap.String("action", "segment_unverified")).All()
	if len(warnings) != 1 || warnings[0].ContextMap()["endpoint"] != "no.such.host:15001" || warnings[0].ContextMap()["calls_from"] != "127.0.0.1" {
		t.Error(warnings)
	}
	p.put("k", 10) // it stays allocatable
}
