package master

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mooncake/catalog"
	"mooncake/metrics"
)

func TestMetricsPage(t *testing.T) {
	server := httptest.NewServer(admin(recordedMaster()))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/plain; version=0.0.4" {
		t.Fatal(resp.Status, resp.Header, err)
	}
	if resp.ContentLength != int64(len(text)) {
		t.Errorf("Content-Length %d of %d", resp.ContentLength, len(text))
	}
	for _, line := range []string{
		`segment_allocated_bytes{segment="127.0.0.1:51363"} 15000`, `segment_total_capacity_bytes{segment="127.0.0.1:51363"} 67108864`,
		"mem_cache_nums_ 5", "master_put_start_requests_total 0", "# TYPE master_value_size_bytes histogram",
		`mooncake_build_info{display_version="test",version="2.0.0"} 1`,
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if resp, err := server.Client().Head(server.URL + "/metrics"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Error(resp, err)
	}
}

func TestVersionPage(t *testing.T) {
	if status, answer := ask(admin(recordedMaster()), http.MethodGet, "/version", ""); status != http.StatusOK || answer != `{"version":"2.0.0","display_version":"test"}` {
		t.Error(status, answer)
	}
}

// unescape reads a line of the key listing back.
func unescape(t *rapid.T, line string) string {
	var out []byte
	for i := 0; i < len(line); i++ {
		if line[i] != '\\' {
			out = append(out, line[i])
			continue
		}
		i++
		switch line[i] {
		case '\\':
			out = append(out, '\\')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'x':
			b, err := strconv.ParseUint(line[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			out = append(out, byte(b))
			i += 2
		default:
			t.Fatalf("%q: unknown escape", line)
		}
	}
	return string(out)
}

func TestOddKeys(t *testing.T) {
	f := &fakeMaster{standing: Alone, keys: []string{
		"plain/key-1", "new\nline", "nul\x00", "a\\b", "tab\tcr\r", "ü 漢", "\xff\xfe", "del\x7f", "c1\u0085", "sep\u2028\u2029", "�",
	}}
	_, got := ask(admin(f), http.MethodGet, "/get_all_keys", "")
	want := "plain/key-1\nnew\\nline\nnul\\x00\na\\\\b\ntab\\tcr\\r\nü 漢\n\\xff\\xfe\ndel\\x7f\nc1\\xc2\\x85\nsep\\xe2\\x80\\xa8\\xe2\\x80\\xa9\n�\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		key := string(rapid.SliceOf(rapid.Byte()).Draw(t, "key"))
		line := string(appendEscaped(nil, key))
		if len(strings.Fields("x"+strings.ReplaceAll(line, " ", "")+"x")) != 1 || strings.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("%q became %q", key, line)
		}
		if back := unescape(t, line); back != key {
			t.Fatalf("%q became %q and came back as %q", key, line, back)
		}
	})
}

// TestManyKeysStream lists more than fits any buffer, and a reader that leaves ends the walk.
func TestManyKeysStream(t *testing.T) {
	const n = 100_000
	f := &fakeMaster{standing: Alone}
	for i := range n {
		f.keys = append(f.keys, fmt.Sprintf("some/rather/long/prefix/of/a/key/%08d", i))
	}
	server := httptest.NewServer(admin(f))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/get_all_keys")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(text) != strings.Join(f.keys, "\n")+"\n" {
		t.Errorf("%d bytes, %v", len(text), err)
	}

	a, walked := admin(f), 0
	counted := &countingMaster{f, &walked}
	a.source = counted
	a.serveKeys(&leavingWriter{header: http.Header{}}, nil)
	if walked == 0 || walked > 10_000 {
		t.Errorf("%d keys walked for a reader that left", walked)
	}
}

type countingMaster struct {
	*fakeMaster
	walked *int
}

func (c *countingMaster) Keys(yield func(string) bool) {
	for _, key := range c.keys {
		*c.walked++
		if !yield(key) {
			return
		}
	}
}

type leavingWriter struct{ header http.Header }

