package segment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"mooncake/internal/limits"
)

// serveHTTP answers probes and scrapers until the context ends.
func (d *Daemon) serveHTTP(ctx context.Context) error {
	const bound = limits.SegmentHTTPMs * time.Millisecond
	srv := &http.Server{
		Handler:           d.httpHandler(),
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
	err := srv.Serve(netutil.LimitListener(d.listeners.http, limits.SegmentHTTPConns))
	if !unhook() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("http port: %w", err)
}

// httpHandler has the paths of the published store process.
func (d *Daemon) httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		word, code := d.health.status()
		status := http.StatusOK
		if code != 0 {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, struct {
			Status string `json:"status"`
			Code   int    `json:"code"`
		}{word, code})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, d.metricsText())
	})
	mux.HandleFunc("GET /metrics/summary", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, d.metricsSummary())
	})
	mux.HandleFunc("GET /limits", d.serveLimits)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, struct {
			Version string `json:"version"`
		}{d.cfg.Version})
	})
	return mux
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
