package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Certificate is what an HTTP port shows, and whom it asks for one. Nil is no TLS.
type Certificate struct {
	cert, key string
	clientCA  *x509.CertPool // nil: callers need no certificate
	pair      atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads the files. With clientCA callers need a certificate of one of its authorities. Without any file there
// is no TLS. The error begins with the part of the flag's name that tells them apart: tls_cert, tls_key or tls_client_ca.
func OpenCertificate(cert, key, clientCA string) (*Certificate, error) {
	switch {
	case cert == "" && key == "" && clientCA == "":
		return nil, nil
	case cert == "":
		return nil, errors.New("tls_cert is missing beside its key or its authorities")
	case key == "":
		return nil, errors.New("tls_key is missing beside its certificate")
	}
	c := &Certificate{cert: cert, key: key}
	if clientCA != "" {
		text, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, fmt.Errorf("tls_client_ca=%s: %w", clientCA, plain(err))
		}
		if c.clientCA = x509.NewCertPool(); !c.clientCA.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls_client_ca=%s has no certificate", clientCA)
		}
	}
	return c, c.Reload()
}

// Reload reads certificate and key again. After an error the former pair stays.
func (c *Certificate) Reload() error {
	if c == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("tls_cert=%s with tls_key=%s: %w", c.cert, c.key, plain(err))
	}
	c.pair.Store(&pair)
	return nil
}

// Config is the configuration of a listener.
func (c *Certificate) Config() *tls.Config {
	out := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
	if c.clientCA != nil {
		out.ClientCAs, out.ClientAuth = c.clientCA, tls.RequireAndVerifyClientCert
	}
	return out
}