func (l *leavingWriter) Header() http.Header       { return l.header }
func (l *leavingWriter) WriteHeader(int)           {}
func (l *leavingWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestQueryKeySpellings(t *testing.T) {
	f := recordedMaster()
	f.objects["a/b c"], f.objects["50%25"], f.objects["a+b"] = f.objects["key1"], f.objects["key1"], f.objects["key1"]
	f.errors = map[string]error{"half": catalog.ErrNotReady, "odd": errors.New("odd")}
	h := admin(f)
	for _, c := range []struct {
		key    string
		status int
		part   string
	}{
		{"key1", http.StatusOK, `"size_":2000`},
		{"%6bey1", http.StatusOK, `"size_":2000`},
		{"a%2Fb%20c", http.StatusOK, `"size_":2000`},
		{"50%25", http.StatusOK, `"size_":2000`}, // there is no "50%", and the key stands in the query as it is
		{"a+b", http.StatusOK, `"size_":2000`},
		{"half", http.StatusInternalServerError, `"error_code":-703`},
		{"odd", http.StatusInternalServerError, `"success":false`},
		{"", http.StatusNotFound, `"error_code":-704`},
	} {
		if status, answer := ask(h, http.MethodGet, "/query_key?key="+c.key, ""); status != c.status || !strings.Contains(answer, c.part) {
			t.Errorf("%s: %d %s", c.key, status, answer)
		}
	}
	long := "/batch_query_keys?keys=" + strings.Repeat("a,", 10_001)
	if status, answer := ask(h, http.MethodGet, long, ""); status != http.StatusBadRequest || answer != `{"success":false,"error":"too many keys in one query"}` {
		t.Error(status, answer)
	}
}

func TestNoSegments(t *testing.T) {
	h := admin(&fakeMaster{standing: Alone})
	for _, c := range []struct{ target, want string }{
		{"/get_segments_detail", `{"total_segments":0,"segments":[]}`},
		{"/get_all_segments", ""},
		{"/get_all_keys", ""},
	} {
		if status, answer := ask(h, http.MethodGet, c.target, ""); status != http.StatusOK || answer != c.want {
			t.Errorf("%s: %d %s", c.target, status, answer)
		}
	}
}

// TestTwoSegmentsOfOneName: both are listed, each with its owner.
func TestTwoSegmentsOfOneName(t *testing.T) {
	f := recordedMaster()
	twin := f.segments[0]
	twin.Client = catalog.UUID{Hi: 1, Lo: 2}
	f.segments = append(f.segments, twin)
	h := admin(f)
	if _, answer := ask(h, http.MethodGet, "/get_all_segments", ""); answer != "127.0.0.1:51363\n127.0.0.1:51363\n" {
		t.Error(answer)
	}
	if _, answer := ask(h, http.MethodGet, "/get_segments_detail", ""); !strings.Contains(answer, `"client_id":"1-2"`) || !strings.Contains(answer, `"total_segments":2`) {
		t.Error(answer)
	}
	if _, answer := ask(h, http.MethodGet, "/query_segment?segment=127.0.0.1%3A51363", ""); answer != "127.0.0.1:51363\nUsed(bytes): 30000\nCapacity(bytes) : 134217728\n" {
		t.Error(answer)
	}
	if _, answer := ask(h, http.MethodGet, "/metrics", ""); !strings.Contains(answer, "\nsegment_allocated_bytes{segment=\"127.0.0.1:51363\"} 30000\n") {
		t.Error("series of one name are not summed")
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[percent]string{
		0: "0E0", 25: "2.5E1", 100: "1E2", 2.2351741790771484e-2: "2.2351741790771484E-2", 12.505960464477539: "1.2505960464477539E1",
	} {
		if got, err := v.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%g: %s, want %s", float64(v), got, want)
		}
	}
}

// TestSummaryText compares with a recorded line.
func TestSummaryText(t *testing.T) {
	text, err := os.ReadFile("testdata/http/metrics_summary.http")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(text), "\r\n\r\n")
	want = strings.TrimSpace(want)
	// What release 0.3.14 has behind that.
	want = strings.TrimSuffix(want, "}") + ", writer_accepting=false, writer_retry_count=0, writer_retry_delay_ms=0, writer_waiting_slots=0, " +
		"writer_committed_queue=0, writer_callback_queue=0, writer_durable_batch=0, writer_durable_seq=0, writer_last_error=0}"

	f := &fakeMaster{standing: Alone, stats: metrics.Stats{
		Keys: 10, ActiveClients: 1, AllocatedBytes: 18 << 20, CapacityBytes: 64 << 20, EvictionAttempts: 15, EvictionSuccesses: 15,
		EvictedKeys: 59, EvictedBytes: 118 << 20, DiscardedPuts: 1, QuarantinedBytes: 10,
	}}
	calls, start := metrics.NewCalls(), time.Unix(1000, 0)
	s := newSummary(f, calls, start)
	for range 169 {
		calls.Count("Ping", false)
		calls.Count("FetchTasks", false)
	}
	if got := s.text(start.Add(100 * time.Second)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSummaryRates(t *testing.T) {
	f := &fakeMaster{standing: Standing{Role: "standby", State: "candidate", LeaderAddress: "h:1", ViewVersion: 7}}
	calls, now := metrics.NewCalls(), time.Unix(1000, 0)
	s := newSummary(f, calls, now)
	see := func(after time.Duration, parts ...string) {
		t.Helper()
		now = now.Add(after)
		text := s.text(now)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %s", part, text)
			}
		}
	}
	for i := range 20 {
		calls.Count("ExistKey", i < 5)
		calls.CountBatch("BatchPutEnd", 4, i%5)
	}
	see(10*time.Second, "Exist=1.50/2.00", "PutEnd:(Req=0.40/1.20/2.00, Item=4.00/8.00)", "role=standby, state=candidate, service_ready=false, master={Mem Storage: 0 B / 0 B | NVMe-oF SSD: 0 B / 0 B | SSD Storage: 0 B / 0 B | Keys",
		"}, leader=h:1, view_version=7")
	see(10*time.Second, "Exist=0.75/1.00") // still since the start: the window is the last two tens of seconds
	see(10*time.Second, "Exist=0.00/0.00")
	calls.Count("ExistKey", true)
	see(0, "Exist=0.00/0.10")
	// A failure whose call was counted before the window.
	s.base.calls["Ping"] = metrics.CallCounts{Requests: 3}
	for range 3 {
		calls.Count("Ping", true)
	}
	see(0, "Ping=0.00/0.00")
}

func BenchmarkKeyListing(b *testing.B) {
	f := &fakeMaster{standing: Alone}
	for i := range 10_000 {
		f.keys = append(f.keys, fmt.Sprintf("rollout/%032x/chunk/%d", i, i))
	}
	a := admin(f)
	b.ReportAllocs()
	for b.Loop() {
		a.serveKeys(&discardWriter{header: http.Header{}}, nil)
	}
}

type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) WriteHeader(int)             {}
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
