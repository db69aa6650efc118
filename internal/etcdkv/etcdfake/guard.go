package etcdfake

import (
	"context"
	"crypto/tls"
	"fmt"
	"path"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Options say how the fake is guarded. The zero value lets everybody do everything.
type Options struct {
	TLS   *tls.Config
	Users map[string]string // name → password; nil: nobody is asked who he is
}

// guard knows who may do what.
type guard struct {
	pb.UnimplementedAuthServer
	users  map[string]string
	byName bool

	mu     sync.Mutex
	tokens map[string]bool
	drawn  int      // tokens ever
	denied []string // calls that nobody may make
	calls  map[string]int
}

func newGuard(o Options) *guard {
	byName := o.TLS != nil && o.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	return &guard{users: o.Users, byName: byName, tokens: map[string]bool{}, calls: map[string]int{}}
}

func (g *guard) options(o Options) []grpc.ServerOption {
	opts := []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := g.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}),
		grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := g.admit(s.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, s)
		}),
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return opts
}

// admit looks at the token of a call.
func (g *guard) admit(ctx context.Context, method string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := path.Base(method)
	g.calls[name]++
	if slices.Contains(g.denied, name) {
		return rpctypes.ErrGRPCPermissionDenied
	}
	if g.users == nil || name == "Authenticate" || name == "LeaseGrant" || name == "LeaseKeepAlive" {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	token := md.Get(rpctypes.TokenFieldNameGRPC)
	switch {
	case len(token) == 0 && g.byName: // as an etcd that asks for certificates: it goes by the name in it, which is no user
		return rpctypes.ErrGRPCPermissionDenied
	case len(token) == 0:
		return rpctypes.ErrGRPCUserEmpty
	case !g.tokens[token[0]]:
		return rpctypes.ErrGRPCInvalidAuthToken
	}
	return nil
}

// Authenticate gives a token.
func (g *guard) Authenticate(_ context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if password, known := g.users[r.Name]; !known || password != r.Password {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	g.drawn++
	token := fmt.Sprintf("token-%d", g.drawn)
	g.tokens[token] = true
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: token}, nil
}

// ForgetTokens lets all tokens run out, and tells how many were drawn so far.
func (s *Server) ForgetTokens() (drawn int) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	clear(s.guard.tokens)
	return s.guard.drawn
}

// Deny lets nobody make a call any more, such as Compact.
func (s *Server) Deny(call string) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.denied = append(s.guard.denied, call)
}

// Calls is how often a call was made, such as Compact.
func (s *Server) Calls(call string) int {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return s.guard.calls[call]
}
