package main

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mooncake/internal/conffile"
	"mooncake/internal/etcdkv"
	"mooncake/internal/gflag"
	"mooncake/internal/hostport"
	"mooncake/internal/schedslice"
	"mooncake/internal/units"
	"mooncake/segment"
)

// clientName is the published program whose defaults this one takes when started under its name.
const clientName = "mooncake_client"

// withoutEffect begins the note about what was given and has no effect.
const withoutEffect = "without effect: "

// Where settings may be read from besides flags.
const (
	flagConfigPath = "config_path"
	envConfigPath  = "MOONCAKE_CONFIG_PATH"
)

// options are the flags as given, before they become a configuration.
type options struct {
	flags    *pflag.FlagSet
	asClient bool
	cfg      segment.Config

	sizeText, rcvLowatText, sndBufText, sndBufLocalText string
	tePort, dataPort, httpPort                          int32
	taskWorkers, masterGRPCPort                         int32
	drainTimeoutSec                                     int32
	enableHTTP, prefault                                bool
	memoryHighText                                      string
	checkConfig                                         bool
	logLevel, configPath                                string
	without                                             []string // keys of the file that have no effect
}

// newOptions declares every flag. Two names for one thing write to one variable: the last one given counts.
func newOptions(programName string) *options {
	o := &options{flags: pflag.NewFlagSet(programName, pflag.ContinueOnError), cfg: segment.DefaultConfig()}
	o.asClient = strings.HasPrefix(programName, clientName)
	o.cfg.Version = version()
	size := "8gb"
	if o.asClient {
		o.cfg.MetadataServer = "http://127.0.0.1:8080/metadata"
		size = "4 GB"
	}
	f, c := o.flags, &o.cfg
	f.SortFlags = true
	f.StringVar(&c.MasterAddress, "master_server_address", c.MasterAddress, "host:port of the master, or etcd://host:port;host:port to follow the one that leads (env MOONCAKE_MASTER)")
	f.StringVar(&c.ClusterID, "cluster_id", c.ClusterID, "name of the masters' cluster, with etcd:// (env MC_STORE_CLUSTER_ID)")
	const hostHelp = "address or name under which other hosts reach this one (env MOONCAKE_LOCAL_HOSTNAME); empty takes the first address of the host"
	f.StringVar(&c.LocalHostname, "local_hostname", "", hostHelp)
	f.StringVar(&c.LocalHostname, "host", "", "same as --local_hostname")
	f.StringVar(&c.SegmentName, "segment_name", "", "name of the segment; empty means host:te_port")
	f.StringVar(&o.sizeText, "global_segment_size", size, "memory for the pool: 2gb, 512MB, 1GiB or bytes (env MOONCAKE_GLOBAL_SEGMENT_SIZE)")
	f.StringVar(&c.MetadataServer, "metadata_server", c.MetadataServer, "P2PHANDSHAKE, http://host:port/metadata or etcd://host:port (env MOONCAKE_TE_META_DATA_SERVER)")
	f.StringVar(&c.Etcd.CACert, "etcd_cacert", "", "reach etcd by TLS: file of the authorities its certificate comes from, or "+etcdkv.SystemCA)
	f.StringVar(&c.Etcd.Cert, "etcd_cert", "", "file of this daemon's certificate, where etcd asks for one; needs --etcd_key")
	f.StringVar(&c.Etcd.Key, "etcd_key", "", "file of the key of --etcd_cert")
	f.StringVar(&c.Etcd.User, "etcd_user", "", "user of etcd; its password is in --etcd_password_file, or in "+etcdkv.PasswordEnv)
	f.StringVar(&c.Etcd.PasswordFile, "etcd_password_file", "", "file of the password of --etcd_user")
	f.StringVar(&c.Protocol, "protocol", c.Protocol, "transport: tcp or rdma (env MOONCAKE_PROTOCOL)")
	f.StringVar(&c.DeviceNames, "device_names", "", "RDMA devices, separated by commas; empty chooses one (env MOONCAKE_DEVICE); no effect with tcp")
	f.StringVar(&c.DeviceNames, "device_name", "", "same as --device_names")
	f.StringVar(&c.RailsDown, "rails_down", c.RailsDown, "while no RDMA device carries traffic: silent withholds the pings, ping goes on")
	f.Int32Var(&o.tePort, "te_port", 0, "handshake port; 0 chooses one and keeps it over restarts")
	f.Int32Var(&o.dataPort, "data_port", 0, "data port; 0 chooses one and keeps it over restarts")
	f.Int32Var(&o.httpPort, "http_port", 9300, "port of /health and /metrics; 0 chooses any, -1 serves none")
	f.StringVar(&c.BindAddress, "bind_address", "", "address to listen on; empty means all")
	f.StringVar(&o.rcvLowatText, "data_rcvlowat", "2MiB", "let the kernel collect so much of a large body before it wakes the reader; 0 is off")
	f.StringVar(&o.sndBufLocalText, "data_sndbuf_local", "128KiB", "send buffer of a data connection to a peer on this machine; 0 gives it --data_sndbuf")
	f.StringVar(&o.sndBufText, "data_sndbuf", "4MiB", "send buffer of a data connection; 0 leaves it to the kernel")
	f.StringVar(&c.Data.CongestionControl, "tcp_congestion_control", "", "congestion control of data connections, as cubic or bbr; empty leaves it to the kernel")
	f.StringVar(&c.Data.CongestionControl, "data_cc", "", "same as --tcp_congestion_control")
	f.Uint32Var(&c.SchedSliceUs, schedslice.Flag, c.SchedSliceUs, schedslice.Help)
	f.StringVar(&c.Data.IO, "io", c.Data.IO, "how sockets are read: raw or std")
	f.StringVar(&c.ShmDir, "shm_dir", c.ShmDir, "where the arena lies, a memory file system")
	f.StringVar(&c.StateDir, "state_dir", "", "where the state file lies; empty means --shm_dir")
	f.StringVar(&c.HugePages, "hugepages", c.HugePages, "madvise (memory of the arena is found in huge pages where the kernel has them) or off")
	f.StringVar(&c.Populate, "populate", c.Populate, "when the kernel is made to find the memory: off (with the first write), background (after the segment is announced, while there is memory to spare) or start (before)")
	f.BoolVar(&o.prefault, "prefault", false, "same as --populate=start")
	f.StringVar(&o.memoryHighText, "memory_high", "", "refuse to start or grow, and stop finding memory ahead, above so much memory in use: a size, or 80% of the cgroup's limit and of the host; empty is no bound")
	f.StringVar(&c.AdminSocket, "admin_socket", "", "socket by which mooncakectl segment changes the size; empty lies beside the state file, "+segment.NoSocket+" is none")
	f.BoolVar(&c.Fresh, "fresh", false, "discard what an earlier run left instead of taking it up again")
	f.Int32Var(&o.masterGRPCPort, "master_grpc_port", int32(c.MasterGRPCPort), "gRPC port of the master, on its host: tasks come at once where it offers a stream; -1 asks for none")
	f.StringVar(&c.MasterGRPC.CA, "master_grpc_ca", "", "speak TLS on --master_grpc_port: file of the authorities that the master's certificate comes from")
	f.StringVar(&c.MasterGRPC.Cert, "master_grpc_cert", "", "file of a certificate to show there; needs --master_grpc_key and --master_grpc_ca")
	f.StringVar(&c.MasterGRPC.Key, "master_grpc_key", "", "file of the key of --master_grpc_cert")
	f.StringVar(&c.MasterGRPC.TokenFile, "master_grpc_token_file", "", "file with the token to show there, where the master asks for one (--grpc_tokens_file): of level operate")
	f.Int32Var(&o.taskWorkers, "task_workers", int32(c.TaskWorkers), "copy tasks carried out at once")
	f.Int32Var(&o.drainTimeoutSec, "drain_timeout", 0, "seconds that leaving (SIGTERM) may take until the objects on the segment are moved elsewhere; 0 leaves at once")
	f.StringVar(&c.PortsFile, "ports_file", "", "write the real ports into this file as JSON, once they are open")
	f.BoolVar(&o.enableHTTP, "enable_http_server", !o.asClient, "serve /health and /metrics on --http_port")
	f.BoolVar(&o.checkConfig, "check_config", false, "check the configuration, print it and end")
	f.StringVar(&o.logLevel, "log_level", "info", "debug, info, warn or error")
	f.StringVar(&c.PeerAllowFrom, "peer_allow_from", "", "networks whose hosts may connect to the handshake and data ports: 10.0.0.0/8,::1; not given: all")
	f.StringVar(&o.configPath, flagConfigPath, "", "file of settings, .json, .yaml or .yml; flags that are given win (env MOONCAKE_CONFIG_PATH)")
	gflag.AddIdle(f, idle...)
	gflag.AddIdle(f, gflag.Glog...)
	return o
}

