package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"mooncake/internal/gflag"
	"mooncake/master"
)

// Flags whose meaning depends on each other.
const (
	flagClientTTL    = "client_ttl"
	flagActiveTTL    = "client_active_ttl_sec"
	flagSuspicionTTL = "client_suspicion_ttl_sec"

	flagConnString    = "ha_backend_connstring"
	flagEtcdEndpoints = "etcd_endpoints"
	flagClusterID     = "cluster_id"
	flagHAAck         = "ha_ack"
	flagGRPCPort      = "grpc_port"
	envClusterID      = "MC_STORE_CLUSTER_ID"

	flagRPCPort    = "rpc_port"
	flagPort       = "port"
	flagConfigPath = "config_path"
	flagLogLevel   = "log_level"
)

// partner is what flags need beside them to mean something.
type partner struct {
	needs string
	there func(c *master.Config) bool
	flags []string
}

// partners are the flags that have an effect in company only, with the company.
var partners = []partner{
	{"--enable_http_metadata_server", func(c *master.Config) bool { return c.MetadataServer }, []string{"http_metadata_server_host", "http_metadata_server_port"}},
	{"--data_dir", func(c *master.Config) bool { return c.DataDir != "" }, []string{"journal_sync"}},
	{"--data_dir and --journal_sync=interval", func(c *master.Config) bool { return c.DataDir != "" && c.JournalSync == "interval" }, []string{"journal_sync_interval_ms"}},
	{"--enable_ha", func(c *master.Config) bool { return c.HA }, []string{
		"ha_backend_type", flagConnString, flagEtcdEndpoints, "ha_leader_lease_ttl_sec", "etcd_compact", "snapshot_dir",
	}},
	{"--enable_ha: a master with --data_dir acknowledges as --journal_sync says", func(c *master.Config) bool { return c.HA }, []string{flagHAAck}},
	{"--enable_ha, --root_fs_dir or --tenant_quota_connector_type=etcd", func(c *master.Config) bool {
		return c.HA || c.RootFSDir != "" || tenantsInEtcd(c)
	}, []string{flagClusterID}},
	{"--enable_ha or --tenant_quota_connector_type=etcd", func(c *master.Config) bool { return c.HA || tenantsInEtcd(c) }, []string{
		"etcd_cacert", "etcd_cert", "etcd_key", "etcd_user", "etcd_password_file",
	}},
	{"--root_fs_dir", func(c *master.Config) bool { return c.RootFSDir != "" }, []string{"enable_disk_eviction", "quota_bytes", "global_file_segment_size"}},
	{"--enable_offload", func(c *master.Config) bool { return c.Offload }, []string{"offload_on_evict", "offloading_queue_limit", "promotion_on_hit"}},
	{"--offload_on_evict", func(c *master.Config) bool { return c.Offload && c.OffloadOnEvict }, []string{"offload_force_evict", "offload_cap_ratio"}},
	{"--promotion_on_hit", func(c *master.Config) bool { return c.Offload && c.PromoteOnHit }, []string{
		"promotion_admission_threshold", "promotion_queue_limit", "promotion_max_per_heartbeat",
	}},
	{"--enable_kv_events", func(c *master.Config) bool { return c.Events.On }, []string{
		"kv_events_bind_endpoint", "kv_events_backend_id", "kv_events_model_name", "kv_events_additional_salt", "kv_events_lora_name",
		"kv_events_tenant_id", "kv_events_block_size", "kv_events_dp_rank", "kv_events_emit_legacy_compat", "kv_events_emit_object_key",
		"kv_events_queue_capacity",
	}},
	{"--enable_multi_tenants", func(c *master.Config) bool { return c.MultiTenants }, []string{
		"tenant_quota_connector_type", "tenant_quota_connector_uri", "tenant_eviction_high_watermark_ratio", "tenant_quota_evict_on_put",
	}},
	{"--checksum", func(c *master.Config) bool { return c.Checksum }, []string{"scrub_bandwidth"}},
	{"--dynamic_replication_mode", func(c *master.Config) bool { return c.DynamicMode != "off" }, []string{
		"dynamic_replication_heat_window_seconds", "dynamic_replication_admission_qps_threshold", "dynamic_replication_max_memory_replicas",
	}},
}

