package master

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// hostile is a name that does harm where it is taken for markup.
const hostile = `<script>document.title="gotcha"</script><img src=x onerror=alert(1)>`

// pageMessage is what the page is sent.
type pageMessage struct {
	Now   int64    `json:"now_ms"`
	State pageView `json:"state"`
}

// withPage is a master with a fixed content whose page never rests.
func withPage(f *fakeMaster) (*Admin, *livePage) {
	a, p := admin(f), newLivePage()
	p.every = 0
	a.addPage(p, "10.0.0.1:50051")
	return a, p
}

func stateOfPage(t *testing.T, h http.Handler) pageView {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, uiStatePath, nil))
	var m pageMessage
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != http.StatusOK || m.Now == 0 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return m.State
}

// TestPageFiles are served under a policy that lets nothing else be loaded, and ask nobody else for anything.
func TestPageFiles(t *testing.T) {
	h, _ := withPage(recordedMaster())
	for path, kind := range map[string]string{
		uiPath: "text/html; charset=utf-8", uiStylePath: "text/css; charset=utf-8", uiScriptPath: "text/javascript; charset=utf-8",
		uiStatePath: typeJSON,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		head := w.Header()
		if w.Code != http.StatusOK || head.Get("Content-Type") != kind || head.Get("Content-Security-Policy") != pagePolicy ||
			head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, w.Code, head)
		}
		for _, outside := range []string{"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "<style", "onclick"} {
			if strings.Contains(w.Body.String(), outside) {
				t.Errorf("%s contains %q", path, outside)
			}
		}
		if status, body := ask(h, http.MethodPost, path, ""); status != http.StatusNotFound {
			t.Errorf("POST %s: %d %s", path, status, body)
		}
	}
	if status, _ := ask(h, http.MethodGet, uiPath+"/other", ""); status != http.StatusNotFound {
		t.Errorf("an unknown file: %d", status)
	}
}

// TestPageIsBounded fills a master with more than the page shows, under names that are markup.
func TestPageIsBounded(t *testing.T) {
	f := recordedMaster()
	for i := range limits.PageSegments + 20 {
		s := f.segments[0]
		s.ID, s.Name, s.Used = catalog.UUID{Hi: 1, Lo: uint64(i)}, fmt.Sprintf("%s%03d", hostile, i), uint64(i)
		if i == 3 {
			s.Stage = catalog.StageLost
		}
		f.segments = append(f.segments, s)
	}
	for i := range limits.PageBundles + 7 {
		f.list = append(f.list, catalog.BundleInfo{ID: fmt.Sprintf("%s\n/default/%032d", hostile, i), State: catalog.BundlePublished})
	}
	h, p := withPage(f)
	for i := range 3 * limits.PageEvents {
		p.events.add(eventView{At: int64(i), Text: fmt.Sprint(hostile, i), Count: 1, Fields: make([]fieldView, 3*limits.PageEventFields)})
	}
	v := stateOfPage(t, h)
	if len(v.Segments) != limits.PageSegments || v.SegmentsMore != 21 {
		t.Errorf("%d segments and %d more", len(v.Segments), v.SegmentsMore)
	}
	if len(v.Bundles) != limits.PageBundles || v.BundlesMore != 7 || !strings.HasPrefix(v.Bundles[0].ID, hostile+`\n/`) {
		t.Errorf("%d bundles and %d more, the first %q", len(v.Bundles), v.BundlesMore, v.Bundles[0].ID)
	}
	if len(v.Events) != limits.PageEvents || !strings.HasSuffix(v.Events[0].Text, fmt.Sprint(3*limits.PageEvents-1)) || len(v.Events[0].Fields) != limits.PageEventFields {
		t.Errorf("%d events, the first %+v", len(v.Events), v.Events[0])
	}
	named := map[string]bool{}
	for i, s := range v.Segments {
		named[s.Name] = true
		if i > 0 && s.Name < v.Segments[i-1].Name {
			t.Errorf("%q behind %q", s.Name, v.Segments[i-1].Name)
		}
	}
	if !named[hostile+"003"] || named[hostile+"004"] || !named[hostile+"119"] {
		t.Error("those that are lost or full are to be shown")
	}
	text, _ := json.Marshal(v)
	if strings.Contains(string(text), "<script") { // Go's JSON has no angle brackets, so no browser can take it for markup
		t.Errorf("markup in the state: %s", text)
	}
}

