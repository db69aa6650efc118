package segment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/etcdkv"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/internal/schedslice"
	"mooncake/tcp"
)

// P2P is the metadata server's name that means "ask the daemon itself".
const P2P = "P2PHANDSHAKE"

// Config says everything a daemon is told from outside. The zero value is not usable; start from DefaultConfig.
type Config struct {
	// MasterAddress is host:port of the master's RPC port, or etcd://host:port;host:port where several masters share a pool:
	// then the one that leads is found there. The master may be away when the daemon starts and at any later time; it is
	// asked again until it answers.
	MasterAddress string
	// ClusterID names the masters that share a pool; it counts only with etcd://.
	ClusterID string
	// LocalHostname is the address under which other machines reach this one: an IP address or a name that they all
	// resolve. With a port, host:port, the port means TEPort unless that is set as well.
	LocalHostname string
	// SegmentName names the segment at the master and in metadata keys. Empty means host:TEPort, which is unique. A name
	// must not look like a published client's own (host:port in 12300-14300 or 15000-17000): a client of that name would
	// take the daemon's addresses for its own.
	SegmentName string
	// SegmentBytes is the memory offered. It is announced to the byte.
	SegmentBytes uint64
	// MetadataServer is P2PHANDSHAKE, http://host:port/metadata or etcd://host:port. All clients of a cluster and all
	// daemons must name the same one.
	MetadataServer string
	// Etcd says how etcd is reached, for MasterAddress and MetadataServer.
	Etcd etcdkv.Access
	// Protocol is the transport announced: tcp, or rdma. Without a metadata server a daemon of rdma serves peers of tcp as
	// well.
	Protocol string
	// DeviceNames pins RDMA devices, with commas between; empty chooses one. It has no effect with tcp.
	DeviceNames string
	// RailsDown is what happens while no RDMA device carries traffic: silent withholds the pings, so that the master places
	// nothing here, ping goes on.
	RailsDown string
	// TEPort is the handshake port, DataPort the data port; 0 chooses one that is kept over restarts. Clients remember
	// both for the life of their process.
	TEPort, DataPort int
	// HTTPPort serves /health and /metrics; 0 chooses any, -1 serves none.
	HTTPPort int
	// PeerAllowFrom are the networks whose hosts may connect to the handshake port and the data port, with commas between;
	// empty is all.
	PeerAllowFrom string
	// BindAddress is the address that the listeners bind; empty means every address of the host.
	BindAddress string
	// Data are the knobs of data connections; with tcp.DefaultOptions they have the values that measured best.
	Data tcp.Options
	// ShmDir holds the arena; it should be a memory file system.
	ShmDir string
	// StateDir holds the state file; empty means ShmDir, where both live and die together.
	StateDir string
	// SchedSliceUs is the slice that is asked of the kernel's scheduler, in microseconds; 0 asks for none. It is the process's, so
	// whoever owns that asks.
	SchedSliceUs uint32
	// HugePages is madvise (memory of arenas is found in huge pages where the kernel has them) or off.
	HugePages string
	// Populate is when the kernel is made to find the memory: off (with the first write to each page), background (after the
	// segment is announced) or start (before).
	Populate string
	// MemoryHigh is how much memory may be in use before the daemon refuses to take more.
	MemoryHigh MemoryBound
	// WatchEvery is the time between two looks at the memory of the host.
	WatchEvery time.Duration
	// AdminSocket is the path of the socket by which the size is changed; empty lies beside the state file, none is none.
	AdminSocket string
	// Fresh discards what an earlier run left instead of taking it up again.
	Fresh bool
	// PingEvery is the time between two pings, FetchEvery between two looks for tasks. A master drops a client that
	// has not pinged for ten seconds.
	PingEvery, FetchEvery time.Duration
	// MasterGRPCPort is where a master may offer a stream of hints; negative asks for none. The host is that of the master.
	MasterGRPCPort int
	// MasterGRPC says how that stream is asked for.
	MasterGRPC StreamAccess
	// TaskWorkers is how many copy tasks run at once.
	TaskWorkers int
	// DrainTimeout is how long leaving may take until what lies on the segment is moved elsewhere; 0 moves nothing.
	DrainTimeout time.Duration
	// LeaveTimeout bounds what leaving may take when nobody answers.
	LeaveTimeout time.Duration
	// PortsFile, when set, is written with the real ports once all of them are open.
	PortsFile string
	// Sockets were opened by the supervisor; Open takes them over.
	Sockets Sockets
	// Version is what GET /version answers.
	Version string

	procRoot string // "/proc" but in tests
	fsRoot   string // "/" but in tests
	getenv   func(string) string
	// openFabric is nil in a build without RDMA.
	openFabric fabricOpener
}