// idle are flags of the published program that have no effect here. They are accepted, so that command lines need not be
// changed, and one line at the start names those that are given.
var idle = []gflag.Idle{
	{Name: "port", Type: "int32", Default: "50052", Why: "dummy clients are not served"},
	{Name: "local_buffer_size", Type: "string", Default: "0", Why: "bytes go straight into the segment"},
	{Name: "threads", Type: "int32", Default: "1", Why: "every connection has its own goroutine"},
	{Name: "tenant_id", Type: "string", Default: "default", Why: "a segment belongs to all tenants"},
	{Name: "enable_offload", Type: "bool", Default: "false", Why: "there is no disk tier"},
	{Name: "start_offload_rpc_server", Type: "bool", Default: "true", Why: "there is no disk tier"},
	{Name: "mmap_arena_pool_size", Type: "uint64", Default: "8589934592", Why: "the arena is the segment"},
	{Name: "use_mmap_arena_allocator", Type: "bool", Default: "false", Why: "the arena is the segment"},
}

// fileKeys are the keys of the file that the published store process reads (MOONCAKE_CONFIG_PATH), and the flags.
var fileKeys = conffile.Keys{
	Names:     map[string]string{"enable_client_http_server": "enable_http_server", "client_http_port": "http_port", "enable_ssd_offload": "enable_offload"},
	FlagsOnly: []string{flagConfigPath, "check_config"},
	Loose:     conffile.AllLoose,
}

