package master

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mooncake/wire"
)

// capture is one request that was made to a published master, and its answer.
type capture struct {
	name                 string
	host                 string // master or meta
	method, target, body string
	want                 string // status, content type and body
}

// readCaptures reads those of one run.
func readCaptures(t *testing.T, run string) (list []capture) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/golden", run+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range regexp.MustCompile(`(?m)^== `).Split(string(text), -1) {
		if i == 0 {
			continue
		}
		name, rest, _ := strings.Cut(entry, "\n")
		request, want, _ := strings.Cut(rest, "\n")
		f := strings.SplitN(request, " ", 4)
		c := capture{name: name, host: f[0], method: f[1], target: f[2], want: strings.TrimSuffix(want, "\n")}
		if len(f) > 3 {
			c.body = f[3]
		}
		list = append(list, c)
	}
	if len(list) < 9 {
		t.Fatalf("%s: %d captures", run, len(list))
	}
	return list
}

// volatile are parts of an answer that no two runs have in common, and what stands for them.
var volatile = []struct {
	part *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`"job_id":"\d+-\d+"`), `"job_id":"ID"`},
	{regexp.MustCompile(`"(buffer_address_|created_at_ms_epoch|last_updated_at_ms_epoch)":\d+`), `"$1":N`},
	// How far a job is depends on when it is asked.
	{regexp.MustCompile(`"(succeeded_units|failed_units|blocked_units|active_units|migrated_bytes)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"status":(0|2),"status_name":"(CREATED|RUNNING)"`), `"status":S,"status_name":"UNDER WAY"`},
	{regexp.MustCompile(`"Drain job (created|running)"`), `"Drain job under way"`},
	// Allocators round in their own ways.
	{regexp.MustCompile(`"(allocator_used_bytes|charged_bytes|used_bytes)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"allocator_usage_percent":[0-9.E-]+`), `"allocator_usage_percent":P`},
	{regexp.MustCompile(`Used\(bytes\): \d+`), `Used(bytes): N`},
	// What was stored before.
	{regexp.MustCompile(`"(removed_count|committed_count|metadata_object_count|view_version|published_batches|published_events)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"segment_id":"[0-9-]+","client_id":"[0-9-]+","base_address":"0x[0-9a-f]+"`), `IDS`},
	{regexp.MustCompile(`"te_endpoint":"[0-9.:]+"`), `"te_endpoint":"HOST"`},
	{regexp.MustCompile(`"display_version":"[^"]*"`), `"display_version":"V"`},
	// What a parser says about bad JSON is its own.
	{regexp.MustCompile(`"Invalid JSON body: .*"`), `"Invalid JSON body: WHY"`},
	{regexp.MustCompile(`\b\d+(\.\d+)?( [KMGT]?B\b)?`), `N`},
}

// masked hides what is volatile. Lists come in no order.
func masked(c *capture, answer string) string {
	if strings.HasPrefix(c.target, "/get_all_keys") || strings.HasPrefix(c.target, "/get_all_segments") {
		head, body, _ := strings.Cut(answer, "\n")
		lines := strings.Split(body, "\n")
		slices.Sort(lines)
		return head + strings.Join(lines, "\n")
	}
	if c.target == "/metrics" {
		head, _, _ := strings.Cut(answer, "\n")
		return head
	}
	last := len(volatile) - 1
	for i, v := range volatile {
		if i < last || c.target == "/metrics/summary" { // there every number is
			answer = v.part.ReplaceAllString(answer, v.mask)
		}
	}
	if c.target == "/metrics/summary" {
		answer = strings.ReplaceAll(answer, "(N%) ", "") // printed where there is something
	}
	return answer
}

