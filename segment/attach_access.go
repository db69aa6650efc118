package segment

import (
	"context"
	"fmt"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"mooncake/internal/access"
)

// StreamAccess are the files by which a daemon reaches the gRPC port of its master. They are read again for every stream, so
// that a certificate or a token may be replaced while the daemon runs. The zero value is no TLS and no token.
type StreamAccess struct {
	CA, Cert, Key string
	TokenFile     string
}

// flags lists what is set.
func (a *StreamAccess) flags(add func(flag string, v any)) {
	for _, f := range []struct{ name, value string }{
		{"master_grpc_ca", a.CA}, {"master_grpc_cert", a.Cert}, {"master_grpc_key", a.Key}, {"master_grpc_token_file", a.TokenFile},
	} {
		if f.value != "" {
			add(f.name, f.value)
		}
	}
}

// transport is how the port is spoken with.
func (a *StreamAccess) transport() (credentials.TransportCredentials, error) {
	cfg, err := access.CallerTLS(a.CA, a.Cert, a.Key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--master_grpc_%w", err)
	case cfg == nil:
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(cfg), nil
}

// shown is the context of a call that shows the token, if there is one.
func (a *StreamAccess) shown(ctx context.Context) (context.Context, error) {
	if a.TokenFile == "" {
		return ctx, nil
	}
	token, err := access.ReadToken(a.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("--master_grpc_token_file=%s: %w", a.TokenFile, err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), nil
}

// validateStream refuses files that cannot be used, unless there is to be no stream.
func (c *Config) validateStream() error {
	if c.MasterGRPCPort < 0 {
		return nil
	}
	if _, err := c.MasterGRPC.transport(); err != nil {
		return err
	}
	_, err := c.MasterGRPC.shown(context.Background())
	return err
}
