package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const memoryNow = `{"name":"n","endpoint":"127.0.0.1:18000","size_bytes":1073741824,"resident_bytes":536870912,"populate":"waiting","populate_waits_for":"memory",
"regions":[{"name":"n","base":"0x100000000000","size_bytes":1073741824,"resident_bytes":536870912}],"free_bytes":1,"available_bytes":2,
"cgroup_limit_bytes":3221225472,"cgroup_used_bytes":1048576,"cgroup_file":"/sys/fs/cgroup/memory.max","shm_free_bytes":3,"memory_high":"80%","scarce":true,
"resize":{"state":"STATE","left":3,"moved":4,"moved_bytes":5,"error":"ERROR"}}`

// hostWithDaemons has admin sockets of the given names, whose daemons answer GET /memory with one state after the other, the
// last for ever, and take orders.
func hostWithDaemons(t *testing.T, orders *[]string, states []string, names ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	shm := filepath.Join(root, "dev/shm")
	if err := os.MkdirAll(shm, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		ln, err := net.Listen("unix", filepath.Join(shm, "mooncake-segment_"+name+".sock"))
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				text, _ := io.ReadAll(r.Body) // a short one fails the comparison
				*orders = append(*orders, r.URL.Path+" "+string(text))
				if strings.Contains(string(text), ":5,") {
					w.WriteHeader(http.StatusUnprocessableEntity)
					_, _ = io.WriteString(w, "regions go as a whole")
					return
				}
			}
			state, failure, _ := strings.Cut(states[0], ":")
			if len(states) > 1 {
				states = states[1:]
			}
			_, _ = io.WriteString(w, strings.NewReplacer("STATE", state, "ERROR", failure).Replace(memoryNow))
		}))
		srv.Listener.Close()
		srv.Listener = ln
		srv.Start()
		t.Cleanup(srv.Close)
	}
	return root
}

// TestSegment shows and resizes the daemon of a host.
func TestSegment(t *testing.T) {
	c := scripted(t)
	var orders []string
	root := hostWithDaemons(t, &orders, []string{"none", "none", "none", "draining", "done"}, "a")
	code, out, errs := c.ctl(t, root, "segment", "show")
	for _, want := range []string{"127.0.0.1:18000", "(50.0%)", "waiting", "80%", "/sys/fs/cgroup/memory.max", "scarce", "0x100000000000"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s%s lacks %s", code, out, errs, want)
		}
	}
	if strings.Contains(out, "change of size") {
		t.Errorf("a change that is not: %s", out)
	}
	var v daemonView
	if code, out, errs = c.ctl(t, root, "segment", "show", "-o", "json"); code != 0 || json.Unmarshal([]byte(out), &v) != nil || v.CgroupLimit != 3<<30 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if code, out, errs = c.ctl(t, root, "segment", "resize", "2gb"); code != 0 || len(orders) != 0 || !strings.Contains(out, "would resize n from 1.00 GB to 2.00 GB") {
		t.Errorf("exit %d, %s%s, %q", code, out, errs, orders)
	}
	code, out, errs = c.ctl(t, root, "segment", "resize", "2gb", "--within=2m", "--apply")
	if code != 0 || !strings.Contains(out, "done: resize n") || len(orders) != 1 || orders[0] != `/resize {"bytes":2147483648,"within_ms":120000}` {
		t.Errorf("exit %d, %s%s, %q", code, out, errs, orders)
	}
}

// TestSegmentProgress follows a change of size that fails.
func TestSegmentProgress(t *testing.T) {
	c := scripted(t)
	var orders []string
	root := hostWithDaemons(t, &orders, []string{"none", "draining", "draining", "failed:3 objects were left"}, "a")
	code, out, errs := c.ctl(t, root, "segment", "resize", "1gb", "--apply")
	if code != 1 || out != "" || errs != "draining: 3 objects left, 4 moved (5 B)\nERROR: 3 objects were left\n" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// TestSegmentRefusals are told in one line.
func TestSegmentRefusals(t *testing.T) {
	c := scripted(t)
	var orders []string
	one, none := hostWithDaemons(t, &orders, []string{"none"}, "a"), t.TempDir()
	two := hostWithDaemons(t, &orders, []string{"none"}, "a", "b")
	for _, x := range []struct {
		root, want string
		args       []string
	}{
		{none, "no segment daemon has its socket in", []string{"show"}},
		{two, "several segment daemons run here", []string{"show"}},
		{none, "does not answer", []string{"show", "--socket=" + filepath.Join(none, "x")}},
		{one, "SIZE", []string{"resize", "lots"}},
		{one, "--within", []string{"resize", "1gb", "--within=-1s"}},
		{one, "regions go as a whole", []string{"resize", "5", "--apply"}},
	} {
		code, out, errs := c.ctl(t, x.root, append([]string{"segment"}, x.args...)...)
		if code != 1 || out != "" || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit %d, %s%s; want one line with %q", x.args, code, out, errs, x.want)
		}
	}
	if code, out, errs := c.ctl(t, two, "segment", "show", "--socket="+filepath.Join(two, "dev/shm/mooncake-segment_b.sock")); code != 0 || !strings.Contains(out, "n") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}
