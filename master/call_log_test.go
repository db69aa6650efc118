package master

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

// TestP32RefusalsAreTold provokes eight refusals of eight kinds: each has a line with call, code, cause, client and key, and
// the counter of its code is 1.
func TestP32RefusalsAreTold(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	p.mount("node", 1<<40, mib)
	b.logs.TakeAll()
	before := b.series()
	p.put("here", 1000)
	p.get("here")
	q := b.client(wire.V13)
	if rep := p.putStart("open", 1000); rep.Err != 0 {
		t.Fatal(rep.Err)
	}
	odd := "odd\nkey " + strings.Repeat("x", 1000)
	for _, refused := range []struct {
		code wire.ErrorCode
		key  string
		do   func()
	}{
		{wire.ErrObjectAlreadyExists, "here", func() { p.putStart("here", 1000) }},
		{wire.ErrObjectNotFound, odd, func() { p.get(odd) }},
		{wire.ErrObjectHasLease, "here", func() { p.remove("here", false) }},
		{wire.ErrNoAvailableHandle, "large", func() { p.putStart("large", 100*mib) }},
		{wire.ErrReplicaIsNotReady, "open", func() { p.get("open") }},
		{wire.ErrIllegalClient, "open", func() {
			invoke(q, &wire.PutRevoke, &wire.PutRevokeRequest{ClientID: q.id, Key: "open", ReplicaType: wire.ReplicaTypeAll})
		}},
		{wire.ErrInvalidParams, "nothing", func() { p.putStart("nothing", 0) }},
		{wire.ErrTaskNotFound, "", func() { invoke(p, &wire.QueryTask, &wire.QueryTaskRequest{TaskID: newID()}) }},
	} {
		name := refused.code.String()
		was := b.series()[`mooncake_go_refused_calls_total{code="`+name+`"}`]
		b.logs.TakeAll()
		refused.do()
		is := b.series()[`mooncake_go_refused_calls_total{code="`+name+`"}`]
		if fmt.Sprint(atoi(t, was)+1) != is {
			t.Errorf("%s: counted %q, then %q", name, was, is)
		}
		lines := b.logs.FilterField(zap.String("code", name)).All()
		if len(lines) != 1 {
			t.Errorf("%s: %d lines", name, len(lines))
			continue
		}
		f := lines[0].ContextMap()
		key, _ := f["key"].(string)
		if key != printable(shortened(refused.key)) || len(key) > limits.LogTextBytes+10 || strings.Contains(key, "\n") {
			t.Errorf("%s: key %q", name, key)
		}
		if f["cause"] == "" || f["call"] == "" || f["from"] != "127.0.0.1" || f["client"] != p.id.String() && f["client"] != q.id.String() {
			t.Errorf("%s: %v", name, f)
		}
	}
	after := b.series()
	if exists := "master_put_start_object_already_exists_total"; atoi(t, after[exists]) != atoi(t, before[exists])+1 {
		t.Errorf("%s: %s, then %s", exists, before[exists], after[exists])
	}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	if text == "" {
		return 0
	}
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(text)
	}
	return n
}

// TestEveryRefusedItemIsCounted refuses items of batches.
func TestEveryRefusedItemIsCounted(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	p.mount("node", 1<<40, mib)
	p.put("k0", 10)
	invoke(p, &wire.BatchGetReplicaList, &wire.BatchGetReplicaListRequest{Keys: []string{"no1", "k0", "no2"}})
	invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: []string{"k0", "k1"}, Sizes: []uint64{10, 10}, Config: oneCopy()})
	s := b.series()
	for name, want := range map[string]string{
		`mooncake_go_refused_calls_total{code="OBJECT_NOT_FOUND"}`:      "2",
		`mooncake_go_refused_calls_total{code="OBJECT_ALREADY_EXISTS"}`: "1",
		"master_batch_put_start_object_already_exists_total":            "1",
		"master_put_start_object_already_exists_total":                  "0",
	} {
		if s[name] != want {
			t.Errorf("%s is %q, want %s", name, s[name], want)
		}
	}
	if lines := b.logs.FilterField(zap.String("key", "no2")).Len(); lines != 1 {
		t.Error(lines)
	}
}

// refusingLog is a callLog with a clock of its own.
func refusingLog() (*callLog, *observer.ObservedLogs, *time.Time) {
	core, logs := observer.New(zap.DebugLevel)
	l, now := newCallLog(zap.New(core), metrics.NewCalls(), 0), time.Unix(1_000_000, 0)
	l.now = func() time.Time { return now }
	return l, logs, &now
}

// TestP37IdenticalRefusals has ten thousand in ten seconds, and goes on for hours: few lines, and the sums are right.
func TestP37IdenticalRefusals(t *testing.T) {
	l, logs, now := refusingLog()
	p := &peerConn{}
	refuse := func(n int, step time.Duration) {
		for i := range n {
			l.refused(p, wire.GetReplicaList.ID, "OBJECT_NOT_FOUND", &wire.GetReplicaListRequest{Key: fmt.Sprint(i)}, 0)
			*now = now.Add(step)
			l.sweep()
		}
	}
	sum := func() (lines int, refused uint64) {
		for _, e := range logs.All() {
			lines++
			if n, ok := e.ContextMap()["refused"].(uint64); ok {
				refused += n
			} else {
				refused++
			}
		}
		return lines, refused
	}
	refuse(10_000, time.Millisecond)
	*now = now.Add(limits.RefusalFoldMs * time.Millisecond)
	l.sweep()
	if lines, refused := sum(); lines > 20 || refused != 10_000 {
		t.Fatalf("%d lines about %d", lines, refused)
	}
	refuse(4*3600, time.Second) // one a second for four hours
	if lines, _ := sum(); lines > 60 {
		t.Fatalf("%d lines in four hours", lines)
	}
	*now = now.Add(limits.RefusalFoldMaxMs * time.Millisecond)
	l.sweep()
	if _, refused := sum(); refused != 10_000+4*3600 {
		t.Fatal(refused)
	}
	*now = now.Add(limits.RefusalFoldMaxMs * time.Millisecond)
	l.sweep()
	if len(l.kinds) != 0 {
		t.Fatal("a row that ended is remembered")
	}
	logs.TakeAll()
	refuse(1, time.Millisecond)
	if logs.Len() != 1 {
		t.Fatal("the first refusal after a quiet time is not told at once")
	}
}