// config turns the flags and, where a flag was not given, the environment into a configuration, with what there is to
// say about it.
func (o *options) config(lookupEnv func(string) (string, bool)) (*segment.Config, []string, error) {
	if err := o.readConfigFile(lookupEnv); err != nil {
		return nil, nil, err
	}
	c := o.cfg
	var notes []string
	env := func(name string, into *string, flags ...string) {
		for _, f := range flags {
			if o.flags.Changed(f) {
				return
			}
		}
		if v, ok := lookupEnv(name); ok && v != "" {
			*into = v
			notes = append(notes, fmt.Sprintf("--%s=%s comes from %s", flags[0], v, name))
		}
	}
	env("MOONCAKE_MASTER", &c.MasterAddress, "master_server_address")
	if strings.HasPrefix(c.MasterAddress, etcdkv.Scheme) {
		env("MC_STORE_CLUSTER_ID", &c.ClusterID, "cluster_id")
	}
	if password, ok := lookupEnv(etcdkv.PasswordEnv); ok {
		c.Etcd.Password = password // never in a note
	}
	env("MOONCAKE_LOCAL_HOSTNAME", &c.LocalHostname, "local_hostname", "host")
	env("MOONCAKE_TE_META_DATA_SERVER", &c.MetadataServer, "metadata_server")
	env("MOONCAKE_PROTOCOL", &c.Protocol, "protocol")
	env("MOONCAKE_DEVICE", &c.DeviceNames, "device_names", "device_name")
	env("MOONCAKE_GLOBAL_SEGMENT_SIZE", &o.sizeText, "global_segment_size")

	var err error
	if c.SegmentBytes, err = units.ParseSize(o.sizeText); err != nil {
		return nil, nil, fmt.Errorf("--global_segment_size: %w", err)
	}
	if c.Data.RcvLowatBytes, err = socketBytes("--data_rcvlowat", o.rcvLowatText); err != nil {
		return nil, nil, err
	}
	if c.Data.SndbufLocalBytes, err = socketBytes("--data_sndbuf_local", o.sndBufLocalText); err != nil {
		return nil, nil, err
	}
	if c.Data.SndbufBytes, err = socketBytes("--data_sndbuf", o.sndBufText); err != nil {
		return nil, nil, err
	}
	if err := o.memory(&c); err != nil {
		return nil, nil, err
	}
	c.TEPort, c.DataPort, c.TaskWorkers, c.MasterGRPCPort = int(o.tePort), int(o.dataPort), int(o.taskWorkers), int(o.masterGRPCPort)
	c.HTTPPort, c.DrainTimeout = int(o.httpPort), time.Duration(o.drainTimeoutSec)*time.Second
	if !o.enableHTTP {
		c.HTTPPort = -1
	}
	if host := announcedHost(c.LocalHostname); host == "" || unspecified(host) {
		given := c.LocalHostname
		c.LocalHostname = ownAddress()
		notes = append(notes, fmt.Sprintf("--local_hostname=%q names no host: announcing %s", given, c.LocalHostname))
	}
	if without := o.withoutEffect(&c); len(without) > 0 {
		notes = append(notes, withoutEffect+strings.Join(without, ", "))
	}
	return &c, notes, nil
}

