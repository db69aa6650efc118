package descriptor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/internal/limits"
)

// metadataServer is the original's metadata server: it compares keys as they were sent, and a location may be repeated
// but not replaced.
type metadataServer struct {
	mu       sync.Mutex
	values   map[string]string
	requests []string // method, raw query, content type and authorization of each
}

func startMetadataServer(t testing.TB) (*metadataServer, string) {
	t.Helper()
	m := &metadataServer{values: map[string]string{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return m, server.URL + "/metadata"
}

func (m *metadataServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.RawQuery, " ",
		r.Header.Get("Content-Type"), " ", r.Header.Get("Authorization"))))
	key := strings.TrimPrefix(r.URL.RawQuery, "key=")
	value, known := m.values[key]
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method == http.MethodPut && known && strings.Contains(key, "rpc_meta") && value != string(body):
		http.Error(w, "Duplicate rpc_meta key not allowed", http.StatusBadRequest)
	case r.Method == http.MethodPut:
		m.values[key] = string(body)
		io.WriteString(w, "metadata updated")
	case !known:
		http.Error(w, "metadata not found", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(m.values, key)
		io.WriteString(w, "metadata deleted")
	default:
		io.WriteString(w, value)
	}
}

func (m *metadataServer) value(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

func openStore(t testing.TB, name string) Store {
	t.Helper()
	store, err := Open(name, etcdkv.Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// bothStores runs a test against an http and an etcd metadata server.
func bothStores(t *testing.T, test func(t *testing.T, store Store)) {
	t.Run("http", func(t *testing.T) {
		_, url := startMetadataServer(t)
		test(t, openStore(t, url))
	})
	t.Run("etcd", func(t *testing.T) {
		fake, err := etcdfake.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(fake.Stop)
		test(t, openStore(t, "etcd://"+fake.Address()))
	})
}

func TestStoresKeepKeys(t *testing.T) {
	bothStores(t, func(t *testing.T, store Store) {
		ctx := context.Background()
		const key = "mooncake/ram/a:1/ü?&=%2F+ "
		if _, err := store.Get(ctx, key); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get of an absent key: %v", err)
		}
		if err := store.Delete(ctx, key); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Delete of an absent key: %v", err)
		}
		for _, value := range []string{"{\"a\":1}\n", "{}", ""} {
			if err := store.Put(ctx, key, []byte(value)); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Get(ctx, key); err != nil || string(got) != value {
				t.Fatalf("Get = %q, %v, want %q", got, err, value)
			}
		}
		if err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOpen(t *testing.T) {
	for _, name := range []string{
		"P2PHANDSHAKE", "http://127.0.0.1:8080/metadata", "https://meta.example/metadata", "http://[::1]:8080/metadata",
		"etcd://127.0.0.1:2379;127.0.0.1:2380", "127.0.0.1:2379",
	} {
		openStore(t, name)
	}
	for _, name := range []string{
		"", "redis://127.0.0.1:6379", "http://", "http:///metadata", "http://h:p/metadata", "http://h/metadata?key=", "http://u:p@h/",
		"etcd://", "etcd://h:p", "p2p handshake", "file:///x",
	} {
		if store, err := Open(name, etcdkv.Access{}); err == nil {
			store.Close()
			t.Errorf("Open(%q) succeeded", name)
		} else {
			mustContain(t, err, "metadata server")
		}
	}
}

func TestKeyNames(t *testing.T) {
	for _, c := range []struct{ cluster, name, ram, location string }{
		{"", "127.0.0.1:13550", "mooncake/ram/127.0.0.1:13550", "mooncake/rpc_meta/127.0.0.1:13550"},
		{"", "rack/7", "mooncake/rack/7", "mooncake/rpc_meta/rack/7"},
		{"x", "n", "mooncake/x/ram/n", "mooncake/x/rpc_meta/n"},
		{"x/", "n", "mooncake/x/ram/n", "mooncake/x/rpc_meta/n"},
	} {
		t.Setenv("MC_METADATA_CLUSTER_ID", c.cluster)
		if ram, location := RAMKey(c.name), RPCMetaKey(c.name); ram != c.ram || location != c.location {
			t.Errorf("cluster %q, name %q: %q and %q", c.cluster, c.name, ram, location)
		}
	}
}

// The dialogue of a published segment, as the server sees it: order, escaping, content type, token.
func TestHTTPDialogue(t *testing.T) {
	t.Setenv("MC_METADATA_HTTP_TOKEN", "tok123")
	m, url := startMetadataServer(t)
	store, ctx := openStore(t, url), context.Background()
	segment := sample()
	segment.Name = "127.0.0.1:13550"
	if err := Publish(ctx, store, segment, Location{Host: "127.0.0.1", RPCPort: 15391}); err != nil {
		t.Fatal(err)
	}
	if got, want := m.value("mooncake%2Frpc_meta%2F127.0.0.1%3A13550"), `{"ip_or_host_name":"127.0.0.1","rpc_port":15391}`+"\n"; got != want {
		t.Errorf("location %q, want %q", got, want)
	}
	if got := m.value("mooncake%2Fram%2F127.0.0.1%3A13550"); got != string(segment.Encode()) {
		t.Errorf("descriptor %q", got)
	}
	if err := Withdraw(ctx, store, segment.Name); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PUT key=mooncake%2Frpc_meta%2F127.0.0.1%3A13550 application/json Bearer tok123",
		"PUT key=mooncake%2Fram%2F127.0.0.1%3A13550 application/json Bearer tok123",
		"DELETE key=mooncake%2Frpc_meta%2F127.0.0.1%3A13550  Bearer tok123",
		"DELETE key=mooncake%2Fram%2F127.0.0.1%3A13550  Bearer tok123",
	}
	if strings.Join(m.requests, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(m.requests, "\n"), strings.Join(want, "\n"))
	}
	if len(m.values) != 0 {
		t.Errorf("left behind: %v", m.values)
	}
}

func TestEscapeKey(t *testing.T) {
	for key, want := range map[string]string{
		"AZaz09-._~": "AZaz09-._~", "a/b:c": "a%2Fb%3Ac", " +%&=?#": "%20%2B%25%26%3D%3F%23", "é\x00\xff": "%C3%A9%00%FF", "": "",
	} {
		if got := escapeKey(key); got != want {
			t.Errorf("escapeKey(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestTakenName(t *testing.T) {
	_, url := startMetadataServer(t)
	store, ctx := openStore(t, url), context.Background()
	if err := Publish(ctx, store, sample(), Location{Host: "127.0.0.1", RPCPort: 16005}); err != nil {
		t.Fatal(err)
	}
	if err := Publish(ctx, store, sample(), Location{Host: "127.0.0.1", RPCPort: 16005}); err != nil {
		t.Errorf("the same location again: %v", err)
	}
	err := Publish(ctx, store, sample(), Location{Host: "127.0.0.1", RPCPort: 16007})
	if !errors.Is(err, ErrNameTaken) {
		t.Errorf("another location under the same name: %v", err)
	}
	mustContain(t, err, "127.0.0.1:16005", "another process")
}

func TestServersThatMisbehave(t *testing.T) {
	big := strings.Repeat("x", limits.MetadataQuoteBytes*3)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"500":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of\nmemory", 500) }, `status 500 "out of"`},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "status 302"},
		"204":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"long":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, big, 400) }, "status 400"},
		"hang up":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		server := httptest.NewServer(c.answer)
		store, err := Open(server.URL+"/metadata", etcdkv.Access{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Get(context.Background(), "k")
		mustContain(t, err, server.URL, c.want)
		if len(err.Error()) > 400 {
			t.Errorf("%s: the error has %d characters", name, len(err.Error()))
		}
		mustContain(t, Withdraw(context.Background(), store, "n"), c.want)
		store.Close()
		server.Close()
	}
	store := openStore(t, "http://127.0.0.1:1/metadata")
	mustContain(t, store.Put(context.Background(), "k", []byte("v")), "http://127.0.0.1:1/metadata", "refused")
}

func TestP2PPublishesNothing(t *testing.T) {
	store, ctx := openStore(t, P2PHandshake), context.Background()
	if !IsP2P(store) {
		t.Error("not P2P")
	}
	if err := errors.Join(Publish(ctx, store, sample(), Location{Host: "h"}), Withdraw(ctx, store, "n")); err != nil {
		t.Error(err)
	}
	if _, err := store.Get(ctx, RAMKey("n")); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
