package master

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/zap"
)

// play runs a script of requests: "GET", "PUT", "POST" or "DELETE" with the target as argument and the body below. What is
// answered stands under the line; -rewrite writes it anew. JSON comes with one line for each item of a list.
func play(t *testing.T, script string, h http.Handler, more func(d *datadriven.TestData) (string, bool)) {
	datadriven.RunTest(t, filepath.Join("testdata/admin", script), func(t *testing.T, d *datadriven.TestData) string {
		if more != nil {
			if text, done := more(d); done {
				return text
			}
		}
		if len(d.CmdArgs) != 1 {
			d.Fatalf(t, "%s: want one target", d.Cmd)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(d.Cmd, d.CmdArgs[0].String(), strings.NewReader(d.Input)))
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		body := strings.NewReplacer("},{", "},\n {", ":[{", ":[\n {").Replace(w.Body.String())
		return fmt.Sprintf("%d %s\n%s\n", w.Code, kind, body)
	})
}

// TestWorkloadPages changes rules over the admin port.
func TestWorkloadPages(t *testing.T) {
	s := plainService(t)
	play(t, "workloads.txt", NewAdmin(s, s.calls, adminBuild), nil)
}

// plainService is a service without ports.
func plainService(t *testing.T, edits ...func(*Config)) *Service {
	t.Helper()
	cfg := DefaultConfig()
	for _, edit := range edits {
		edit(&cfg)
	}
	s, err := newService(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cat.Close)
	return s
}

// TestRulesTooLong refuses bodies beyond the limit without reading them to the end.
func TestRulesTooLong(t *testing.T) {
	s := plainService(t)
	h := NewAdmin(s, s.calls, adminBuild)
	for _, target := range []string{workloadsPath, workloadsPath + "/kv"} {
		status, answer := ask(h, http.MethodPut, target, strings.Repeat("#", 2<<20))
		if want := `{"success":false,"error_code":-600,"error_message":"more than 1048576 bytes of rules"}`; status != http.StatusRequestEntityTooLarge || answer != want {
			t.Error(target, status, answer)
		}
	}
}

// TestRulesOfFile starts with the rules that are shipped; a file that is wrong is refused with its name and its flag.
func TestRulesOfFile(t *testing.T) {
	const shipped = "../deploy/workloads.yaml"
	s := plainService(t, func(c *Config) { c.WorkloadsFile = shipped })
	_, answer := ask(NewAdmin(s, s.calls, adminBuild), http.MethodGet, workloadsPath, "")
	if !strings.HasPrefix(answer, `{"origin":"file `+shipped+`","survives_restart":true,"workloads":[{"name":"kv"`) {
		t.Error(answer)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	write(t, bad, "workloads: [{name: kv, prefixes: [x], evict: fifo}]")
	for path, want := range map[string]string{
		"/no/such/file": "--workloads_file: open /no/such/file: no such file or directory",
		bad:             "--workloads_file=" + bad + `: line 1: evict: "fifo" is none of lru, never, bundle`,
		"/dev/zero":     "--workloads_file=/dev/zero: 1048577 bytes of rules, at most 1048576",
	} {
		cfg := DefaultConfig()
		cfg.WorkloadsFile = path
		if err := cfg.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOddWorkloadNames asks for names that no rule can have.
func TestOddWorkloadNames(t *testing.T) {
	s := plainService(t)
	h := NewAdmin(s, s.calls, adminBuild)
	for _, name := range []string{"", "a b", "\x00", "\xff", "a/b", "none", strings.Repeat("n", 65), "../x", "%2F"} {
		target := workloadsPath + "/" + url.PathEscape(name)
		status, answer := ask(h, http.MethodPut, target, `{"prefixes":["x/"]}`)
		want := http.StatusBadRequest
		if name == "" {
			want = http.StatusNotFound
		}
		if status != want {
			t.Errorf("PUT %q: %d %s", name, status, answer)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if status, answer := ask(h, method, target, ""); status != http.StatusNotFound {
				t.Errorf("%s %q: %d %s", method, name, status, answer)
			}
		}
	}
}

// write makes a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
