package master

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// checkGRPC refuses settings of the gRPC port that cannot work together.
func (c *Config) checkGRPC() error {
	switch {
	case (c.GRPCTLSCert == "") != (c.GRPCTLSKey == ""):
		return fmt.Errorf("--grpc_tls_cert=%s and --grpc_tls_key=%s: both are needed, or none", c.GRPCTLSCert, c.GRPCTLSKey)
	case c.GRPCClientCA != "" && c.GRPCTLSCert == "":
		return fmt.Errorf("--grpc_tls_client_ca=%s needs --grpc_tls_cert and --grpc_tls_key", c.GRPCClientCA)
	case c.GRPCTLSCert != "" && c.HA:
		return fmt.Errorf("--grpc_tls_cert=%s: the other masters of --enable_ha ask on the same port without TLS", c.GRPCTLSCert)
	}
	_, err := c.grpcOptions()
	return err
}

// grpcOptions are the credentials of the gRPC port.
func (c *Config) grpcOptions() ([]grpc.ServerOption, error) {
	if c.GRPCTLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.GRPCTLSCert, c.GRPCTLSKey)
	if err != nil {
		return nil, fmt.Errorf("--grpc_tls_cert=%s, --grpc_tls_key=%s: %w", c.GRPCTLSCert, c.GRPCTLSKey, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.GRPCClientCA != "" {
		text, err := os.ReadFile(c.GRPCClientCA)
		if err != nil {
			return nil, fmt.Errorf("--grpc_tls_client_ca: %w", err)
		}
		cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !cfg.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--grpc_tls_client_ca=%s has no certificate in it", c.GRPCClientCA)
		}
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(cfg))}, nil
}

// addGRPC lists the settings of the gRPC port beside its number.
func (c *Config) addGRPC(add func(name string, value any)) {
	if c.GRPCTLSCert == "" {
		return
	}
	add("grpc_tls_cert", c.GRPCTLSCert)
	add("grpc_tls_key", c.GRPCTLSKey)
	if c.GRPCClientCA != "" {
		add("grpc_tls_client_ca", c.GRPCClientCA)
	}
}