// ask sends the request of a capture, with what stands in it for names of this run.
func (c *capture) ask(b *bed, names *strings.Replacer) string {
	h := b.admin
	if c.host == "meta" {
		h = b.metadata
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(c.method, names.Replace(c.target), strings.NewReader(c.body)))
	contentType := w.Header().Get("Content-Type")
	if contentType == "" {
		contentType = "-"
	}
	body := w.Body.String()
	if c.method == "HEAD" {
		body = "" // the server, not the handler, drops it
	}
	return fmt.Sprintf("%d %s\n%s", w.Code, contentType, body)
}

// documentedDifferences reads the table of docs/http.md: run/capture.
func documentedDifferences(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9-]+/[a-z0-9_]+`,? ?)+) \\| .+ \\|$").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("[a-z0-9-]+/[a-z0-9_]+").FindAllString(row[1], -1) {
			out[name] = true
		}
	}
	if len(out) == 0 {
		t.Fatal("docs/http.md lists no difference")
	}
	return out
}

// TestCapturedRequests sends what was sent to published masters to ours, in the state that they were in, and compares status,
// content type and body. Where they differ is listed in docs/http.md, with the reason, and nothing else is.
func TestCapturedRequests(t *testing.T) {
	differ := map[string]string{}
	for _, release := range []string{"12", "13", "14"} {
		for run, replay := range map[string]func(*testing.T, string) map[string]string{
			"v" + release: replayPlain, "v" + release + "-tenants": replayTenants, "v" + release + "-ha": replayHA,
		} {
			for name, difference := range replay(t, run) {
				differ[run+"/"+name] = difference
			}
		}
	}
	documented := documentedDifferences(t)
	for _, name := range slices.Sorted(maps.Keys(differ)) {
		if !documented[name] {
			t.Errorf("%s differs, and docs/http.md does not say why:\n%s", name, differ[name])
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/http.md says that %s differs, and it does not", name)
	}
}

// replayed sends captures in an order and returns what differs. Those that first names come first, in that order.
func replayed(b *bed, list []capture, names *strings.Replacer, first ...string) map[string]string {
	differ := map[string]string{}
	place := func(c *capture) int {
		if at := slices.Index(first, c.name); at >= 0 {
			return at
		}
		return len(first)
	}
	slices.SortStableFunc(list, func(x, y capture) int { return place(&x) - place(&y) })
	for i := range list {
		c := &list[i]
		got, want := masked(c, c.ask(b, names)), masked(c, c.want)
		if got != want {
			differ[c.name] = fmt.Sprintf(" got %s\nwant %s", got, want)
		}
	}
	return differ
}

// take removes captures from a list.
func take(list []capture, names ...string) (taken map[string]*capture, rest []capture) {
	taken = map[string]*capture{}
	for _, c := range list {
		if slices.Contains(names, c.name) {
			taken[c.name] = &c
		} else {
			rest = append(rest, c)
		}
	}
	return taken, rest
}

var noNames = strings.NewReplacer()

// segmentOf finds the segment that a run had.
var segmentOf = regexp.MustCompile(`"segment_name":"([^"]+)"`)

// replayPlain has one segment with five objects in it, and afterwards empties a second one into it.
func replayPlain(t *testing.T, run string) map[string]string {
	b := newBed(t, func(c *Config) { c.MetadataServer = true })
	list := readCaptures(t, run)
	p := b.client(wire.V13)
	detail, _ := take(list, "get_segments_detail")
	name := segmentOf.FindStringSubmatch(detail["get_segments_detail"].want)[1]
	seg := wire.Segment{ID: newID(), Name: name, Base: 0x7f0000000000, Size: 64 << 20, TeEndpoint: name, Protocol: "tcp"}
	expect(t, "mount", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, 0)
	invoke(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id})
	for i, key := range []string{"key0", "key1", "key2", "key3", "soft"} {
		p.put(key, uint64(1000*(i+1)))
	}
	differ := replayPins(b, p, &list)
	// These come at the end, in this order.
	drains, list := take(list, "drain_create_ok", "drain_cancel_ok", "drain_query_canceled", "segment_status_after_cancel",
		"drain_query_done", "segment_status_drained", "drain_same_again", "remove_all_ok")
	maps.Copy(differ, replayed(b, list, noNames, "meta_get_none", "meta_put", "meta_get", "meta_put_again", "meta_delete", "meta_delete_missing", "meta_get_missing",
		"meta_rpc_put", "meta_rpc_same", "meta_rpc_dup", "meta_pct_put"))
	if len(drains) > 0 {
		maps.Copy(differ, replayDrains(t, b, p, seg.Name, drains))
	}
	return differ
}

