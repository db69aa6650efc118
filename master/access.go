package master

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/access"
	"mooncake/wire/rpc"
)

// doors are what stands before the ports of a process: who may connect, what a request must show, and the settings that
// change while it runs. One that is among several masters keeps them from term to term.
type doors struct {
	networks access.Networks // of the call ports
	tokens   atomic.Pointer[access.Tokens]
	cert     *access.Certificate // of the admin port; nil: no TLS
	tuning   atomic.Pointer[catalog.Tuning]

	grpcNetworks access.Networks
	grpcTokens   atomic.Pointer[access.Tokens]

	mu      sync.Mutex
	servers []*rpc.Server // that answer calls now
}

// openDoors reads what the settings of access name.
func (c *Config) openDoors() (*doors, error) {
	d := &doors{}
	list, err := access.ParseNetworks(c.RPCAllowFrom)
	if err != nil {
		return nil, fmt.Errorf("--rpc_allow_from: %w", err)
	}
	d.networks.Set(list)
	tokens, err := c.openTokens()
	if err != nil {
		return nil, err
	}
	d.tokens.Store(tokens)
	if list, err = access.ParseNetworks(c.GRPCAllowFrom); err != nil {
		return nil, fmt.Errorf("--grpc_allow_from: %w", err)
	}
	d.grpcNetworks.Set(list)
	if tokens, err = c.openGRPCTokens(); err != nil {
		return nil, err
	}
	d.grpcTokens.Store(tokens)
	if d.cert, err = access.OpenCertificate(c.AdminCert, c.AdminKey, c.AdminClientCA); err != nil {
		return nil, fmt.Errorf("--admin_%w", err) // its texts begin with the rest of the flag's name
	}
	d.tuning.Store(c.tuning())
	return d, nil
}

func (c *Config) openTokens() (*access.Tokens, error) {
	tokens, err := access.OpenTokens(c.AdminTokens)
	if err != nil {
		return nil, fmt.Errorf("--admin_tokens_file=%s: %w", c.AdminTokens, err)
	}
	return tokens, nil
}

func (c *Config) checkAccess() error {
	_, err := c.openDoors()
	return err
}

// addAccess lists the settings of access, as far as they matter.
func (c *Config) addAccess(add func(name string, value any)) {
	for _, s := range []struct{ name, value string }{
		{"rpc_allow_from", c.RPCAllowFrom},
		{"admin_tokens_file", c.AdminTokens},
		{"grpc_allow_from", c.GRPCAllowFrom},
		{"grpc_tokens_file", c.GRPCTokens},
		{"admin_tls_cert", c.AdminCert},
		{"admin_tls_key", c.AdminKey},
		{"admin_tls_client_ca", c.AdminClientCA},
	} {
		if s.value != "" {
			add(s.name, listText(s.value))
		}
	}
}

func (c *Config) tuning() *catalog.Tuning {
	return &catalog.Tuning{
		EvictionRatio: c.EvictionRatio, HighWatermark: c.HighWatermark, AllowEvictSoftPinned: c.AllowEvictSoftPinned,
		SoftPinMs: c.SoftPinTTL.Milliseconds(),
	}
}

// Reload takes over the settings of next that may change while a master runs: eviction marks, the life of soft pins, networks,
// tokens, both of calls and of gRPC, and what the files of tokens and certificates hold. The others are left. After an error nothing has changed.
func (s *Server) Reload(next *Config) error {
	list, err := access.ParseNetworks(next.RPCAllowFrom)
	if err != nil {
		return fmt.Errorf("--rpc_allow_from: %w", err)
	}
	tokens, err := next.openTokens()
	if err != nil {
		return err
	}
	grpcList, err := access.ParseNetworks(next.GRPCAllowFrom)
	if err != nil {
		return fmt.Errorf("--grpc_allow_from: %w", err)
	}
	grpcTokens, err := next.openGRPCTokens()
	if err != nil {
		return err
	}
	if err := s.doors.cert.Reload(); err != nil {
		return fmt.Errorf("--admin_%w", err)
	}
	s.doors.networks.Set(list)
	s.doors.tokens.Store(tokens)
	s.doors.grpcNetworks.Set(grpcList)
	s.doors.grpcTokens.Store(grpcTokens)
	tuning := next.tuning()
	s.doors.tuning.Store(tuning)
	if c := s.cluster; c != nil {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if c.service != nil {
			c.service.cat.Retune(*tuning)
		}
		return nil
	}
	s.service.cat.Retune(*tuning)
	return nil
}

// guarded is what the admin port serves: the pages behind the tokens, and the limits.
func (s *Server) guarded(pages http.Handler) http.Handler {
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/limits" && r.Method == http.MethodGet {
			deadline(w)
			s.serveLimits(w)
			return
		}
		pages.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.doors.tokens.Load().Guard(all).ServeHTTP(w, r)
	})
}

// secured speaks TLS on a listener, if the admin port is to.
func (d *doors) secured(ln net.Listener) net.Listener {
	if d.cert == nil {
		return ln
	}
	return tls.NewListener(ln, d.cert.Config())
}

// admit tells whether an address may call.
func (s *Server) admit(addr netip.Addr) bool {
	if s.doors.networks.Admit(addr) {
		return true
	}
	s.log.Debug("a connection from outside --rpc_allow_from is closed", zap.Stringer("peer", addr))
	return false
}

// answering notes a server of calls until the function it returns is called.
func (d *doors) answering(srv *rpc.Server) (ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers = append(d.servers, srv)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.servers = slices.DeleteFunc(d.servers, func(other *rpc.Server) bool { return other == srv })
	}
}

// calls adds up what the servers of calls hold now.
func (d *doors) calls() (sum rpc.Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, srv := range d.servers {
		st := srv.Stats()
		sum.ConnsOpen += st.ConnsOpen
		sum.ConnsRefused += st.ConnsRefused
		sum.CallsRefused += st.CallsRefused
		sum.LargeBytes += st.LargeBytes
		sum.BusyClosed += st.BusyClosed
		sum.HalfFrames += st.HalfFrames
		sum.SlowReaders += st.SlowReaders
		sum.ProtocolErrors += st.ProtocolErrors
		sum.PeerConns = max(sum.PeerConns, st.PeerConns)
		sum.PeerCalls = max(sum.PeerCalls, st.PeerCalls)
	}
	return sum
}
