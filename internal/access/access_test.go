package access

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for text, want := range map[string]struct{ in, out string }{
		"":                          {"127.0.0.1 ::1 8.8.8.8", ""},
		"10.0.0.0/8":                {"10.0.0.1 10.255.1.2 ::ffff:10.1.1.1", "11.0.0.1 ::1 127.0.0.1"},
		"127.0.0.1, ::1":            {"127.0.0.1 ::1", "127.0.0.2 ::2"},
		"fd00::/8,[fe80::1]":        {"fd00::5 fe80::1%eth0", "fe80::2 10.0.0.1"},
		"0.0.0.0/0":                 {"1.2.3.4", "::1"},
		"192.168.1.0/24,10.0.0.0/8": {"192.168.1.9 10.9.9.9", "192.168.2.1"},
	} {
		list, err := ParseNetworks(text)
		if err != nil {
			t.Fatal(err)
		}
		var n Networks
		n.Set(list)
		for _, a := range strings.Fields(want.in) {
			if !n.Admit(netip.MustParseAddr(a)) {
				t.Errorf("%q keeps %s out", text, a)
			}
		}
		for _, a := range strings.Fields(want.out) {
			if n.Admit(netip.MustParseAddr(a)) {
				t.Errorf("%q lets %s in", text, a)
			}
		}
		if n.Refused() != uint64(len(strings.Fields(want.out))) {
			t.Errorf("%q: %d refused", text, n.Refused())
		}
	}
	for _, bad := range []string{"x", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/8,", "fe80::1%eth0", strings.Repeat("10.0.0.1,", 2000) + "10.0.0.1"} {
		if _, err := ParseNetworks(bad); err == nil {
			t.Errorf("%.40q is a list of networks", bad)
		}
	}
	if !(*Networks)(nil).Admit(netip.MustParseAddr("8.8.8.8")) || !new(Networks).Admit(netip.MustParseAddr("8.8.8.8")) {
		t.Error("nothing said keeps somebody out")
	}
}

const (
	reader   = "reader-0123456789abcdef"
	operator = "operator-0123456789abcdef"
	admin    = "admin-0123456789abcdef"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGuard(t *testing.T) {
	all := "# of everybody\nread " + reader + "\noperate " + operator + "\n\nadmin " + admin + "\n"
	twoLevels := "operate " + operator + "\nadmin " + admin + "\n"
	for _, c := range []struct {
		tokens, method, path, token string
		want                        int
	}{
		{all, "GET", "/metrics", "", 401},
		{all, "GET", "/metrics", "nonsense-0123456789", 401},
		{all, "GET", "/metrics", reader, 200},
		{all, "GET", "/metrics", admin, 200},
		{all, "GET", "/health", "", 200},
		{all, "GET", "/livez", "", 200},
		{all, "GET", "/readyz", "", 200},
		{all, "HEAD", "/metrics", "", 401},
		{all, "POST", "/health", "", 401}, // only looking is open
		{all, "GET", "/debug/pprof/heap", operator, 403},
		{all, "GET", "/debug/pprof/heap", admin, 200},
		{all, "POST", "/api/v1/drain_jobs", reader, 403},
		{all, "POST", "/api/v1/drain_jobs", operator, 200},
		{all, "PUT", "/api/v1/tenant_quotas", operator, 200},
		{all, "POST", "/api/v1/remove_all", operator, 403},
		{all, "POST", "/api/v1/remove_all", admin, 200},
		{all, "DELETE", "/api/v1/bundles/1", operator, 403},
		{all, "DELETE", "/api/v1/bundles/1", "", 401},
		{all, "DELETE", "/api/v1/bundles/1", admin, 200},
		{twoLevels, "GET", "/metrics", "", 200}, // nobody has a token to read with, so nobody needs one
		{twoLevels, "GET", "/debug/pprof/heap", "", 401},
		{twoLevels, "POST", "/api/v1/remove_all", "", 401},
		{"", "POST", "/api/v1/remove_all", "", 200}, // no file at all
	} {
		var tokens *Tokens
		if c.tokens != "" {
			var err error
			if tokens, err = OpenTokens(file(t, c.tokens)); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		tokens.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s with %.8q: %d, want %d", c.method, c.path, c.token, w.Code, c.want)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: %d asks for %q", c.method, c.path, w.Code, w.Header().Get("WWW-Authenticate"))
		}
		if w.Code >= 400 && tokens.Refused() != 1 {
			t.Errorf("%s %s: %d refusals counted", c.method, c.path, tokens.Refused())
		}
	}
}

func TestTokenFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "no token",
		"# nothing\n":                  "no token",
		"read short":                   "line 1",
		"root " + admin:                "line 1",
		"read " + reader + " more":     "line 1",
		"read " + reader + "\nadmin\n": "line 2",
		strings.Repeat("#", 1<<17):     "larger",
	} {
		_, err := OpenTokens(file(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%.30q: %v, want %q and no secret", text, err, want)
		}
	}
	if _, err := OpenTokens(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
	path := file(t, "admin "+admin)
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if tokens.Reload() == nil || tokens.LevelOf(admin) != Admin {
		t.Error("a broken file took the tokens away")
	}
	if err := os.WriteFile(path, []byte("operate "+operator), 0o600); err != nil {
		t.Fatal(err)
	}
	if tokens.Reload() != nil || tokens.LevelOf(admin) != Nobody || tokens.LevelOf(operator) != Operate {
		t.Error("the new tokens do not count")
	}
}

func TestPeers(t *testing.T) {
	var p Peers
	one, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a, b := p.Enter(one, 2), p.Enter(netip.MustParseAddr("::ffff:10.0.0.1"), 2)
	if a == nil || a != b || p.Enter(one, 2) != nil || p.Enter(other, 2) == nil {
		t.Error("two of one address and one of another")
	}
	if !a.Begin(1) || a.Begin(1) {
		t.Error("one call, and no second one")
	}
	if conns, calls := p.Most(); conns != 2 || calls != 2 {
		t.Errorf("%d connections, %d calls", conns, calls)
	}
	a.End(2)
	p.Leave(a)
	p.Leave(b)
	if conns, calls := p.Most(); conns != 1 || calls != 0 || len(p.held) != 1 {
		t.Errorf("%d connections, %d calls, %d addresses", conns, calls, len(p.held))
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("read " + reader + "\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if grants, err := parseTokens(text); err == nil && len(grants) == 0 {
			t.Error("no token and no error")
		}
		if list, err := ParseNetworks(text); err == nil && len(list) > len(text) {
			t.Error("more networks than characters")
		}
	})
}