// DefaultConfig is what a daemon does when told nothing but its size.
func DefaultConfig() Config {
	return Config{
		MasterAddress:  "127.0.0.1:50051",
		ClusterID:      "mooncake_cluster",
		SegmentBytes:   limits.SegmentDefaultBytes,
		MetadataServer: P2P,
		Protocol:       "tcp",
		HTTPPort:       9300,
		Data:           tcp.DefaultOptions(),
		ShmDir:         "/dev/shm",
		HugePages:      "madvise",
		SchedSliceUs:   schedslice.DefaultUs,
		Populate:       populateBackground,
		WatchEvery:     limits.SegmentMemoryWatchMs * time.Millisecond,
		PingEvery:      time.Second,
		FetchEvery:     time.Second,
		TaskWorkers:    limits.SegmentTaskWorkers,
		MasterGRPCPort: 50054,
		LeaveTimeout:   limits.SegmentLeaveMs * time.Millisecond,
		procRoot:       "/proc",
		fsRoot:         "/",
		RailsDown:      railsDownSilent,
		getenv:         os.Getenv,
		openFabric:     builtFabric(),
	}
}

// Validate refuses in one line what could only end in a crippled daemon. It resolves nothing and opens nothing.
func (c *Config) Validate() error {
	for _, check := range []func() error{c.validateAddresses, c.validatePorts, c.validateName, c.validateValues, c.checkAdminSocket, c.validateAccess, c.validateStream, c.Etcd.Check, c.validateSlice} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) validateSlice() error { return schedslice.Check(c.SchedSliceUs) }

func (c *Config) validateAddresses() error {
	if c.LocalHostname == "" {
		return errors.New("--local_hostname is missing: give the address under which other hosts reach this one")
	}
	if err := c.validateMaster(); err != nil {
		return err
	}
	host, port, err := hostport.Parse(c.LocalHostname, 0)
	if err != nil {
		return fmt.Errorf("--local_hostname: %w", err)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return fmt.Errorf("--local_hostname=%s: no other host can reach %s, give an address of this host", c.LocalHostname, host)
	}
	if c.TEPort != 0 && port != 0 && port != c.TEPort {
		return fmt.Errorf("--local_hostname=%s and --te_port=%d name two handshake ports", c.LocalHostname, c.TEPort)
	}
	if c.TEPort == 0 {
		c.TEPort = port
	}
	if c.BindAddress != "" {
		// Parse alone takes names and ports as well, ParseAddr no brackets.
		host, _, err := hostport.Parse(c.BindAddress, 0)
		if _, badIP := netip.ParseAddr(host); err != nil || badIP != nil || hostport.HasPort(c.BindAddress) {
			return fmt.Errorf("--bind_address=%s is not an IP address", c.BindAddress)
		}
	}
	return c.validateMetadata()
}

func (c *Config) validateMaster() error {
	if c.byEtcd() {
		if _, err := etcdkv.ParseEndpoints(c.MasterAddress); err != nil {
			return fmt.Errorf("--master_server_address: %w", err)
		}
		if strings.Trim(c.ClusterID, "/") == "" {
			return fmt.Errorf("--cluster_id=%q names no cluster", c.ClusterID)
		}
		if n := len(c.pool()); n > limits.SegmentPoolBytes {
			return fmt.Errorf("--master_server_address and --cluster_id have %d characters together, at most %d are allowed", n, limits.SegmentPoolBytes)
		}
		return nil
	}
	if scheme, _, has := strings.Cut(c.MasterAddress, "://"); has {
		return fmt.Errorf("--master_server_address=%s: %s is not known, want host:port or etcd://host:port;host:port", c.MasterAddress, scheme)
	}
	if _, port, err := hostport.Parse(c.MasterAddress, 0); err != nil {
		return fmt.Errorf("--master_server_address: %w", err)
	} else if port == 0 {
		return fmt.Errorf("--master_server_address=%s has no port, want host:port", c.MasterAddress)
	}
	return nil
}