// replayPins takes the captures about the soft pin of an object out of a list and sends them while there is that object.
func replayPins(b *bed, p *peer, list *[]capture) map[string]string {
	names := []string{"soft_pin_ok", "soft_unpin_ok", "soft_unpin_again"}
	var pins []capture
	rest := (*list)[:0:0]
	for _, c := range *list {
		if slices.Contains(names, c.name) {
			pins = append(pins, c)
		} else {
			rest = append(rest, c)
		}
	}
	*list = rest
	p.put("s0", 1000)
	defer p.remove("s0", true)
	return replayed(b, pins, noNames, names...)
}

// replayDrains makes a second segment, begins to empty it and stops, and then empties it.
func replayDrains(t *testing.T, b *bed, p *peer, name string, c map[string]*capture) map[string]string {
	source := regexp.MustCompile(`segment=(\S+)`).FindStringSubmatch(c["segment_status_drained"].target)[1]
	target := regexp.MustCompile(`target_segments":\["([^"]+)`).FindStringSubmatch(c["drain_create_ok"].body)[1]
	p.mount(source, 1<<45, mib)
	p.mount(target, 1<<46, mib)
	half := oneCopy()
	half.PreferredSegment = source
	start := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "s0", Size: 1000, Config: half})
	expect(t, "put start", start.Err, 0)
	differ := map[string]string{}
	job := ""
	step := func(capture string) {
		x := c[capture]
		names := strings.NewReplacer(regexp.MustCompile(`job_id=(\S+)|$`).FindString(x.target), "job_id="+job)
		if !strings.Contains(x.target, "job_id=") {
			names = noNames
		}
		answer := x.ask(b, names)
		if id := regexp.MustCompile(`"job_id":"([^"]+)"`).FindStringSubmatch(answer); id != nil {
			job = id[1]
		}
		if got, want := masked(x, answer), masked(x, x.want); got != want {
			differ[capture] = fmt.Sprintf(" got %s\nwant %s", got, want)
		}
	}
	// What is being written cannot be moved: the job has nothing under way, and does not end, until it is cancelled.
	job = b.drain(c["drain_create_ok"].body)
	step("drain_cancel_ok")
	step("drain_query_canceled")
	step("segment_status_after_cancel")
	expect(t, "put end", p.putEnd("s0"), 0)
	p.putOn(source, "s1", 1000)
	step("drain_create_ok")
	waitFor(t, "the end of the job", func() bool {
		p.work()
		return b.job(job)["status_name"] == "SUCCEEDED"
	})
	step("drain_query_done")
	step("segment_status_drained")
	step("drain_same_again")
	step("remove_all_ok")
	return differ
}

