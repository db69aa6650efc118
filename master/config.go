package master

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
	"mooncake/kvevents"
)

// Config is everything an operator can set. The zero value is not usable; DefaultConfig is.
type Config struct {
	// RPCAddress is the host the call port listens on.
	RPCAddress string
	// RPCPort is the port published clients call; 0 takes any free one.
	RPCPort int
	// RPCPortV12 is a second call port, over the same state, on which every client is taken for 0.3.12.post1; -1 = off.
	// It serves 0.3.12 clients that share an address with clients of other releases.
	RPCPortV12 int
	// DefaultFamily is the release assumed of a client that cannot be told from its requests: "12" or "13".
	DefaultFamily string
	// RPCIdle drops call connections that carried nothing for so long; 0 = never.
	RPCIdle time.Duration
	// RPCNoDelay sends replies at once instead of gathering them in the kernel.
	RPCNoDelay bool
	// IO is how connections are read: "raw" or "std".
	IO string

	// MetricsHost and MetricsPort say where the admin HTTP server listens; port 0 takes any free one.
	MetricsHost string
	MetricsPort int

	// MetadataServer runs the HTTP metadata server on MetadataHost:MetadataPort.
	MetadataServer bool
	MetadataHost   string
	MetadataPort   int

	// LeaseTTL is how long a read protects an object from removal and eviction.
	LeaseTTL time.Duration
	// SoftPinTTL is the life of a soft pin whose put names none; MaxSoftPinTTL is the longest one a put may name.
	SoftPinTTL    time.Duration
	MaxSoftPinTTL time.Duration
	// AllowEvictSoftPinned lets eviction take soft pinned objects when nothing else is left.
	AllowEvictSoftPinned bool
	// EvictionRatio is the share of the pool freed at a time once HighWatermark is passed.
	EvictionRatio float64
	HighWatermark float64
	// ClientActiveTTL is how long a client with a segment may be silent before its objects are hidden; after
	// ClientSuspicionTTL more its segments count as lost, and after ClientLostTTL more they are forgotten. Until then a
	// client that returns with the same segments gets its objects back.
	ClientActiveTTL    time.Duration
	ClientSuspicionTTL time.Duration
	ClientLostTTL      time.Duration
	// PutDiscard is the age from which another put may take over an unfinished one, PutRelease the age at which its
	// bytes are free again; PutRelease must be the longer.
	PutDiscard time.Duration
	PutRelease time.Duration

	// BundleStagingIdle is how long a bundle that is not published may see no write until what is there of it is reclaimed;
	// 0 = never for that alone.
	BundleStagingIdle time.Duration
	// HideDamagedBundles answers look-ups of a bundle that lost members as if it were gone, so that readers fail at once.
	HideDamagedBundles bool
	// BundleRetention reclaims published bundles by age or number; of several rules whose prefixes fit the longest counts.
	BundleRetention []catalog.RetentionRule
	// WorkloadsFile, when set, holds the rules of workloads, read once at the start.
	WorkloadsFile string
	// RootFSDir, when set, is a directory that all clients share: objects are written to files there as well. DiskEviction and
	// DiskQuota are what the clients are told of it; 0 lets them use nine tenths of what there is. FileCapacity is only shown.
	RootFSDir    string
	DiskEviction bool
	DiskQuota    uint64
	FileCapacity int64
	// Offload lets clients copy objects to disks of their own: everything that is written, or with OffloadOnEvict what would
	// be evicted. OffloadForce lets what cannot be copied go all the same. OffloadQueue bounds what waits for one client, and
	// OffloadCapRatio is the share of that which one round of eviction may add.
	Offload         bool
	OffloadOnEvict  bool
	OffloadForce    bool
	OffloadQueue    int
	OffloadCapRatio float64
	// PromoteOnHit brings back into memory what is read PromoteThreshold times and is on one client's disk only.
	PromoteOnHit     bool
	PromoteThreshold int
	PromoteQueue     int
	PromotePerBeat   int
	// Events tells subscribers of objects that come and go.
	Events EventConfig
	// MultiTenants tells tenants apart: each has keys of its own, and only those with a quota may write. The quotas are kept
	// in a file or in etcd (TenantPolicyType) at TenantPolicyURI.
	MultiTenants     bool
	TenantPolicyType string
	TenantPolicyURI  string
	// TenantWatermark is the share of its quota above which a tenant's oldest objects go; 0 = never.
	TenantWatermark float64
	// TenantsEvictOnPut lets a put beyond its tenant's quota evict the tenant's own objects, as masters before 0.3.14 do.
	TenantsEvictOnPut bool
	// MaxPendingTasks, MaxProcessingTasks and MaxFinishedTasks bound the tasks that wait for their client, that it works on,
	// and that are remembered. A task that waits, or is worked on, for too long has failed; 0 is never too long.
	MaxPendingTasks, MaxProcessingTasks, MaxFinishedTasks int
	PendingTaskTimeout, ProcessingTaskTimeout             time.Duration
	// MaxRetryAttempts is the advice that goes with a task.
	MaxRetryAttempts int
	// CopiesByAnyClient takes copies and moves also from clients without segments, as masters before 0.3.14 do.
	CopiesByAnyClient bool
	// DynamicMode says whether objects that are read much get further copies: "off", "observe" (only say so), "enforce".
	DynamicMode string
	// HeatWindow is the time over which reads are counted, AdmissionQPS the reads a second from which on an object gets
	// another copy, MaxMemoryReplicas how many it has at most then.
	HeatWindow        time.Duration
	AdmissionQPS      float64
	MaxMemoryReplicas int
	// Heal has objects copied again that have fewer copies than they were put with: at most HealTasks at a time by one client,
	// and HealBandwidth bytes a second in all.
	Heal          bool
	HealTasks     int
	HealBandwidth uint64
	// Rebalance moves objects from the fullest segments to the emptiest, within the same bounds.
	Rebalance bool
	// Checksum has segment daemons find the CRC32C of every object and compare its copies with it: when they are copied, and in
	// a walk that reads ScrubBandwidth bytes a second of each daemon; 0 is no walk.
	Checksum       bool
	ScrubBandwidth uint64
	// DataDir, when set, is where the journal lies: what was acknowledged survives the end of the process.
	DataDir string
	// JournalSync says when the disk is asked to keep what was written: "always" before anything is acknowledged,
	// "interval" every JournalSyncEvery, or "never".
	JournalSync      string
	JournalSyncEvery time.Duration
	// ForceEmpty begins anew: it puts the files of DataDir aside, or makes void what is in etcd.
	ForceEmpty bool
	journal    journal // of tests

	suspectAfter time.Duration // of silence, see catalog.Config; tests that think set it longer than clients would like

	// HA makes this master one of several that share a log in etcd at HAConnString under the name ClusterID: one leads, the
	// others follow. LeaderTTL is how long the leader's lease lasts without renewal.
	HA           bool
	HABackend    string // etcd
	HAConnString string
	ClusterID    string
	LeaderTTL    time.Duration
	// HAAck says when a call is answered: "durable" once its outcome is in etcd, or "async" once it waits to be written.
	HAAck string
	// Etcd says how etcd is reached.
	Etcd etcdkv.Access
	// GRPCPort is where callers of gRPC reach this master, the other masters among them; 0 takes any free one, -1 is none. It
	// listens on RPCAddress.
	GRPCPort int
	// GRPCOptional lets a master without others go on without that port when it is taken.
	GRPCOptional bool
	// GRPCTLSCert and GRPCTLSKey, when set, are files with the certificate and the key of the gRPC port; with GRPCClientCA
	// callers must show a certificate of an authority in that file.
	GRPCTLSCert, GRPCTLSKey, GRPCClientCA string
	// GRPCAuthorize, when set, is asked before every call over gRPC, with the call's full name; its error is the answer.
	GRPCAuthorize func(ctx context.Context, method string) error
	// GRPCAllowFrom are the networks whose hosts may connect to the gRPC port, with commas between; empty is all. GRPCTokens,
	// when set, is the file of the tokens that it asks for.
	GRPCAllowFrom, GRPCTokens string
	// SnapshotDir, when set, is where snapshots of the log lie that are too large for etcd.
	SnapshotDir string
	// EtcdCompact lets etcd forget what was deleted; without it its database keeps every byte ever written.
	EtcdCompact bool

	// RPCAllowFrom are the networks whose hosts may call, with commas between; empty is all.
	RPCAllowFrom string
	// AdminTokens, when set, is the file of the tokens that the admin port asks for.
	AdminTokens string
	// AdminCert and AdminKey, when set, are the files that the admin port speaks TLS with; with AdminClientCA callers need a
	// certificate as well.
	AdminCert, AdminKey, AdminClientCA string

	// SlowCall is from how long on in its handler a call is kept at /debug/slow; 0 = never.
	SlowCall time.Duration
	// Pprof serves profiles of this process at /debug/pprof.
	Pprof bool
	// Reporting has the log say once a minute what is stored and was asked for.
	Reporting bool
	// MetadataTokenFile, when set, has the token that requests to the metadata server must carry.
	MetadataTokenFile string
	callLog           *callLog // of this process; nil: the service makes one

	// PortsFile, when set, is written with the real ports once all of them are open.
	PortsFile string
}

