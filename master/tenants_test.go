package master

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

const twoTenants = "version: 1\ntenants:\n- name: a\n  quota: 8KB\n- {name: b, quota: 1 MB}\n"

// withTenants tells tenants apart, by a file of quotas.
func withTenants(t *testing.T, text string) (path string, edit func(*Config)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path, func(c *Config) { c.MultiTenants, c.TenantPolicyURI = true, path }
}

func (p *peer) store(tenant, key string, size uint64) wire.ErrorCode {
	p.t.Helper()
	if rep := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: size, Config: oneCopy(), TenantID: tenant}); rep.Err != 0 {
		return rep.Err
	}
	return invoke(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll, TenantID: tenant}).Err
}

// TestTenantsAreToldApart gives two tenants the same key.
func TestTenantsAreToldApart(t *testing.T) {
	for _, d := range dialects {
		_, edit := withTenants(t, twoTenants)
		b := newBed(t, edit)
		p := b.client(d)
		p.mount("host", 1<<20, 4<<20)
		get := func(tenant, key string) wire.GetReplicaListReply {
			return invoke(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: key, TenantID: tenant})
		}
		expect(t, "put of a", p.store("a", "k", 1000), wire.ErrorCode(0))
		expect(t, "put of b", p.store("b", "k", 2000), wire.ErrorCode(0))
		expect(t, "put of nobody", p.store("", "k", 1000), wire.ErrTenantNotRegistered)
		expect(t, "put of a stranger", p.store("c", "k", 1000), wire.ErrTenantNotRegistered)
		expect(t, "put of an impossible tenant", p.store("_x", "k", 1000), wire.ErrInvalidParams)
		expect(t, "put beyond the quota", p.store("a", "large", 8000), wire.ErrTenantQuotaExceeded)
		for tenant, size := range map[string]uint64{"a": 1000, "b": 2000} {
			rep := get(tenant, "k")
			if rep.Err != 0 || rep.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.Size != size {
				t.Errorf("look-up of %s: %+v", tenant, rep)
			}
			if d == wire.V14 && rep.Value.ResolvedTenantID.Value != tenant {
				t.Errorf("look-up of %s is said to be of %q", tenant, rep.Value.ResolvedTenantID.Value)
			}
			matching := invoke(p, &wire.GetReplicaListByRegex, &wire.GetReplicaListByRegexRequest{Regex: "^k$", TenantID: tenant})
			if len(matching.Value) != 1 || matching.Value[0].Key != "k" {
				t.Errorf("pattern of %s: %+v", tenant, matching)
			}
		}
		expect(t, "look-up of nobody", get("", "k").Err, wire.ErrObjectNotFound)
		expect(t, "look-up of an impossible tenant", get("a\x01", "k").Err, wire.ErrInvalidParams)
		expect(t, "removal of nobody's", invoke(p, &wire.Remove, &wire.RemoveRequest{Key: "k", Force: true}).Err, wire.ErrObjectNotFound)
		expect(t, "removal by pattern", invoke(p, &wire.RemoveByRegex, &wire.RemoveByRegexRequest{Regex: ".", Force: true, TenantID: "a"}).Value, 1)
		expect(t, "removal of a's", int64(invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true, TenantID: "a"})), 0)
		expect(t, "removal of all", int64(invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true})), 1)
		b.stop()
	}
}

// TestTenantsOfABatch refuses each item of a batch alone.
func TestTenantsOfABatch(t *testing.T) {
	_, edit := withTenants(t, twoTenants)
	p := newBed(t, edit).client(wire.V13)
	p.mount("host", 1<<20, 4<<20)
	keys := []string{"x", "y", "z"}
	start := invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{
		ClientID: p.id, Keys: keys, Sizes: []uint64{4096, 4096, 4096}, Config: oneCopy(), TenantID: "a",
	})
	for i, want := range []wire.ErrorCode{0, 0, wire.ErrTenantQuotaExceeded} {
		expect(t, keys[i], start[i].Err, want)
	}
	expectItems(t, "revoke for another tenant",
		invoke(p, &wire.BatchPutRevoke, &wire.BatchPutRevokeRequest{ClientID: p.id, Keys: keys, ReplicaType: wire.ReplicaTypeAll, TenantID: "b"}),
		wire.ErrObjectNotFound, wire.ErrObjectNotFound, wire.ErrObjectNotFound)
	expectItems(t, "revoke for an impossible tenant",
		invoke(p, &wire.BatchPutRevoke, &wire.BatchPutRevokeRequest{ClientID: p.id, Keys: keys, ReplicaType: wire.ReplicaTypeAll, TenantID: "_"}),
		wire.ErrInvalidParams, wire.ErrInvalidParams, wire.ErrInvalidParams)
	expectItems(t, "revoke",
		invoke(p, &wire.BatchPutRevoke, &wire.BatchPutRevokeRequest{ClientID: p.id, Keys: keys, ReplicaType: wire.ReplicaTypeAll, TenantID: "a"}),
		0, 0, wire.ErrObjectNotFound)
	exists := invoke(p, &wire.BatchExistKey, &wire.BatchExistKeyRequest{Keys: keys[:1], TenantID: "_"})
	expect(t, "exist of an impossible tenant", exists[0].Err, wire.ErrInvalidParams)
}