// TestPageOfStandby says who leads, and shows nothing that only a leader knows.
func TestPageOfStandby(t *testing.T) {
	f := recordedMaster()
	f.standing = Standing{Role: "standby", State: "standby", LeaderAddress: "10.0.0.2:50051", ViewVersion: 9, Applied: 3, Newest: 5}
	h, _ := withPage(f)
	v := stateOfPage(t, h)
	want := standingView{Address: "10.0.0.1:50051", Role: "standby", State: "standby", Leader: "10.0.0.2:50051", Term: 9, Applied: 3, Newest: 5}
	if v.Master != want || len(v.Segments)+len(v.Bundles)+len(v.Workloads) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestRecentEvents folds events of one kind, cuts long texts, and hears what the log is told, whatever level that writes.
func TestRecentEvents(t *testing.T) {
	e := new(recentEvents)
	log := e.listening(zap.NewNop()).With(zap.String("host", "h"))
	log.Debug("not this")
	log.Info(summaryLine)
	log.Info("first", zap.String("action", "x"), zap.Int("n", 5))
	log.Warn(strings.Repeat("ä", 2*limits.PageTextRunes), zap.Error(errors.New("a\nb")))
	e.heed(&catalog.Swept{EvictedKeys: 2, Bundles: catalog.BundleNews{
		Published: []catalog.BundleTime{{ID: "a", Ms: 1}, {ID: "b", Workload: "w", Ms: 2}},
	}})
	e.heed(&catalog.Swept{Bundles: catalog.BundleNews{Published: []catalog.BundleTime{{ID: "c", Ms: 3}}}})
	list := e.list()
	var got []string
	for i := range list {
		got = append(got, fmt.Sprint(list[i].Level, " ", list[i].Text, " ", list[i].Count, " ", list[i].Fields))
	}
	want := []string{
		"info bundle published 3 [{bundle c} {after_ms 3}]",
		"info objects evicted to make room 1 [{keys 2} {bytes 0}]",
		"warn " + strings.Repeat("ä", limits.PageTextRunes) + `… 1 [{host h} {error a\nb}]`,
		"info first 1 [{host h} {n 5}]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	e.add(eventView{At: list[0].At + limits.PageFoldMs, Level: "info", Text: "bundle published", Count: 1})
	if again := e.list(); again[0].Count != 1 || again[1].Count != 3 {
		t.Errorf("%+v", again[:2])
	}
}

// look opens a stream of the page.
func (b *bed) look(ctx context.Context) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", b.Ports().Metrics, uiEventsPath), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// nextState reads a stream up to a state that is as asked for.
func nextState(t *testing.T, lines *bufio.Reader, asked func(v *pageView) bool) {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m pageMessage
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatal(err)
		}
		if asked(&m.State) {
			return
		}
	}
}

// TestPageStream is told of a segment and a bundle when they come, is one of a bounded number, and ends with the master.
func TestPageStream(t *testing.T) {
	b := newBed(t)
	b.Server.page.every, b.Server.page.quiet = time.Millisecond, time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp := b.look(ctx)
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" || resp.Header.Get("Content-Security-Policy") != pagePolicy {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewReader(resp.Body)
	nextState(t, lines, func(v *pageView) bool { return len(v.Segments) == 0 && v.Master.Serving })
	p := b.client(wire.V13)
	p.mount(hostile, 1<<30, 1<<20)
	nextState(t, lines, func(v *pageView) bool {
		return len(v.Segments) == 1 && v.Segments[0].Name == hostile && v.Pool.Capacity == 1<<20
	})
	id := hostile + "/default/0123456789abcdef0123456789abcdef"
	for _, rest := range []string{"/meta", "/buffer/m", "/manifest"} {
		p.putStart(id+rest, 100)
		p.putEnd(id + rest)
	}
	nextState(t, lines, func(v *pageView) bool {
		return len(v.Bundles) == 1 && v.Bundles[0].ID == id && v.Bundles[0].State == "PUBLISHED" && v.Pool.Used == 300 &&
			len(v.Workloads) == 1 && v.Workloads[0].Bytes == 300 &&
			slices.ContainsFunc(v.Events, func(e eventView) bool { return e.Text == "bundle published" })
	})
	var some []context.CancelFunc
	for range limits.PageStreams - 1 {
		one, end := context.WithCancel(ctx)
		some = append(some, end)
		if resp := b.look(one); resp.StatusCode != http.StatusOK {
			t.Fatalf("a stream within the limit: %d", resp.StatusCode)
		}
	}
	if resp := b.look(ctx); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a stream above the limit: %d", resp.StatusCode)
	}
	for _, end := range some {
		end()
	}
	for resp := b.look(ctx); resp.StatusCode != http.StatusOK; resp = b.look(ctx) { // once the master has seen one go
		if ctx.Err() != nil {
			t.Fatal("streams that ended count for ever")
		}
	}
	go b.stop()
	for {
		if line, err := lines.ReadString('\n'); err != nil {
			if ctx.Err() != nil || !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v after %q", err, line)
			}
			break
		}
	}
	b.stop()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestPageAsksForToken lets everybody have the page, which holds nothing, and what it shows only to those who may look.
func TestPageAsksForToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, "read 0123456789abcdef0123456789abcdef\n")
	b := newBed(t, func(c *Config) { c.AdminTokens = path })
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{uiPath, "", http.StatusOK},
		{uiStylePath, "", http.StatusOK},
		{uiScriptPath, "", http.StatusOK},
		{uiStatePath, "", http.StatusUnauthorized},
		{uiEventsPath, "", http.StatusUnauthorized},
		{uiEventsPath, "0123456789abcdef0123456789abcdee", http.StatusUnauthorized},
		{uiStatePath, "0123456789abcdef0123456789abcdef", http.StatusOK},
		{uiEventsPath, "0123456789abcdef0123456789abcdef", http.StatusOK},
	} {
		req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", b.Ports().Metrics, c.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, resp.StatusCode, c.want)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