func (c *Config) validateMetadata() error {
	switch {
	case c.MetadataServer == P2P, strings.HasPrefix(c.MetadataServer, "http://"), strings.HasPrefix(c.MetadataServer, "https://"),
		strings.HasPrefix(c.MetadataServer, "etcd://"):
		return checkMetadata(c.MetadataServer)
	case c.MetadataServer == "":
		return errors.New("--metadata_server is empty, want P2PHANDSHAKE, http://host:port/metadata or etcd://host:port")
	case strings.Contains(c.MetadataServer, "://"):
		return fmt.Errorf("--metadata_server=%s: only P2PHANDSHAKE, http:// and etcd:// are known", c.MetadataServer)
	}
	// Without a scheme the published clients take it for etcd.
	return checkMetadata(c.MetadataServer)
}

func checkMetadata(address string) error {
	if err := descriptor.Check(address); err != nil {
		return fmt.Errorf("--metadata_server: %w", err)
	}
	return nil
}

func (c *Config) validatePorts() error {
	if c.HTTPPort < -1 || c.HTTPPort > 65535 {
		return fmt.Errorf("--http_port=%d: a port is a number from 0 to 65535", c.HTTPPort)
	}
	rules := readPortRules(c.procRoot)
	teFlag := "--te_port"
	if hostport.HasPort(c.LocalHostname) {
		teFlag = "--local_hostname port"
	}
	if err := rules.check(teFlag, c.TEPort); err != nil {
		return err
	}
	if err := rules.check("--data_port", c.DataPort); err != nil {
		return err
	}
	switch {
	case c.TEPort != 0 && c.TEPort == c.DataPort:
		return fmt.Errorf("--te_port and --data_port are both %d", c.TEPort)
	case c.HTTPPort > 0 && (c.HTTPPort == c.TEPort || c.HTTPPort == c.DataPort):
		return fmt.Errorf("--http_port=%d is also the handshake or data port", c.HTTPPort)
	}
	return nil
}

func (c *Config) validateName() error {
	n := c.SegmentName
	if len(n) > limits.SegmentNameBytes {
		return fmt.Errorf("--segment_name has %d characters, at most %d are allowed", len(n), limits.SegmentNameBytes)
	}
	if strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' || r == '@' }) {
		return fmt.Errorf("--segment_name=%q: blanks, / and @ have a meaning in metadata keys and are not allowed", n)
	}
	if !hostport.HasPort(n) {
		return nil
	}
	if _, port, err := hostport.Parse(n, 0); err == nil {
		for _, r := range clientRanges {
			if r.holds(port) {
				return fmt.Errorf("--segment_name=%s looks like a client's own name (port in %d-%d): such a client would read the daemon's addresses as its own", n, r.low, r.high)
			}
		}
	}
	return nil
}

func (c *Config) validateValues() error {
	switch {
	case c.SegmentBytes == 0:
		return errors.New("--global_segment_size is 0: a daemon without memory has nothing to serve")
	case c.SegmentBytes > limits.SegmentBytesMax:
		return fmt.Errorf("--global_segment_size=%d is more than the %d bytes that masters accept for one segment", c.SegmentBytes, uint64(limits.SegmentBytesMax))
	case c.Protocol != descriptor.ProtocolTCP && c.Protocol != descriptor.ProtocolRDMA:
		return fmt.Errorf("--protocol=%s: want tcp or rdma", c.Protocol)
	case c.Protocol == descriptor.ProtocolRDMA && c.openFabric == nil:
		return errors.New("--protocol=rdma: this program was built without RDMA (it needs cgo and libibverbs); use tcp")
	case c.RailsDown != railsDownSilent && c.RailsDown != railsDownPing:
		return fmt.Errorf("--rails_down=%s: want %s or %s", c.RailsDown, railsDownSilent, railsDownPing)
	case !slices.Contains([]string{"madvise", "off"}, c.HugePages):
		return fmt.Errorf("--hugepages=%s: want madvise or off", c.HugePages)
	case !slices.Contains(populateModes, c.Populate):
		return fmt.Errorf("--populate=%s: want %s", c.Populate, strings.Join(populateModes, ", "))
	case c.ShmDir == "":
		return errors.New("--shm_dir is empty")
	case c.TaskWorkers < 1 || c.TaskWorkers > limits.SegmentTaskWorkersMax:
		return fmt.Errorf("--task_workers=%d: want 1 to %d", c.TaskWorkers, limits.SegmentTaskWorkersMax)
	case c.MasterGRPCPort < -1 || c.MasterGRPCPort > 65535 || c.MasterGRPCPort == 0:
		return fmt.Errorf("--master_grpc_port=%d: want 1 to 65535, or -1 for no stream", c.MasterGRPCPort)
	case c.DrainTimeout < 0 || c.DrainTimeout > limits.SegmentDrainMaxMs*time.Millisecond:
		return fmt.Errorf("--drain_timeout=%d: want 0 to %d seconds", int64(c.DrainTimeout/time.Second), limits.SegmentDrainMaxMs/1000)
	case c.PingEvery <= 0 || c.FetchEvery <= 0 || c.WatchEvery <= 0 || c.LeaveTimeout <= 0:
		return errors.New("an interval is not positive")
	}
	if err := c.Data.Validate(); err != nil {
		return fmt.Errorf("--%w", err) // its texts begin with the flag
	}
	return nil
}