// TestTenantIsIgnoredWithoutTenants is the rule as long as nobody asks for more.
func TestTenantIsIgnoredWithoutTenants(t *testing.T) {
	p := newBed(t).client(wire.V13)
	p.mount("host", 1<<20, 4<<20)
	expect(t, "put", p.store("_impossible", "k", 10), wire.ErrorCode(0))
	expect(t, "exists", p.exists("k"), true)
	expect(t, "removed", int64(invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true, TenantID: "other"})), 1)
}

// TestQuotasAreKept changes quotas by HTTP: they are in force at once, and in the file.
func TestQuotasAreKept(t *testing.T) {
	path, edit := withTenants(t, twoTenants)
	b := newBed(t, edit)
	p := b.client(wire.V13)
	p.mount("host", 1<<20, 4<<20)
	ask := func(method, query, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://127.0.0.1:"+strconv.Itoa(b.Ports().Metrics)+"/api/v1/tenant_quotas"+query, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer rep.Body.Close()
		text, err := io.ReadAll(rep.Body)
		if err != nil {
			t.Fatal(err)
		}
		return rep.StatusCode, string(text)
	}
	status, text := ask("PUT", "?tenant_id=c%20d", `{"requested_quota_bytes":4096}`)
	want := `{"success":true,"data":{"tenant_id":"c d","requested_quota_bytes":4096,"effective_quota_bytes":4096,"charged_bytes":0,"admission_closed":false,"over_quota":false,"has_explicit_policy":true}}`
	if status != http.StatusOK || text != want {
		t.Errorf("put: %d %s", status, text)
	}
	expect(t, "put of the new one", p.store("c d", "k", 4096), wire.ErrorCode(0))
	if status, text = ask("DELETE", "?tenant_id=c%20d", ""); status != http.StatusConflict || !strings.Contains(text, "-1702") {
		t.Errorf("delete with an object: %d %s", status, text)
	}
	expect(t, "and again", p.store("c d", "l", 10), wire.ErrTenantQuotaExceeded)
	if status, text = ask("DELETE", "?tenant_id=a", ""); status != http.StatusOK || text != `{"success":true,"data":null}` {
		t.Errorf("delete: %d %s", status, text)
	}
	expect(t, "put of who went", p.store("a", "k", 10), wire.ErrTenantNotRegistered)
	kept, err := filePolicy(path).load(context.Background())
	if diff := cmp.Diff(map[string]uint64{"b": 1 << 20, "c d": 4096}, kept); err != nil || diff != "" {
		t.Errorf("the file: %v\n%s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has another mode: %v %v", info, err)
	}
	// A policy that cannot be written stays as it was.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if status, text = ask("PUT", "?tenant_id=a", `{"requested_quota_bytes":1}`); status != http.StatusInternalServerError {
		t.Errorf("put without a file: %d %s", status, text)
	}
	if _, text = ask("GET", "", ""); strings.Contains(text, `"a"`) {
		t.Errorf("the quota that could not be kept is in force: %s", text)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("files are left: %v %v", files, err)
	}
}

// TestQuotasInEtcd keeps the same document under a key.
func TestQuotasInEtcd(t *testing.T) {
	etcd := startEtcd(t)
	cfg := DefaultConfig()
	cfg.MultiTenants, cfg.TenantPolicyType, cfg.TenantPolicyURI, cfg.ClusterID = true, policyInEtcd, etcd.Address(), "c/"
	store, err := cfg.openPolicy()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.close(); err != nil {
			t.Error(err)
		}
	}()
	asked, err := store.load(t.Context())
	if err != nil || len(asked) > 0 {
		t.Fatalf("nothing is there yet: %v %v", asked, err)
	}
	want := map[string]uint64{"a": 1, "b": 2}
	if err := store.save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if asked, err = store.load(t.Context()); err != nil || !maps.Equal(asked, want) {
		t.Fatalf("%v %v", asked, err)
	}
	if key := store.(*etcdPolicy).key; key != "mooncake-store/c/tenant_quota_policy" {
		t.Errorf("key %s", key)
	}
}

