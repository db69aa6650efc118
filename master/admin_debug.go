package master

import (
	"net/http"
	"net/http/pprof"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

const pprofPath = "/debug/pprof"

// addDebug adds the pages about slow calls, and about this process if it is to show itself.
func (a *Admin) addDebug(calls *callLog, profiles bool) {
	a.pages["/debug/slow"] = page{serve: calls.serveSlow}
	if !profiles {
		return
	}
	for name, serve := range map[string]http.HandlerFunc{
		"": pprof.Index, "/": pprof.Index, "/cmdline": pprof.Cmdline, "/profile": pprof.Profile, "/symbol": pprof.Symbol, "/trace": pprof.Trace,
	} {
		a.pages[pprofPath+name] = page{serve: patiently(serve)}
	}
	a.items[pprofPath] = page{serve: patiently(func(w http.ResponseWriter, r *http.Request) {
		pprof.Handler(itemOf(r.URL.Path, pprofPath)).ServeHTTP(w, r)
	})}
}

// patiently gives a page the time that a profile takes.
func patiently(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Not every ResponseWriter can do it (those of tests cannot), and none needs it to be right.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limits.PprofMs * time.Millisecond))
		serve(w, r)
	}
}

// slowView is a slow call as it is printed.
type slowView struct {
	At     catalog.Time `json:"at_ms_epoch"`
	Call   string       `json:"call"`
	TookMs float64      `json:"took_ms"`
	Client string       `json:"client_id"`
	From   string       `json:"from"`
	Key    string       `json:"key"`
	Keys   int          `json:"keys"`
}

// serveSlow lists the calls that took long, the last first.
func (l *callLog) serveSlow(w http.ResponseWriter, _ *http.Request) {
	list, seen := l.slowCalls()
	views := make([]slowView, len(list))
	for i, c := range list {
		views[i] = slowView{catalog.Time(c.At.UnixMilli()), c.Call, float64(c.Took.Microseconds()) / 1000, c.Client, c.From, c.Key, c.Keys}
	}
	replyJSON(w, http.StatusOK, struct {
		ThresholdMs int64      `json:"threshold_ms"` // 0: none is kept
		Seen        uint64     `json:"seen"`
		Calls       []slowView `json:"calls"`
	}{l.threshold.Milliseconds(), seen, views})
}
