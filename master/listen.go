package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mooncake/internal/limits"
)

// listeners are all the ports of a master. They are bound together, before any of them serves: a launcher takes an
// open call port for a master that works.
type listeners struct {
	rpc, rpcV12, admin, metadata, peers net.Listener
}

func (c *Config) listen() (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	// The call port comes last: as long as it is closed nobody takes this process for a master.
	if l.admin, err = listen(c.MetricsHost, c.MetricsPort, "--metrics_host", "--metrics_port"); err != nil {
		return l, err
	}
	if c.MetadataServer {
		if l.metadata, err = listen(c.MetadataHost, c.MetadataPort, "--http_metadata_server_host", "--http_metadata_server_port"); err != nil {
			return l, err
		}
	}
	if c.HA {
		if l.peers, err = listen(c.RPCAddress, c.GRPCPort, "--rpc_address", "--grpc_port"); err != nil {
			return l, err
		}
	}
	if c.RPCPortV12 >= 0 {
		if l.rpcV12, err = listen(c.RPCAddress, c.RPCPortV12, "--rpc_address", "--rpc_port_v12"); err != nil {
			return l, err
		}
	}
	l.rpc, err = listen(c.RPCAddress, c.RPCPort, "--rpc_address", "--rpc_port")
	return l, err
}

func (l *listeners) all() []net.Listener {
	var open []net.Listener
	for _, ln := range []net.Listener{l.rpc, l.rpcV12, l.admin, l.metadata, l.peers} {
		if ln != nil {
			open = append(open, ln)
		}
	}
	return open
}

func (l *listeners) close() {
	for _, ln := range l.all() {
		_ = ln.Close() // nothing was served on it
	}
}

// listen opens one port; the error is one sentence with the address, the reason and the flag to change.
func listen(host string, port int, hostFlag, portFlag string) (net.Listener, error) {
	host = strings.Trim(host, "[]")
	network := "tcp"
	if host == "0.0.0.0" {
		network = "tcp4"
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(context.Background(), limits.ListenResolveMs*time.Millisecond)
	defer cancel()
	ln, err := new(net.ListenConfig).Listen(ctx, network, addr)
	if err == nil {
		return ln, nil
	}
	flag, reason := portFlag, err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		reason = errno.Error()
		if errno == syscall.EADDRNOTAVAIL {
			flag = hostFlag
		}
	}
	var dns *net.DNSError
	if errors.As(err, &dns) || ctx.Err() != nil {
		flag, reason = hostFlag, "the host name does not resolve"
	}
	return nil, fmt.Errorf("cannot listen on %s: %s; choose another with %s", addr, reason, flag)
}

// Ports are the real ports of a running master; 0 = not open.
type Ports struct {
	RPC      int `json:"rpc_port"`
	RPCV12   int `json:"rpc_port_v12"`
	Metrics  int `json:"metrics_port"`
	Metadata int `json:"http_metadata_server_port"`
	GRPC     int `json:"grpc_port"`
}

func (l *listeners) ports() Ports {
	port := func(ln net.Listener) int {
		if ln == nil {
			return 0
		}
		return ln.Addr().(*net.TCPAddr).Port
	}
	return Ports{RPC: port(l.rpc), RPCV12: port(l.rpcV12), Metrics: port(l.admin), Metadata: port(l.metadata), GRPC: port(l.peers)}
}

// portsFile is where a launcher looks for the real ports. It appears complete, or not at all.
type portsFile struct {
	path string
	part *os.File
}

// openPortsFile prepares the file while no port is open yet: a launcher takes an open call port for a master that works,
// so a path that cannot be written must show before. What an earlier run has left there goes.
func openPortsFile(path string) (*portsFile, error) {
	old, err := os.Stat(path)
	if err == nil && !old.Mode().IsRegular() {
		return nil, fmt.Errorf("--ports_file=%s is no regular file", path)
	}
	part, err := os.Create(path + ".part")
	if err != nil {
		return nil, fmt.Errorf("--ports_file=%s cannot be written: %w", path, err)
	}
	f := &portsFile{path, part}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.abandon()
		return nil, fmt.Errorf("--ports_file=%s cannot be written: %w", path, err)
	}
	return f, nil
}

func (f *portsFile) write(p Ports) error {
	err := json.NewEncoder(f.part).Encode(p)
	if err = errors.Join(err, f.part.Close()); err == nil {
		err = os.Rename(f.part.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("--ports_file=%s cannot be written: %w", f.path, err)
	}
	return nil
}

// abandon removes what there is of the file.
func (f *portsFile) abandon() {
	_ = f.part.Close() // the error that led here is the one that counts
	_ = os.Remove(f.part.Name())
}