// replayTenants has three segments and two tenants, and empties the first segment, which does not succeed.
func replayTenants(t *testing.T, run string) map[string]string {
	_, edit := withTenants(t, "version: 1\ntenants:\n- {name: default, quota: 32MB}\n- {name: t0, quota: 16MB}\n")
	b := newBed(t, edit, func(c *Config) {
		c.Events.On = run == "v14-tenants" // older wheels have no events
		c.Events.Endpoint, c.Events.BackendID = "tcp://127.0.0.1:0", "golden"
		c.TenantWatermark = 0 // what is beyond a quota that shrinks would go while the requests are made
	})
	list := readCaptures(t, run)
	p := b.client(wire.V13)
	detail, _ := take(list, "get_segments_detail", "get_all_keys")
	for i, found := range segmentOf.FindAllStringSubmatch(detail["get_segments_detail"].want, -1) {
		p.mount(found[1], uint64(i+1)<<44, 48<<20)
	}
	_, keys, _ := strings.Cut(detail["get_all_keys"].want, "\n")
	for _, key := range strings.Fields(keys) {
		expect(t, "put", p.store("default", key, 1<<20), wire.ErrorCode(0))
	}
	expect(t, "put", p.store("t0", "tbig", 13<<20), wire.ErrorCode(0))
	drains, list := take(list, "drain_create", "drain_query", "drain_query2", "drain_query3", "drain_cancel", "drain_cancel_again",
		"segment_status_draining", "segment_status_after", "get_segments_detail", "remove_all", "remove_all_force", "remove_all_tenant", "get_all_keys")
	differ := replayed(b, slices.Clone(list), noNames, "quotas_list", "quota_get", "quota_put_shrink", "quota_get_shrunk", "quota_restore",
		"quota_put_new", "quota_put_update", "quota_put_extra", "quota_delete_nonempty", "quota_delete", "quota_delete_again")
	source := regexp.MustCompile(`segments":\["([^"]+)`).FindStringSubmatch(drains["drain_create"].body)[1]
	putOn := wire.ReplicateConfig{ReplicaNum: 1, PreferredSegment: source}
	start := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "here", Size: 1 << 20, Config: putOn, TenantID: "t0"})
	expect(t, "put", start.Err, wire.ErrorCode(0))
	expect(t, "put end", invoke(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: "here"}, ReplicaType: wire.ReplicaTypeAll, TenantID: "t0"}).Err, wire.ErrorCode(0))
	job := ""
	for _, name := range []string{
		"drain_create", "drain_query", "segment_status_draining", "drain_query2", "get_segments_detail", "drain_query3", "drain_cancel",
		"drain_cancel_again", "segment_status_after", "get_all_keys", "remove_all", "remove_all_force", "remove_all_tenant",
	} {
		c := drains[name]
		if name == "drain_query2" { // something is under way, which nobody does
			waitFor(t, "work under way", func() bool { return b.job(job)["active_units"].(float64) > 0 })
		}
		names := noNames
		if _, id, ok := strings.Cut(c.target, "job_id="); ok {
			names = strings.NewReplacer(id, job)
		}
		answer := c.ask(b, names)
		if name == "drain_create" {
			job = regexp.MustCompile(`"job_id":"([^"]+)"`).FindStringSubmatch(answer)[1]
		}
		if got, want := masked(c, answer), masked(c, c.want); got != want {
			differ[name] = fmt.Sprintf(" got %s\nwant %s", got, want)
		}
	}
	return differ
}

// replayHA asks a leader without objects (a) and one that follows it (b).
func replayHA(t *testing.T, run string) map[string]string {
	differ := map[string]string{}
	list := readCaptures(t, run)
	b := newBed(t)
	for i := range list {
		c := &list[i]
		_, address, _ := strings.Cut(c.want, `"leader_address":"`)
		address, _, _ = strings.Cut(address, `"`)
		if address == "" {
			address = "127.0.0.1:1"
		}
		standing := Standing{Role: "leader", State: "serving", Ready: true, LeaderAddress: address, ViewVersion: 3}
		if strings.HasPrefix(c.name, "b_") {
			standing.Role, standing.State, standing.Ready = "standby", "standby", false
		}
		h := NewAdmin(standingAs{b.service, standing}, b.service.calls, adminBuild)
		at := &bed{Server: &Server{admin: h}}
		if got, want := masked(c, c.ask(at, noNames)), masked(c, c.want); got != want {
			differ[c.name] = fmt.Sprintf(" got %s\nwant %s", got, want)
		}
	}
	return differ
}

// standingAs is a service that says it has a role among several masters.
type standingAs struct {
	*Service
	standing Standing
}

func (s standingAs) Standing() Standing { return s.standing }
