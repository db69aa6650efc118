package client

import (
	"context"

	"google.golang.org/grpc/credentials"
)

// Token shows a master an access token with every call, for Config.Credentials. A token goes over any connection, one without
// TLS too: whoever can read along there can use it.
func Token(token string) credentials.PerRPCCredentials { return bearer(token) }

// bearer is a token as it is shown.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: as on the admin port, TLS is the operator's choice.
func (b bearer) RequireTransportSecurity() bool { return false }
