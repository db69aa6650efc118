package master

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mooncake/wire"
)

// tokens of the tests.
const (
	readToken    = "read-0123456789abcdef"
	operateToken = "operate-0123456789abcdef"
	adminToken   = "admin-0123456789abcdef"
)

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate makes one for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin port"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return written(t, "cert.pem", string(text)), written(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))), pool
}

// TestP36Admin has an admin port with TLS, client certificates and tokens.
func TestP36Admin(t *testing.T) {
	cert, key, pool := certificate(t)
	tokens := written(t, "tokens", "read "+readToken+"\noperate "+operateToken+"\nadmin "+adminToken+"\n")
	b := newBed(t, func(c *Config) {
		c.AdminCert, c.AdminKey, c.AdminClientCA, c.AdminTokens = cert, key, cert, tokens
	})
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	client := func(certs ...tls.Certificate) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}, DisableKeepAlives: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	known, port := client(pair), strconv.Itoa(b.Ports().Metrics)
	ask := func(method, path, token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1:"+port+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := known.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/health", "", 200},
		{"GET", "/metrics", "", 401},
		{"GET", "/metrics", readToken + "x", 401},
		{"GET", "/metrics", readToken, 200},
		{"GET", "/limits", "", 401},
		{"GET", "/limits", readToken, 200},
		{"POST", "/api/v1/remove_all", readToken, 403},
		{"POST", "/api/v1/remove_all", operateToken, 403},
		{"POST", "/api/v1/remove_all", adminToken, 200},
		{"DELETE", "/api/v1/workloads/none", operateToken, 403},
	} {
		if got := ask(c.method, c.path, c.token); got != c.want {
			t.Errorf("%s %s with %.7q: %d, want %d", c.method, c.path, c.token, got, c.want)
		}
	}
	if resp, err := client().Get("https://127.0.0.1:" + port + "/health"); err == nil {
		_ = resp.Body.Close()
		t.Error("a caller without a certificate was answered")
	}
	resp, err := http.Get("http://127.0.0.1:" + port + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %d", resp.StatusCode)
	}
	if lines := b.complaints(); len(lines) != 0 {
		t.Errorf("strangers are no reason to complain: %q", lines)
	}
}

// TestP36Networks lets nobody call from an address that is not listed, and everybody again after a reload.
func TestP36Networks(t *testing.T) {
	b := newBed(t, func(c *Config) { c.RPCAllowFrom, c.RPCPortV12 = "10.0.0.0/8,::1", 0 })
	for _, port := range []int{b.Ports().RPC, b.Ports().RPCV12} {
		turnedAway(t, port)
	}
	if b.conns() != 0 {
		t.Errorf("%d connections are served", b.conns())
	}
	next := b.cfg
	next.RPCAllowFrom, next.HighWatermark = "127.0.0.0/8", 0.5
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	p := b.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	next.RPCAllowFrom = "nonsense"
	if err := b.Reload(&next); err == nil || !strings.Contains(err.Error(), "--rpc_allow_from") {
		t.Errorf("a reload of nonsense: %v", err)
	}
	p.put("k2", mib)
}

// turnedAway connects and expects to be disconnected without a byte.
func turnedAway(t *testing.T, port int) {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("port %d: %d bytes, %v", port, n, err)
	}
}

// TestNetworksOfMembers has a standby and a leader that let nobody in.
func TestNetworksOfMembers(t *testing.T) {
	etcd := startEtcd(t)
	closed := func(c *Config) { c.RPCAllowFrom = "10.0.0.0/8" }
	first := newMember(t, etcd, closed)
	first.awaitState("serving")
	second := newMember(t, etcd, closed)
	second.awaitState("standby")
	for _, b := range []*bed{first, second} {
		turnedAway(t, b.Ports().RPC)
	}
	next := first.cfg
	next.RPCAllowFrom, next.EvictionRatio = "127.0.0.1", 0.5
	if err := first.Reload(&next); err != nil {
		t.Fatal(err)
	}
	first.client(wire.V13)
	turnedAway(t, second.Ports().RPC)
	if err := second.Reload(&next); err != nil {
		t.Fatal(err)
	}
	second.client(wire.V13)
}

// TestLimitsPage finds every bound, and what is held of it.
func TestLimitsPage(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	_, text, _ := adminGet(t, b, "/limits")
	var page struct {
		Limits []struct {
			Name, Unit, Per string
			Limit           int64
			Now             *int64
			Refused         *uint64
		}
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range page.Limits {
		seen[row.Name] = true
		if row.Unit == "" || row.Per == "" || row.Limit == 0 && row.Refused == nil {
			t.Errorf("%+v", row)
		}
		if (row.Name == "rpc_connections" || row.Name == "rpc_connections_of_one_address") && (row.Now == nil || *row.Now != 1) {
			t.Errorf("%s: one connection is open, and the page says %v", row.Name, row.Now)
		}
	}
	for _, name := range []string{
		"rpc_connections", "rpc_connections_of_one_address", "rpc_calls_of_one_address", "rpc_frame",
		"grpc_frame", "grpc_frame_connections", "grpc_frame_pending_replies", "http_connections", "page_readers", "attach_reads",
	} {
		if !seen[name] {
			t.Errorf("no %s in %s", name, text)
		}
	}
}
