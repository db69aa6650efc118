package master

import (
	"embed"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// The paths of the page for people. The first three hold nothing but code, so they need no token.
const (
	uiPath       = "/ui"
	uiStylePath  = uiPath + "/page.css"
	uiScriptPath = uiPath + "/page.js"
	uiStatePath  = uiPath + "/state"
	uiEventsPath = uiPath + "/events"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own style and script, ask its own master, and nothing else: whatever a name of a client
// might do to its markup, no browser runs it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// livePage is what all readers of the page share: what happened lately, the state as it was gathered last, and how many look.
// Its lock is held while the state is gathered, before all others.
type livePage struct {
	events  *recentEvents
	every   time.Duration // how often there may be a new state
	quiet   time.Duration // after which a reader gets a line
	streams chan struct{} // has one for each reader
	refused atomic.Uint64 // readers that were too many
	ended   chan struct{} // closed when the process stops
	end     func()

	mu     sync.Mutex
	body   []byte // the state in JSON
	number uint64 // of body; grows when it changes
	next   time.Time
}

func newLivePage() *livePage {
	p := &livePage{
		events: new(recentEvents), every: limits.PageEveryMs * time.Millisecond, quiet: limits.PageQuietMs * time.Millisecond,
		streams: make(chan struct{}, limits.PageStreams), ended: make(chan struct{}),
	}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	return p
}

// callAddress is where clients call this process, as its page is headed.
func (s *Server) callAddress() string { return hostport.Join(s.cfg.RPCAddress, s.Ports().RPC) }

// addPage adds the page for people. It works on a master that stands by, and says who leads.
func (a *Admin) addPage(p *livePage, address string) {
	gather := func() any { return a.pageState(p.events, address) }
	for path, file := range map[string]struct{ name, kind string }{
		uiPath:       {"index.html", "text/html; charset=utf-8"},
		uiStylePath:  {"page.css", "text/css; charset=utf-8"},
		uiScriptPath: {"page.js", "text/javascript; charset=utf-8"},
	} {
		text, err := pageFiles.ReadFile("page/" + file.name)
		a.pages[path] = page{serve: func(w http.ResponseWriter, _ *http.Request) {
			if err != nil { // the file is part of this program
				notFound(w)
				return
			}
			pageHeader(w.Header())
			reply(w, http.StatusOK, file.kind, string(text))
		}}
	}
	a.pages[uiStatePath] = page{serve: func(w http.ResponseWriter, _ *http.Request) {
		body, _ := p.state(gather)
		pageHeader(w.Header())
		reply(w, http.StatusOK, typeJSON, string(message(body)))
	}}
	a.pages[uiEventsPath] = page{serve: func(w http.ResponseWriter, r *http.Request) { p.stream(w, r, gather) }}
}

func pageHeader(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// state gives the state in JSON and its number. It is gathered anew when the last one is old enough, for all readers at once.
func (p *livePage) state(gather func() any) ([]byte, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	if began.Before(p.next) {
		return p.body, p.number
	}
	body, err := json.Marshal(gather())
	if err == nil && string(body) != string(p.body) {
		p.body, p.number = body, p.number+1
	}
	now := time.Now()
	p.next = now.Add(max(p.every, limits.PageRest*now.Sub(began)))
	return p.body, p.number
}

// message puts the time to a state. It is not part of the state: that would be news all the time.
func message(body []byte) []byte {
	now := time.Now().UnixMilli()
	out, err := json.Marshal(struct {
		Now   int64           `json:"now_ms"`
		State json.RawMessage `json:"state"`
	}{now, body})
	if err != nil { // body is JSON
		return nil
	}
	return out
}

// stream sends the state whenever it has changed, as server-sent events, until the reader goes or the process ends. A reader
// that does not keep up misses states: nothing waits for it.
func (p *livePage) stream(w http.ResponseWriter, r *http.Request, gather func() any) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		p.refused.Add(1)
		w.Header().Set("Retry-After", "30")
		reply(w, http.StatusServiceUnavailable, typeText, "too many look at the page already")
		return
	}
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{}) // that of requests would end the stream; not every ResponseWriter has one
	pageHeader(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	var seen uint64
	var sent time.Time
	for {
		line := ""
		if body, number := p.state(gather); number != seen {
			seen, line = number, "data: "+string(message(body))+"\n\n"
		} else if time.Since(sent) >= p.quiet {
			line = ": nothing new\n\n"
		}
		if line != "" {
			sent = time.Now()
			_ = to.SetWriteDeadline(sent.Add(limits.PageWriteMs * time.Millisecond)) // likewise
			if _, err := w.Write([]byte(line)); err != nil || to.Flush() != nil {
				return
			}
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		}
	}
}
