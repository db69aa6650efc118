package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"mooncake/client"
	"mooncake/internal/access"
)

// connectFlags say how the cluster is reached.
type connectFlags struct {
	masters          string
	metadata, tenant string
	timeout          time.Duration
	ca, cert, key    string
	tokenFile        string
}

// Where flags are not given the environment counts: masterEnv names the masters, tokenEnv has the token itself.
const (
	masterEnv = "MOONCAKE_MASTER"
	tokenEnv  = "MOONCAKE_TOKEN"
)

func (f *connectFlags) add(fs *pflag.FlagSet) {
	masters := os.Getenv(masterEnv)
	if masters == "" {
		masters = "127.0.0.1:50054"
	}
	fs.StringVarP(&f.masters, "master", "m", masters, "gRPC ports of the masters, host:port with commas between; "+masterEnv+" is the default")
	fs.StringVar(&f.metadata, "metadata_server", "P2PHANDSHAKE", "where segments publish how they are reached, as for clients")
	fs.StringVar(&f.tenant, "tenant", "", "whose objects are meant, where tenants are told apart")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "most time for a call; moving bytes may take longer")
	fs.StringVar(&f.ca, "tls_ca", "", "speak TLS with the masters: file of the authorities their certificates come from")
	fs.StringVar(&f.cert, "tls_cert", "", "file of a certificate to show; needs --tls_key and --tls_ca")
	fs.StringVar(&f.tokenFile, "token_file", "", "file with the token to show to masters that ask for one; not given: "+tokenEnv+" has the token, if any")
	fs.StringVar(&f.key, "tls_key", "", "file of the key of --tls_cert")
}

func (f *connectFlags) list() (list []string) {
	for address := range strings.SplitSeq(f.masters, ",") {
		if address = strings.TrimSpace(address); address != "" {
			list = append(list, address)
		}
	}
	return list
}

// token reads the token to show; empty is none.
func (f *connectFlags) token() (string, error) {
	if f.tokenFile == "" {
		return strings.TrimSpace(os.Getenv(tokenEnv)), nil
	}
	token, err := access.ReadToken(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token_file=%s: %w", f.tokenFile, err)
	}
	return token, nil
}

func (f *connectFlags) transport() (credentials.TransportCredentials, error) {
	cfg, err := access.CallerTLS(f.ca, f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--tls_%w", err)
	}
	if cfg == nil {
		return nil, nil
	}
	return credentials.NewTLS(cfg), nil
}

// connect makes the client that the flags describe.
func (e *env) connect() (*client.Client, error) {
	if e.client != nil {
		return e.client, nil
	}
	c, err := e.connectTo(e.flags.list())
	if err == nil {
		e.client = c
	}
	return c, err
}

func (e *env) connectTo(masters []string) (*client.Client, error) {
	if e.flags.timeout <= 0 {
		return nil, fmt.Errorf("--timeout=%s must be above 0", e.flags.timeout)
	}
	transport, err := e.flags.transport()
	if err != nil {
		return nil, err
	}
	if len(masters) == 0 {
		return nil, fmt.Errorf("--master=%q names no master", e.flags.masters)
	}
	token, err := e.flags.token()
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Masters: masters, Metadata: e.flags.metadata, Tenant: e.flags.tenant, TLS: transport}
	if token != "" {
		cfg.Credentials = client.Token(token)
	}
	return client.New(cfg)
}

// ask makes one call to the master that leads.
func (e *env) ask(ctx context.Context, do func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	ctx, cancel := e.short(ctx)
	defer cancel()
	return c.Ask(ctx, do)
}

// explain says what an error means for somebody who cannot see the network.
func (e *env) explain(err error) string {
	if !errors.Is(err, context.DeadlineExceeded) {
		if st, ok := status.FromError(err); ok {
			return st.Message()
		}
		return err.Error()
	}
	var found []string
	reasons := unreachable(e.flags.list())
	for _, address := range e.flags.list() {
		if why := reasons[address]; why != "" {
			found = append(found, why)
		}
	}
	if len(found) == 0 {
		return err.Error()
	}
	return strings.Join(found, "; ")
}

// unreachable tells of masters that do not answer why. It asks all at a time.
func unreachable(masters []string) map[string]string {
	why := map[string]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, address := range masters {
		group.Go(func() {
			reason := silence(address)
			mu.Lock()
			defer mu.Unlock()
			if reason != "" {
				why[address] = reason
			}
		})
	}
	group.Wait()
	return why
}

// probeLimit bounds each of the two steps of silence.
const probeLimit = 700 * time.Millisecond

// silence tells why a master does not answer; empty when it can be connected to and speaks.
func silence(address string) string {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("%s: the name does not resolve", address)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s: connection refused: no master serves gRPC there (--grpc_port, 50054)", address)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s: no answer from the host: it is down, or a firewall drops what is sent there", address)
	case err != nil:
		return fmt.Sprintf("%s: %v", address, err)
	}
	defer conn.Close()
	// A gRPC server speaks first, with its settings; one behind TLS waits.
	var b [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(probeLimit)) // it fails on no connection that was just made
	if _, err := conn.Read(b[:]); err != nil {
		return fmt.Sprintf("%s: connected, and nothing answers: it hangs, or it is no gRPC port, or it wants TLS (--tls_ca)", address)
	}
	return ""
}
