package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// CallerTLS reads what a caller needs to speak TLS: the authorities that its peers' certificates come from, and, if it is to
// show one, its own certificate. Without any file there is no TLS. The error begins with the part of the flag's name that tells
// them apart: ca, cert or key.
func CallerTLS(ca, cert, key string) (*tls.Config, error) {
	switch {
	case ca == "" && cert == "" && key == "":
		return nil, nil
	case ca == "":
		return nil, errors.New("ca is missing beside a certificate or its key: they say that TLS is spoken")
	case cert == "" && key != "":
		return nil, errors.New("cert is missing beside its key")
	case key == "" && cert != "":
		return nil, errors.New("key is missing beside its certificate")
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("ca=%s: %w", ca, plain(err))
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !cfg.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca=%s has no certificate in it", ca)
	}
	if cert == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert=%s with key=%s: %w", cert, key, plain(err))
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// ReadToken reads the token that a caller shows: a file with one word.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", plain(err)
	}
	words := strings.Fields(string(text))
	if len(words) != 1 {
		return "", fmt.Errorf("it has %d words in it, a token is one", len(words))
	}
	return words[0], nil
}