func TestPolicyDocuments(t *testing.T) {
	for text, want := range map[string]map[string]uint64{
		twoTenants:                  {"a": 8192, "b": 1 << 20},
		"version: 1":                {},
		"{version: 1, tenants: []}": {},
		"version: 1\ntenants:\n":    {},
		"version: 1\ntenants: [{name: 7, quota: 2tb}, {name: x, quota: 9 B}, {name: y, quota: 9223372036854775807}]": {"7": 2 << 40, "x": 9, "y": 1<<63 - 1},
	} {
		got, err := decodePolicy([]byte(text))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for text, part := range map[string]string{
		"":                                  "empty",
		"tenants: []":                       "version",
		"version: 2":                        `version "2"`,
		"version: 1\nother: 1":              `line 2: unknown key "other"`,
		"version: 1\ntenants: 3":            "line 2: tenants is not a list",
		"version: 1\ntenants: [3]":          "a tenant is not a map",
		"version: 1\ntenants: [{name: a}]":  `tenant "a" has no quota`,
		"version: 1\ntenants: [{quota: 1}]": `name ""`,
		"version: 1\ntenants: [{size: 1}]":  `no key "size"`,
		"[":                                 "line 1",
		strings.Repeat(" ", limits.TenantPolicyBytes+1):                                                     "bytes of quotas",
		"version: 1\ntenants: [{name: _a, quota: 1}]":                                                       `name "_a"`,
		"version: 1\ntenants: [{name: a, quota: 1}, {name: a, quota: 2}]":                                   `"a" is there twice`,
		"version: 1\ntenants: [{name: a, quota: 1MiB}]":                                                     `quota "1MiB"`,
		"version: 1\ntenants: [{name: a, quota: 0}]":                                                        `quota "0"`,
		"version: 1\ntenants: [{name: a, quota: -1}]":                                                       `quota "-1"`,
		"version: 1\ntenants: [{name: a, quota: 8388608TB}]":                                                `quota "8388608TB"`,
		"version: 1\ntenants:\n" + strings.Repeat("- {name: a, quota: 1}\n", 2) + "- {name: b, quota: 1}\n": "twice",
	} {
		if _, err := decodePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q", text, err, part)
		}
	}
	var many bytes.Buffer
	many.WriteString("version: 1\ntenants:\n")
	for i := range limits.TenantPolicies + 1 {
		fmt.Fprintf(&many, "- {name: t%d, quota: 1}\n", i)
	}
	if _, err := decodePolicy(many.Bytes()); err == nil || !strings.Contains(err.Error(), "more than 10000 tenants") {
		t.Errorf("too many tenants: %v", err)
	}
}

// FuzzPolicy reads anything; what it takes it can write and read again.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(twoTenants))
	f.Add([]byte("version: 1\ntenants: [{name: \"a\\\"b\", quota: 1}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		asked, err := decodePolicy(text)
		if err != nil {
			return
		}
		again, err := decodePolicy(encodePolicy(asked))
		if err != nil || !maps.Equal(asked, again) {
			t.Fatalf("%v, %v, %v", asked, again, err)
		}
	})
}

func TestTenantSettings(t *testing.T) {
	path, edit := withTenants(t, "version: 3")
	for part, change := range map[string]func(*Config){
		"needs --tenant_quota_connector_uri": func(c *Config) { c.TenantPolicyURI = "" },
		`connector_type="ftp"`:               func(c *Config) { c.TenantPolicyType = "ftp" },
		"watermark_ratio=1.5":                func(c *Config) { c.TenantWatermark = 1.5 },
		path + ": line 1: version":           func(*Config) {},
		"no such file":                       func(c *Config) { c.TenantPolicyURI = path + "x" },
		"--tenant_quota_connector_uri: etcd": func(c *Config) { c.TenantPolicyType, c.TenantPolicyURI = policyInEtcd, ":::" },
	} {
		cfg := DefaultConfig()
		edit(&cfg)
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("want %q, got %v", part, err)
		}
	}
}

// TestRecordedTenantPages plays what was recorded of a master with two tenants.
func TestRecordedTenantPages(t *testing.T) {
	f := recordedMaster()
	f.tenants = []catalog.TenantStat{
		{Name: "default", Requested: 33554432, Effective: 33554432, Charged: 27262976, Objects: 1, Policy: true},
		{Name: "t0", Requested: 16777216, Effective: 16777216, Charged: 14695064, Objects: 1, Policy: true},
	}
	h := admin(f)
	for _, name := range []string{
		"quotas_list", "quota_get", "quota_get_unknown", "quota_get_badtenant", "quota_put_new", "quota_delete_nonempty", "quota_delete", "quota_delete_again",
		"quota_put_extra", "remove_all_get",
	} {
		readExchange(t, "tenants_"+name).compare(t, name, h)
	}
	readExchange(t, "remove_all_ok").compare(t, "remove_all_ok", h)
}
