package segment

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"mooncake/internal/limits"
)

// serveHTTP answers probes and scrapers until the context ends.
func serveHTTP(ctx context.Context, ln net.Listener, pages http.Handler) error {
	const bound = limits.SegmentHTTPMs * time.Millisecond
	srv := &http.Server{
		Handler:           pages,
		ReadTimeout:       bound,
		ReadHeaderTimeout: bound,
		WriteTimeout:      bound,
		IdleTimeout:       bound,
		MaxHeaderBytes:    limits.SegmentHTTPHeaderBytes,
	}
	closed := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(closed)
		srv.Close() // a scrape cut short harms nobody
	})
	err := srv.Serve(netutil.LimitListener(ln, limits.SegmentHTTPConns))
	if !unhook() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// protocolVersion is the number of the protocol generation that clients ask for.
const protocolVersion = "2.0.0"

// metricsSwitch is the variable that switches the metrics of published clients off.
const metricsSwitch = "MC_STORE_CLIENT_METRIC"

// httpHandler has the paths of the published store process: what it does not have, and every method but GET, is 404.
func (d *Daemon) httpHandler() http.Handler {
	pages := map[string]http.HandlerFunc{
		"/health":          d.serveHealth,
		"/metrics":         d.serveMetrics,
		"/metrics/summary": d.serveSummary,
		"/limits":          d.serveLimits,
		"/drain":           d.serveDrain,
		"/memory":          d.serveMemory,
		"/version":         d.serveVersion,
	}
	if os.Getenv(metricsSwitch) == "0" {
		off := func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusServiceUnavailable, "text/plain", "metrics not available")
		}
		pages["/metrics"], pages["/metrics/summary"] = off, off
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page := pages[r.URL.Path]; page != nil && r.Method == http.MethodGet {
			page(w, r)
			return
		}
		writeText(w, http.StatusNotFound, "", "404 Not Found")
	})
}

func (d *Daemon) serveHealth(w http.ResponseWriter, _ *http.Request) {
	word, code := d.health.status()
	status := http.StatusOK
	if code != 0 {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, struct {
		Status string `json:"status"`
		Code   int    `json:"code"`
	}{word, code})
}

func (d *Daemon) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	text, err := d.metricsText()
	if err != nil {
		writeText(w, http.StatusInternalServerError, "text/plain", err.Error())
		return
	}
	writeText(w, http.StatusOK, "text/plain; version=0.0.4", text)
}

func (d *Daemon) serveSummary(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "text/plain", d.metricsSummary())
}

func (d *Daemon) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Version string `json:"version"`
		Display string `json:"display_version"`
	}{protocolVersion, d.cfg.Version})
}

// writeText sends a body. An empty content type sends none, as the published process does with a 404.
func writeText(w http.ResponseWriter, status int, contentType, body string) {
	if contentType == "" {
		w.Header()["Content-Type"] = nil
	} else {
		w.Header().Set("Content-Type", contentType)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a reader that left needs no answer
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}