// TestRefusalKindsAreBounded refuses with more codes than are remembered.
func TestRefusalKindsAreBounded(t *testing.T) {
	l, _, _ := refusingLog()
	for i := range 2 * limits.RefusalKinds {
		l.refused(&peerConn{}, wire.Ping.ID, fmt.Sprint(i), &wire.PingRequest{}, 0)
	}
	if len(l.kinds) != limits.RefusalKinds {
		t.Fatal(len(l.kinds))
	}
}

// TestP37IdleMaster lets ten minutes pass in which nothing happens.
func TestP37IdleMaster(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := recordedMaster()
	s := summaryLog{source: f, log: zap.New(core)}
	l := newCallLog(zap.New(core), metrics.NewCalls(), 0)
	for second := range 600 {
		l.sweep()
		if second%(limits.SummaryLogMs/1000) == 0 {
			s.tell(l.calls)
		}
	}
	if logs.Len() > 12 {
		t.Fatal(logs.Len())
	}
	for _, e := range logs.All() {
		text, err := json.Marshal(e.ContextMap())
		if err != nil || len(text) > 400 {
			t.Errorf("%d bytes: %s %v", len(text), text, err)
		}
	}
}

// TestSlowCalls keeps the last of many, and none when none is to be kept.
func TestSlowCalls(t *testing.T) {
	b := newBed(t, func(c *Config) { c.SlowCall = 1 })
	p := b.client(wire.V14)
	p.mount("node", 1<<40, mib)
	for i := range limits.SlowCalls + 50 {
		p.get(fmt.Sprint("key", i))
	}
	invoke(p, &wire.BatchExistKey, &wire.BatchExistKeyRequest{Keys: []string{"a", "b", "c"}})
	var answer struct {
		Seen  int
		Calls []slowView
	}
	if err := json.Unmarshal([]byte(b.page("/debug/slow")), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Calls) != limits.SlowCalls || answer.Seen < limits.SlowCalls+50 {
		t.Fatal(len(answer.Calls), answer.Seen)
	}
	if c := answer.Calls[0]; c.Call != "BatchExistKey" || c.Keys != 3 || c.Key != "a" || c.From != "127.0.0.1" || c.Client != p.id.String() {
		t.Errorf("%+v", c)
	}
	quiet := newBed(t, func(c *Config) { c.SlowCall = 0 })
	quiet.client(wire.V14)
	if text := quiet.page("/debug/slow"); text != `{"threshold_ms":0,"seen":0,"calls":[]}` {
		t.Error(text)
	}
}

// TestProfiles are there when they are asked for, and only then.
func TestProfiles(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := plainService(t, func(c *Config) { c.Pprof = on })
		h := s.adminHandler(nil)
		want := map[bool]int{false: http.StatusNotFound, true: http.StatusOK}[on]
		for _, target := range []string{"/debug/pprof/", "/debug/pprof", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/debug/pprof/goroutine"} {
			if status, _ := ask(h, http.MethodGet, target, ""); status != want {
				t.Errorf("enable_pprof=%t: %s is %d", on, target, status)
			}
		}
	}
}

// TestMetadataToken asks the metadata server with and without its token.
func TestMetadataToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "0123456789abcdef\n")
	b := newBed(t, func(c *Config) { c.MetadataServer, c.MetadataTokenFile = true, path })
	base := fmt.Sprintf("http://127.0.0.1:%d", b.Ports().Metadata)
	for _, c := range []struct {
		method, target, token string
		want                  int
	}{
		{http.MethodGet, "/health", "", http.StatusOK},
		{http.MethodPut, "/metadata?key=a", "", http.StatusUnauthorized},
		{http.MethodPut, "/metadata?key=a", "Bearer 0123456789abcdeX", http.StatusUnauthorized},
		{http.MethodPut, "/metadata?key=a", "Basic 0123456789abcdef", http.StatusUnauthorized},
		{http.MethodPut, "/metadata?key=a", "Bearer 0123456789abcdef", http.StatusOK},
		{http.MethodGet, "/metadata?key=a", "", http.StatusUnauthorized},
		{http.MethodGet, "/metadata?key=a", "bearer 0123456789abcdef", http.StatusOK},
		{http.MethodDelete, "/metadata?key=a", "", http.StatusUnauthorized},
	} {
		r, err := http.NewRequest(c.method, base+c.target, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", c.token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.target, c.token, resp.StatusCode, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for text, want := range map[string]string{"short": "at least 16 characters", "": "at least 16", "0123456789abcdef 0123456789abcdef": "without blanks"} {
		write(t, path, text)
		cfg := DefaultConfig()
		cfg.MetadataTokenFile = path
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), flagMetadataToken) {
			t.Errorf("%q: %v", text, err)
		}
	}
	cfg := DefaultConfig()
	cfg.MetadataTokenFile = filepath.Join(t.TempDir(), "none")
	if err := cfg.Validate(); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "no such file")) {
		t.Error(err)
	}
}
