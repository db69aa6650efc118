package etcdfake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority makes certificates for 127.0.0.1, as files of a directory.
type Authority struct {
	// File holds the authority's own certificate.
	File string
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(dir, name string) (*Authority, error) {
	a := &Authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	plan := plan(name)
	plan.IsCA, plan.BasicConstraintsValid, plan.KeyUsage = true, true, x509.KeyUsageCertSign
	text, err := x509.CreateCertificate(rand.Reader, plan, plan, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(text); err != nil {
		return nil, err
	}
	a.File = filepath.Join(dir, name+".pem")
	return a, write(a.File, "CERTIFICATE", text)
}

func plan(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// Issue makes the certificate of a server and client, and gives its files.
func (a *Authority) Issue(name string) (cert, key string, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	plan := plan(name)
	plan.IPAddresses, plan.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	plan.KeyUsage, plan.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	text, err := x509.CreateCertificate(rand.Reader, plan, a.cert, &own.PublicKey, a.key)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+"-key.pem")
	return cert, key, errors.Join(write(cert, "CERTIFICATE", text), write(key, "EC PRIVATE KEY", secret))
}

// Server is what a server says with a certificate of this authority. With clients it asks for theirs.
func (a *Authority) Server(name string, clients bool) (*tls.Config, error) {
	cert, key, err := a.Issue(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(a.cert)
	}
	return config, nil
}

func write(path, kind string, text []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600)
}