// Resolve checks that the announced host exists, so that a typing mistake shows here and not on another machine. A
// numeric address asks nobody.
func (c *Config) Resolve(ctx context.Context) error {
	host := c.host()
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limits.SegmentResolveMs*time.Millisecond)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return fmt.Errorf("--local_hostname=%s cannot be resolved: %w", c.LocalHostname, err)
	}
	return nil
}

// host is the announced host without a port.
func (c *Config) host() string {
	host, _, err := hostport.Parse(c.LocalHostname, 0)
	if err != nil {
		return c.LocalHostname
	}
	return host
}

func (c *Config) stateDir() string {
	if c.StateDir != "" {
		return c.StateDir
	}
	return c.ShmDir
}

// String is the effective configuration as flags, one line, so that it can be given to a daemon again.
func (c *Config) String() string {
	var b strings.Builder
	add := func(flag string, v any) { fmt.Fprintf(&b, " --%s=%v", flag, v) }
	add("master_server_address", c.MasterAddress)
	if c.byEtcd() {
		add("cluster_id", c.ClusterID)
	}
	add("local_hostname", c.host())
	if c.SegmentName != "" {
		add("segment_name", c.SegmentName)
	}
	add("global_segment_size", c.SegmentBytes)
	add("metadata_server", c.MetadataServer)
	c.Etcd.Flags(add)
	add("protocol", c.Protocol)
	if c.DeviceNames != "" {
		add("device_names", c.DeviceNames)
	}
	if c.Protocol == descriptor.ProtocolRDMA {
		add("rails_down", c.RailsDown)
	}
	add("te_port", c.TEPort)
	add("data_port", c.DataPort)
	add("http_port", c.HTTPPort)
	if c.BindAddress != "" {
		add("bind_address", c.BindAddress)
	}
	if c.PeerAllowFrom != "" {
		add("peer_allow_from", strings.ReplaceAll(c.PeerAllowFrom, " ", ""))
	}
	add("data_rcvlowat", c.Data.RcvLowatBytes)
	add("data_sndbuf", c.Data.SndbufBytes)
	add("data_sndbuf_local", c.Data.SndbufLocalBytes)
	if c.Data.CongestionControl != "" {
		add("tcp_congestion_control", c.Data.CongestionControl)
	}
	add("io", c.Data.IO)
	add("shm_dir", c.ShmDir)
	add("state_dir", c.stateDir())
	add("hugepages", c.HugePages)
	add("populate", c.Populate)
	add(schedslice.Flag, c.SchedSliceUs)
	if !c.MemoryHigh.none() {
		add("memory_high", c.MemoryHigh)
	}
	if c.AdminSocket != "" {
		add("admin_socket", c.AdminSocket)
	}
	add("fresh", c.Fresh)
	add("task_workers", c.TaskWorkers)
	add("master_grpc_port", c.MasterGRPCPort)
	c.MasterGRPC.flags(add)
	if c.DrainTimeout > 0 {
		add("drain_timeout", int64(c.DrainTimeout/time.Second))
	}
	if c.PortsFile != "" {
		add("ports_file", c.PortsFile)
	}
	return strings.TrimSpace(b.String())
}