// DefaultConfig returns the defaults of the published masters.
func DefaultConfig() Config {
	return Config{
		RPCAddress: "0.0.0.0", RPCPort: 50051, RPCPortV12: -1, DefaultFamily: "13", RPCNoDelay: true, IO: "raw",
		MetricsHost: "0.0.0.0", MetricsPort: 50052, MetadataHost: "0.0.0.0", MetadataPort: 8080,
		LeaseTTL: 10 * time.Second, SoftPinTTL: 30 * time.Minute, MaxSoftPinTTL: 24 * time.Hour, AllowEvictSoftPinned: true,
		EvictionRatio: 0.05, HighWatermark: 0.90,
		ClientActiveTTL: 10 * time.Second, ClientSuspicionTTL: 20 * time.Second, ClientLostTTL: 300 * time.Second,
		PutDiscard: 30 * time.Second, PutRelease: 600 * time.Second, BundleStagingIdle: 120 * time.Second,
		DiskEviction: true, FileCapacity: math.MaxInt64, OffloadQueue: 50_000, OffloadCapRatio: 0.5,
		PromoteThreshold: 2, PromoteQueue: 50_000, PromotePerBeat: 1,
		Events:           EventConfig{Tenant: defaultTenant, Queue: limits.EventsQueueMax, Options: kvevents.Options{Legacy: true, ObjectKey: true}},
		TenantPolicyType: policyInFile, TenantWatermark: 0.9,
		MaxPendingTasks: 10_000, MaxProcessingTasks: 10_000, MaxFinishedTasks: 10_000,
		PendingTaskTimeout: 300 * time.Second, ProcessingTaskTimeout: 300 * time.Second, MaxRetryAttempts: 10,
		DynamicMode: dynamicOff, HeatWindow: 10 * time.Second, AdmissionQPS: 0.8, MaxMemoryReplicas: 2,
		Heal: true, HealTasks: limits.HealTasks, HealBandwidth: limits.HealBandwidth, ScrubBandwidth: limits.ScrubBandwidth,
		suspectAfter: limits.SuspectMissedPingsMs * time.Millisecond, JournalSync: "always", JournalSyncEvery: 10 * time.Millisecond,
		SlowCall: 100 * time.Millisecond, Reporting: true,
		HABackend: "etcd", ClusterID: "mooncake_cluster", GRPCPort: 50054, LeaderTTL: 3 * time.Second, HAAck: ackDurable, EtcdCompact: true,
	}
}

