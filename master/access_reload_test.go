package master

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReloadCertificate puts another certificate in the place of the first: connections from then on see it. A broken one
// changes nothing, the networks included that the same reload would have brought.
func TestReloadCertificate(t *testing.T) {
	cert, key, first := certificate(t)
	otherCert, otherKey, second := certificate(t)
	b := newBed(t, func(c *Config) { c.AdminCert, c.AdminKey = cert, key })
	sees := func(pool *x509.CertPool) bool {
		t.Helper()
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get("https://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + "/health")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	move := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !sees(first) || sees(second) {
		t.Fatal("the first certificate is not shown")
	}
	move(otherCert, cert) // and not its key
	next := b.cfg
	next.RPCAllowFrom = "10.0.0.0/8"
	if err := b.Reload(&next); err == nil || !strings.Contains(err.Error(), "--admin_tls_cert="+cert) {
		t.Errorf("a certificate without its key: %v", err)
	}
	if !sees(first) || !b.admit(netip.IPv6Loopback()) {
		t.Error("a reload that failed changed something")
	}
	move(otherKey, key)
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	if sees(first) || !sees(second) || b.admit(netip.IPv6Loopback()) {
		t.Error("the second certificate is not shown, or the networks are the former ones")
	}
}
