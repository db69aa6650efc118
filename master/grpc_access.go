package master

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"mooncake/internal/access"
)

// openServices are what nobody needs a token for: probes carry none, descriptions of calls are no secret, and other masters know
// each other by other means.
var openServices = []string{"grpc.health.v1.Health", "grpc.reflection.", "mooncake.peer.v1.Peer"}

// lookingCalls begin the names of calls that change nothing for anybody else.
var lookingCalls = []string{"List", "Get", "Exists", "Placements", "Open", "Watch", "Totals", "Status", "Clients", "Tasks", "Healing"}

// adminCalls take away what cannot be brought back, or show everything there is.
var adminCalls = []string{"Remove", "Reclaim", "Delete", "SaveSnapshot", "Transfer", "Rebalance"}

// neededFor is the level that a call needs, by its full name. What is not known changes something.
func neededFor(method string) access.Level {
	service, call, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, open := range openServices {
		if service == open || strings.HasSuffix(open, ".") && strings.HasPrefix(service, open) {
			return access.Nobody
		}
	}
	for _, name := range adminCalls {
		if call == name {
			return access.Admin
		}
	}
	for _, name := range lookingCalls {
		if strings.HasPrefix(call, name) {
			return access.Read
		}
	}
	return access.Operate
}

// authorizeGRPC asks the tokens, and then what an embedding program has set.
func (s *Server) authorizeGRPC(ctx context.Context, method string) error {
	shown := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		shown = strings.Join(md.Get("authorization"), "")
	}
	var why *access.Refusal
	if err := s.doors.grpcTokens.Load().Check(shown, neededFor(method)); errors.As(err, &why) {
		if why.Has == access.Nobody {
			return status.Error(codes.Unauthenticated, why.Error())
		}
		return status.Error(codes.PermissionDenied, why.Error())
	}
	if s.cfg.GRPCAuthorize != nil {
		return s.cfg.GRPCAuthorize(ctx, method)
	}
	return nil
}

func (c *Config) openGRPCTokens() (*access.Tokens, error) {
	tokens, err := access.OpenTokens(c.GRPCTokens)
	if err != nil {
		return nil, fmt.Errorf("--grpc_tokens_file=%s: %w", c.GRPCTokens, err)
	}
	return tokens, nil
}

// welcoming lets connections in only from networks that may call.
type welcoming struct {
	net.Listener
	networks *access.Networks
}

// Accept implements net.Listener.
func (w welcoming) Accept() (net.Conn, error) {
	for {
		conn, err := w.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || w.networks.Admit(tcp.AddrPort().Addr().Unmap()) {
			return conn, nil
		}
		_ = conn.Close() // it was never let in
	}
}