func tenantsInEtcd(c *master.Config) bool { return c.MultiTenants && c.TenantPolicyType == "etcd" }

// settle works out what the flags mean together, and lists those that mean nothing.
func settle(fs *pflag.FlagSet, c *master.Config, o *options) (without []string, err error) {
	if c.HAConnString == "" {
		c.HAConnString = o.etcdEndpoints
	} else if fs.Changed(flagEtcdEndpoints) {
		without = append(without, fmt.Sprintf("--%s (--%s is given as well)", flagEtcdEndpoints, flagConnString))
	}
	if id := os.Getenv(envClusterID); id != "" && !fs.Changed(flagClusterID) {
		c.ClusterID = id
	}
	c.GRPCOptional = !fs.Changed(flagGRPCPort)
	older, newer := fs.Changed(flagClientTTL), fs.Changed(flagActiveTTL)
	if older && !newer {
		c.ClientActiveTTL = o.clientTTL
	}
	if (older || newer) && !fs.Changed(flagSuspicionTTL) {
		c.ClientSuspicionTTL = c.ClientActiveTTL
	}
	if older && newer {
		without = append(without, fmt.Sprintf("--%s=%s (--%s=%s is given as well)", flagClientTTL, seconds{&o.clientTTL}, flagActiveTTL, seconds{&c.ClientActiveTTL}))
	}
	if fs.Changed(flagPort) {
		if fs.Changed(flagRPCPort) && c.RPCPort != 0 {
			without = append(without, fmt.Sprintf("--%s=%d (--%s=%d is given as well)", flagPort, o.port, flagRPCPort, c.RPCPort))
		} else if c.RPCPort = o.port; o.port < 0 || o.port > 65535 {
			return nil, fmt.Errorf("--%s=%d is outside 0..65535", flagPort, o.port)
		}
	}
	if o.rpcNIC != "" {
		if c.RPCAddress, err = addressOf(o.rpcNIC); err != nil {
			return nil, err
		}
	}
	without = append(without, lonely(fs, c)...)
	for _, x := range append(idle[:len(idle):len(idle)], gflag.Glog...) {
		if fs.Changed(x.Name) {
			without = append(without, fmt.Sprintf("--%s (%s)", x.Name, x.Why))
		}
	}
	return without, nil
}

// lonely lists the flags whose company is not there, and takes back those that would be refused without it.
func lonely(fs *pflag.FlagSet, c *master.Config) (without []string) {
	for _, p := range partners {
		if p.there(c) {
			continue
		}
		for _, name := range p.flags {
			if fs.Changed(name) {
				without = append(without, fmt.Sprintf("--%s=%s (only with %s)", name, fs.Lookup(name).Value, p.needs))
			}
		}
	}
	c.OffloadOnEvict = c.OffloadOnEvict && c.Offload
	c.PromoteOnHit = c.PromoteOnHit && c.Offload
	c.OffloadForce = c.OffloadForce && c.OffloadOnEvict
	return without
}

// addressOf is the first IPv4 address of a network interface.
func addressOf(nic string) (string, error) {
	i, err := net.InterfaceByName(nic)
	if err != nil {
		return "", fmt.Errorf("--rpc_interface=%s: there is no such network interface", nic)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("--rpc_interface=%s: %w", nic, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("--rpc_interface=%s has no IPv4 address", nic)
}

// warningOf is the one line about all that has no effect; "" is nothing to say.
func warningOf(without []string) string {
	if len(without) == 0 {
		return ""
	}
	return "without effect: " + strings.Join(without, ", ")
}
