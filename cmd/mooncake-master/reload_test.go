package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReload changes the files of a running master and has it read them anew.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	config, tokens := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "tokens")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, "eviction_ratio: 0.05\nclient_live_ttl_sec: 9\n")
	write(tokens, "read first-0123456789abcdef\n")
	p := start(t, newName, onLoopback("--config_path="+config, "--admin_tokens_file="+tokens)...)
	line := p.until(t, "Master service started")
	admin, rpc := "http://127.0.0.1:"+setting(t, line, "metrics_port"), "127.0.0.1:"+setting(t, line, "rpc_port")
	status := func(token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	hangUp := func(word string) string {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		return p.until(t, word)
	}
	if status("first-0123456789abcdef") != 200 || status("second-0123456789abcdef") != 401 {
		t.Error("the first tokens do not count")
	}

	write(config, "eviction_ratio: 0.25\nlog_level: warn\nclient_live_ttl_sec: 11\nrpc_allow_from: 10.0.0.0/8\n")
	write(tokens, "read second-0123456789abcdef\n")
	line = hangUp("reloaded")
	for _, want := range []string{"eviction_ratio: 0.05 -> 0.25", "log_level: info -> warn", "rpc_allow_from:  -> 10.0.0.0/8", "left_until_restart", "client_ttl: 9 -> 11"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
	if status("first-0123456789abcdef") != 401 || status("second-0123456789abcdef") != 200 {
		t.Error("the second tokens do not count")
	}
	c, err := net.Dial("tcp", rpc)
	if err == nil {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v for an address that is not let in", n, err)
		}
		_ = c.Close()
	}

	write(config, "eviction_ratio: 7\n")
	if line = hangUp("nothing is reloaded"); !strings.Contains(line, "eviction_ratio") {
		t.Errorf("%q does not name the flag", line)
	}
	if status("second-0123456789abcdef") != 200 {
		t.Error("a broken file took the tokens away")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != 0 {
		t.Errorf("code %d: %q", code, p.seen)
	}
}

// TestReloadDifference says what a reload changes and what it leaves, for every flag there is.
func TestReloadDifference(t *testing.T) {
	before := given(t, newName)
	after := given(t, newName, "--eviction_high_watermark_ratio=0.5", "--default_kv_soft_pin_ttl=1m", "--noallow_evict_soft_pinned_objects", "--rpc_port=1", "--enable_cxl")
	changed, left := before.difference(after)
	if got := fmt.Sprint(changed); got != "[allow_evict_soft_pinned_objects: true -> false default_kv_soft_pin_ttl: 1800000 -> 60000 eviction_high_watermark_ratio: 0.9 -> 0.5]" {
		t.Error(got)
	}
	if got := fmt.Sprint(left); got != "[enable_cxl: false -> true rpc_port: 50051 -> 1]" {
		t.Error(got)
	}
	if changed, left := before.difference(given(t, newName)); len(changed)+len(left) != 0 {
		t.Error(changed, left)
	}
}