// memory reads the flags about memory.
func (o *options) memory(c *segment.Config) (err error) {
	if c.MemoryHigh, err = segment.ParseMemoryBound(o.memoryHighText); err != nil {
		return fmt.Errorf("--memory_high: %w", err)
	}
	const start = "start"
	if o.prefault && o.flags.Changed("populate") && c.Populate != start {
		return fmt.Errorf("--prefault is --populate=%s, and --populate=%s is given too", start, c.Populate)
	}
	if o.prefault {
		c.Populate = start
	}
	return nil
}

// readConfigFile sets what a file says and no flag does.
func (o *options) readConfigFile(lookupEnv func(string) (string, bool)) (err error) {
	flag := "--" + flagConfigPath
	if path, ok := lookupEnv(envConfigPath); ok && o.configPath == "" {
		o.configPath, flag = path, envConfigPath
	}
	if o.configPath == "" {
		return nil
	}
	if o.without, err = conffile.Apply(o.flags, o.configPath, fileKeys); err != nil {
		return fmt.Errorf("%s=%s: %w", flag, o.configPath, err)
	}
	return nil
}

// withoutEffect lists what was given and has no effect.
func (o *options) withoutEffect(c *segment.Config) []string {
	without := o.without
	for _, x := range append(idle[:len(idle):len(idle)], gflag.Glog...) {
		if o.flags.Changed(x.Name) {
			without = append(without, fmt.Sprintf("--%s (%s)", x.Name, x.Why))
		}
	}
	lonely := func(met bool, company string, flags ...string) {
		for _, name := range flags {
			if !met && o.flags.Changed(name) {
				without = append(without, fmt.Sprintf("--%s=%s (only with %s)", name, o.flags.Lookup(name).Value, company))
			}
		}
	}
	byEtcd := strings.HasPrefix(c.MasterAddress, etcdkv.Scheme)
	lonely(byEtcd, "--master_server_address=etcd://…", "cluster_id")
	lonely(byEtcd || strings.HasPrefix(c.MetadataServer, etcdkv.Scheme) || c.MetadataServer != segment.P2P && !strings.Contains(c.MetadataServer, "://"),
		"an address of etcd", "etcd_cacert", "etcd_cert", "etcd_key", "etcd_user", "etcd_password_file")
	lonely(c.Protocol != "tcp", "--protocol=rdma", "device_names", "device_name", "rails_down")
	if c.Protocol == "tcp" && c.DeviceNames != "" && !o.flags.Changed("device_names") && !o.flags.Changed("device_name") {
		without = append(without, fmt.Sprintf("--device_names=%s (only with --protocol=rdma)", c.DeviceNames))
	}
	lonely(o.enableHTTP, "--enable_http_server", "http_port")
	lonely(c.MasterGRPCPort > 0, "a --master_grpc_port", "master_grpc_ca", "master_grpc_cert", "master_grpc_key", "master_grpc_token_file")
	return without
}

func socketBytes(flag, text string) (int, error) {
	n, err := units.ParseSize(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	return int(min(n, math.MaxInt32+1)), nil // Validate names the true bound
}

// announcedHost is the host part of --local_hostname; what cannot be parsed is left for Validate to complain about.
func announcedHost(text string) string {
	host, _, err := hostport.Parse(text, 0)
	if err != nil {
		return text
	}
	return host
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}