// Validate names the first setting that cannot work: its value, its limit and its flag.
func (c *Config) Validate() error {
	if err := c.checkPorts(); err != nil {
		return err
	}
	for _, r := range []struct {
		flag  string
		value float64
	}{{"eviction_ratio", c.EvictionRatio}, {"eviction_high_watermark_ratio", c.HighWatermark}} {
		if !(r.value >= 0 && r.value <= 1) {
			return fmt.Errorf("--%s=%g is outside 0..1", r.flag, r.value)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"client_active_ttl_sec (or --client_ttl)", c.ClientActiveTTL},
		{"client_suspicion_ttl_sec", c.ClientSuspicionTTL},
		{"client_lost_ttl_sec", c.ClientLostTTL},
		{"put_start_discard_timeout_sec", c.PutDiscard},
	} {
		if d.value <= 0 {
			return fmt.Errorf("--%s must be above 0, not %s", d.flag, d.value)
		}
	}
	switch {
	case c.PutRelease <= c.PutDiscard:
		return fmt.Errorf("--put_start_release_timeout_sec=%g must be above --put_start_discard_timeout_sec=%g", c.PutRelease.Seconds(), c.PutDiscard.Seconds())
	case c.SoftPinTTL > c.MaxSoftPinTTL:
		return fmt.Errorf("--default_kv_soft_pin_ttl=%s is above --max_kv_soft_pin_ttl=%s", c.SoftPinTTL, c.MaxSoftPinTTL)
	case c.DefaultFamily != "12" && c.DefaultFamily != "13" && c.DefaultFamily != "14":
		return fmt.Errorf("--rpc_default_family=%q is none of 12, 13, 14", c.DefaultFamily)
	case c.IO != "raw" && c.IO != "std":
		return fmt.Errorf("--io=%q is neither raw nor std", c.IO)
	case c.JournalSync != "always" && c.JournalSync != "interval" && c.JournalSync != "never":
		return fmt.Errorf("--journal_sync=%q is none of always, interval, never", c.JournalSync)
	case c.JournalSyncEvery < time.Millisecond || c.JournalSyncEvery > time.Minute:
		return fmt.Errorf("--journal_sync_interval_ms=%d is outside 1..60000", c.JournalSyncEvery.Milliseconds())
	case c.ForceEmpty && c.DataDir == "" && !c.HA:
		return fmt.Errorf("--force_empty needs --data_dir or --enable_ha: without them every start is empty")
	case c.HAAck != ackDurable && c.HAAck != ackAsync:
		return fmt.Errorf("--ha_ack=%q is neither durable nor async", c.HAAck)
	}
	if err := c.checkHA(); err != nil {
		return err
	}
	if c.WorkloadsFile != "" {
		if _, err := readRules(c.WorkloadsFile); err != nil {
			return err
		}
	}
	for _, check := range []func() error{c.checkDisks, c.checkGRPC, c.Events.check, c.checkTenants, c.checkTasks, c.checkLog, c.checkPortsDiffer, c.checkAccess} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkPorts() error {
	for _, p := range []struct {
		flag  string
		value int
		least int
	}{
		{"rpc_port", c.RPCPort, 0},
		{"rpc_port_v12", c.RPCPortV12, -1},
		{"metrics_port", c.MetricsPort, 0},
		{"http_metadata_server_port", c.MetadataPort, 0},
		{"grpc_port", c.GRPCPort, c.leastGRPCPort()},
	} {
		if p.value < p.least || p.value > 65535 {
			return fmt.Errorf("--%s=%d is outside %d..65535", p.flag, p.value, p.least)
		}
	}
	return nil
}

// leastGRPCPort is -1, none, for a master that knows no others.
func (c *Config) leastGRPCPort() int {
	if c.HA {
		return 0
	}
	return -1
}

func (c *Config) checkHA() error {
	if !c.HA {
		return nil
	}
	switch ttl := c.LeaderTTL; {
	case c.HABackend != "etcd":
		return fmt.Errorf("--ha_backend_type=%q: only etcd is known", c.HABackend)
	case c.HAConnString == "":
		return fmt.Errorf("--enable_ha needs --ha_backend_connstring (or --etcd_endpoints): the addresses of etcd")
	case strings.Trim(c.ClusterID, "/") == "":
		return fmt.Errorf("--cluster_id=%q names no cluster", c.ClusterID)
	case c.DataDir != "":
		return fmt.Errorf("--data_dir=%s and --enable_ha exclude each other: masters that share a log keep it in etcd", c.DataDir)
	case ttl < limits.LeaderTTLMinSec*time.Second || ttl > limits.LeaderTTLMaxSec*time.Second:
		return fmt.Errorf("--ha_leader_lease_ttl_sec=%g is outside %d..%d", ttl.Seconds(), limits.LeaderTTLMinSec, limits.LeaderTTLMaxSec)
	}
	if ip, err := netip.ParseAddr(strings.Trim(c.RPCAddress, "[]")); err == nil && ip.IsUnspecified() || c.RPCAddress == "" {
		return fmt.Errorf("--rpc_address=%s cannot be told to clients: with --enable_ha it must be the address at which they reach this master", c.RPCAddress)
	}
	if _, err := etcdkv.ParseEndpoints(c.HAConnString); err != nil {
		return fmt.Errorf("--ha_backend_connstring: %w", err)
	}
	return c.Etcd.Check()
}

// checkPortsDiffer says which two flags want one port, where opening it twice would only say that it is in use.
func (c *Config) checkPortsDiffer() error {
	type want struct {
		flag, host string
		port       int
	}
	wants := []want{{"rpc_port", c.RPCAddress, c.RPCPort}, {"rpc_port_v12", c.RPCAddress, c.RPCPortV12}, {"metrics_port", c.MetricsHost, c.MetricsPort}}
	if c.MetadataServer {
		wants = append(wants, want{"http_metadata_server_port", c.MetadataHost, c.MetadataPort})
	}
	wants = append(wants, want{"grpc_port", c.RPCAddress, c.GRPCPort})
	for i, a := range wants {
		for _, b := range wants[:i] {
			if a.port > 0 && a.port == b.port && a.host == b.host {
				return fmt.Errorf("--%s and --%s name the same port, %d", b.flag, a.flag, a.port)
			}
		}
	}
	return nil
}

// String lists the settings in force as flag=value, in the order of the flags: the start line, which reads back.
func (c *Config) String() string {
	var b strings.Builder
	add := func(k string, v any) { fmt.Fprintf(&b, ", %s=%v", k, v) }
	add("rpc_address", c.RPCAddress)
	add("rpc_port", c.RPCPort)
	add("rpc_port_v12", c.RPCPortV12)
	add("rpc_default_family", c.DefaultFamily)
	add("rpc_conn_timeout_seconds", c.RPCIdle.Seconds())
	add("rpc_enable_tcp_no_delay", c.RPCNoDelay)
	add("io", c.IO)
	add("metrics_host", c.MetricsHost)
	add("metrics_port", c.MetricsPort)
	add("enable_http_metadata_server", c.MetadataServer)
	add("http_metadata_server_host", c.MetadataHost)
	add("http_metadata_server_port", c.MetadataPort)
	add("grpc_port", c.GRPCPort)
	c.addGRPC(add)
	add("default_kv_lease_ttl", c.LeaseTTL.Milliseconds())
	add("default_kv_soft_pin_ttl", c.SoftPinTTL.Milliseconds())
	add("max_kv_soft_pin_ttl", c.MaxSoftPinTTL.Milliseconds())
	add("allow_evict_soft_pinned_objects", c.AllowEvictSoftPinned)
	add("eviction_ratio", c.EvictionRatio)
	add("eviction_high_watermark_ratio", c.HighWatermark)
	add("client_active_ttl_sec", c.ClientActiveTTL.Seconds())
	add("client_suspicion_ttl_sec", c.ClientSuspicionTTL.Seconds())
	add("client_lost_ttl_sec", c.ClientLostTTL.Seconds())
	add("put_start_discard_timeout_sec", c.PutDiscard.Seconds())
	add("put_start_release_timeout_sec", c.PutRelease.Seconds())
	add("bundle_staging_idle_sec", c.BundleStagingIdle.Seconds())
	add("hide_damaged_bundles", c.HideDamagedBundles)
	if len(c.BundleRetention) > 0 {
		add("bundle_retention", FormatRetention(c.BundleRetention))
	}
	if c.WorkloadsFile != "" {
		add("workloads_file", c.WorkloadsFile)
	}
	c.addDisks(add)
	c.addEvents(add)
	if c.MultiTenants {
		add("enable_multi_tenants", c.MultiTenants)
		add("tenant_quota_connector_type", c.TenantPolicyType)
		add("tenant_quota_connector_uri", listText(c.TenantPolicyURI))
		add("tenant_eviction_high_watermark_ratio", c.TenantWatermark)
		add("tenant_quota_evict_on_put", c.TenantsEvictOnPut)
	}
	c.addJournal(add)
	if c.HA {
		add("enable_ha", c.HA)
		add("ha_backend_type", c.HABackend)
		add("ha_backend_connstring", listText(c.HAConnString))
		add("cluster_id", c.ClusterID)
		add("ha_leader_lease_ttl_sec", c.LeaderTTL.Seconds())
		add("ha_ack", c.HAAck)
		add("force_empty", c.ForceEmpty)
		add("etcd_compact", c.EtcdCompact)
		if c.SnapshotDir != "" {
			add("snapshot_dir", c.SnapshotDir)
		}
		c.Etcd.Flags(add)
	}
	c.addAccess(add)
	c.addLog(add)
	if c.PortsFile != "" {
		add("ports_file", c.PortsFile)
	}
	return b.String()[2:]
}

// listText is a list in the start line, which has commas between settings.
func listText(list string) string { return strings.ReplaceAll(list, ",", ";") }

// With returns the settings with the ports that were really opened.
func (c Config) With(p Ports) Config {
	c.RPCPort, c.MetricsPort = p.RPC, p.Metrics
	if c.RPCPortV12 >= 0 {
		c.RPCPortV12 = p.RPCV12
	}
	if c.MetadataServer {
		c.MetadataPort = p.Metadata
	}
	if c.GRPCPort = p.GRPC; p.GRPC == 0 {
		c.GRPCPort = -1
	}
	return c
}

func (c *Config) family() family {
	switch c.DefaultFamily {
	case "12":
		return family12
	default:
		return family13
	}
}

// addJournal lists where the journal lies and how it is written.
func (c *Config) addJournal(add func(name string, value any)) {
	if c.DataDir != "" {
		add("data_dir", c.DataDir)
		add("journal_sync", c.JournalSync)
		add("journal_sync_interval_ms", c.JournalSyncEvery.Milliseconds())
		add("force_empty", c.ForceEmpty)
	}
}
