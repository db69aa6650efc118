package master

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue makes a key and a certificate and writes both to files.
func (a *authority) issue(name string, c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// TestGRPCTLS speaks TLS with a master, with and without a certificate of the caller's own.
func TestGRPCTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.issue("caller", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(a.file("caller.pem"), a.file("caller.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, mutual := range []bool{false, true} {
		b := newBed(t, withGRPC, func(c *Config) {
			c.GRPCTLSCert, c.GRPCTLSKey = a.file("server.pem"), a.file("server.key")
			if mutual {
				c.GRPCClientCA = a.file("ca.pem")
			}
		})
		ask := func(cfg *tls.Config) error {
			conn, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), grpc.WithTransportCredentials(credentials.NewTLS(cfg)), grpc.WithNoProxy())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = mooncakev1.NewAdminClient(conn).Status(soon(t), &mooncakev1.StatusRequest{})
			return err
		}
		if err := ask(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}); err != nil {
			t.Errorf("mutual %v, with a certificate: %v", mutual, err)
		}
		if err := ask(&tls.Config{RootCAs: roots}); (err != nil) != mutual {
			t.Errorf("mutual %v, without a certificate: %v", mutual, err)
		}
		_, err := mooncakev1.NewAdminClient(b.grpc()).Status(soon(t), &mooncakev1.StatusRequest{})
		refusedAs(t, "a call without TLS", err, codes.Unavailable)
	}
}

// TestGRPCSettings refuses what cannot work together, in one line that names the flag.
func TestGRPCSettings(t *testing.T) {
	a := newAuthority(t)
	for want, edit := range map[string]func(c *Config){
		"--grpc_tls_key":               func(c *Config) { c.GRPCTLSCert = a.file("ca.pem") },
		"--grpc_tls_client_ca=x needs": func(c *Config) { c.GRPCClientCA = "x" },
		"no such file":                 func(c *Config) { c.GRPCTLSCert, c.GRPCTLSKey = "/no/such/file", "/no/such/file" },
		"has no certificate": func(c *Config) {
			c.GRPCTLSCert, c.GRPCTLSKey, c.GRPCClientCA = a.file("ca.pem"), a.file("ca.key"), a.file("ca.key")
		},
		"ask on the same port": func(c *Config) {
			c.HA, c.HAConnString, c.RPCAddress, c.GRPCTLSCert, c.GRPCTLSKey = true, "127.0.0.1:2379", "127.0.0.1", a.file("ca.pem"), a.file("ca.key")
		},
		"--grpc_port=-2 is outside":      func(c *Config) { c.GRPCPort = -2 },
		"--grpc_port=-1 is outside":      func(c *Config) { c.GRPCPort, c.HA = -1, true },
		"--metrics_port and --grpc_port": func(c *Config) { c.GRPCPort, c.MetricsHost = c.MetricsPort, c.RPCAddress },
	} {
		cfg := DefaultConfig()
		edit(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one line with %q", err, want)
		}
	}
}

// TestGRPCPortTaken goes on without the port where nobody asked for it, and says so.
func TestGRPCPortTaken(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	b := newBed(t, func(c *Config) { c.GRPCPort, c.GRPCOptional = port, true })
	if lines := b.complaints(); len(lines) != 1 || !strings.Contains(lines[0], strconv.Itoa(port)) || !strings.Contains(lines[0], "--grpc_port") {
		t.Errorf("complaints %q", lines)
	}
	if open := b.cfg.With(b.Ports()); b.Ports().GRPC != 0 || open.GRPCPort != -1 {
		t.Errorf("port %d, setting %d", b.Ports().GRPC, open.GRPCPort)
	}
	cfg := b.cfg
	cfg.GRPCOptional = false
	if srv, err := Listen(cfg, zap.NewNop()); err == nil {
		srv.close()
		t.Error("a port that was asked for is taken, and the master starts")
	}
}
