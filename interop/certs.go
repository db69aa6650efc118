package interop

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
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Certificates are files for a server on the loopback address and its clients, all from one authority.
type Certificates struct {
	Authority, Cert, Key string
}

// NewCertificates makes an authority and a certificate of its own in a directory.
func NewCertificates(dir, name string) (*Certificates, error) {
	c := &Certificates{
		Authority: filepath.Join(dir, name+"-ca.pem"), Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"),
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	top, err := x509.CreateCertificate(rand.Reader, authority, authority, &root.PublicKey, root)
	if err != nil {
		return nil, err
	}
	text, err := x509.CreateCertificate(rand.Reader, leaf, authority, &own.PublicKey, root)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return nil, err
	}
	write := func(path, kind string, text []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600)
	}
	return c, errors.Join(write(c.Authority, "CERTIFICATE", top), write(c.Cert, "CERTIFICATE", text), write(c.Key, "EC PRIVATE KEY", secret))
}

// transport speaks to the server with the certificate.
func (c *Certificates) transport() (*http.Transport, error) {
	text, err := os.ReadFile(c.Authority)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}, nil
}
