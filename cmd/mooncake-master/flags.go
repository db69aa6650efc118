package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"mooncake/internal/etcdkv"
	"mooncake/internal/gflag"
	"mooncake/master"
)

// oldName is what the published binary is called; under it the program has more of the published defaults.
const (
	newName = "mooncake-master"
	oldName = "mooncake_master"
)

// options are the flags that are no settings of the daemon itself.
type options struct {
	checkConfig bool
	configPath  string
	logLevel    string
	logFormat   string
	port        int           // the older name of RPCPort
	rpcNIC      string        // the interface whose address takes the place of RPCAddress
	clientTTL   time.Duration // the older name of ClientActiveTTL
	// etcdEndpoints is the older name of HAConnString.
	etcdEndpoints string
}

// addEtcdFlags declares how etcd is reached.
func addEtcdFlags(fs *pflag.FlagSet, a *etcdkv.Access) {
	a.Password = os.Getenv(etcdkv.PasswordEnv)
	fs.StringVar(&a.CACert, "etcd_cacert", "", "reach etcd by TLS: file of the authorities its certificate comes from, or "+etcdkv.SystemCA)
	fs.StringVar(&a.Cert, "etcd_cert", "", "file of this process's certificate, where etcd asks for one; needs --etcd_key")
	fs.StringVar(&a.Key, "etcd_key", "", "file of the key of --etcd_cert")
	fs.StringVar(&a.User, "etcd_user", "", "user of etcd; its password is in --etcd_password_file, or in "+etcdkv.PasswordEnv)
	fs.StringVar(&a.PasswordFile, "etcd_password_file", "", "file of the password of --etcd_user")
}

// addGRPCFlags declares the port of gRPC.
func addGRPCFlags(fs *pflag.FlagSet, c *master.Config) {
	fs.IntVar(&c.GRPCPort, flagGRPCPort, c.GRPCPort, "port on --rpc_address for callers of gRPC and, with --enable_ha, for the other masters; 0 takes a free one, -1 = none. Not given and taken: none, with a warning")
	fs.StringVar(&c.GRPCTLSCert, "grpc_tls_cert", c.GRPCTLSCert, "serve gRPC by TLS: file of this master's certificate; needs --grpc_tls_key")
	fs.StringVar(&c.GRPCTLSKey, "grpc_tls_key", c.GRPCTLSKey, "file of the key of --grpc_tls_cert")
	fs.StringVar(&c.GRPCAllowFrom, "grpc_allow_from", "", "networks whose hosts may connect to the gRPC port, the other masters among them: 10.0.0.0/8,::1; not given: all")
	fs.StringVar(&c.GRPCTokens, "grpc_tokens_file", "", "file of the tokens that the gRPC port asks for, LEVEL TOKEN a line: read, operate or admin; see docs/access.md")
	fs.StringVar(&c.GRPCClientCA, "grpc_tls_client_ca", c.GRPCClientCA, "file of the authorities that certificates of callers must come from; not given: callers need none")
}

func addFlags(fs *pflag.FlagSet, c *master.Config, o *options) {
	fs.StringVar(&c.RPCAddress, "rpc_address", c.RPCAddress, "address the RPC port listens on")
	fs.IntVar(&c.RPCPort, flagRPCPort, c.RPCPort, "port for clients; 0 takes a free one")
	fs.IntVar(&c.RPCPortV12, "rpc_port_v12", c.RPCPortV12, "second port, on which every client is taken for release 0.3.12; -1 = off")
	fs.StringVar(&c.DefaultFamily, "rpc_default_family", c.DefaultFamily, "release assumed of a client that its calls do not tell: 12, 13 or 14")
	fs.Var(seconds{&c.RPCIdle}, "rpc_conn_timeout_seconds", "seconds after which a silent client connection is closed; 0 = never")
	fs.BoolVar(&c.RPCNoDelay, "rpc_enable_tcp_no_delay", c.RPCNoDelay, "send replies at once")
	fs.StringVar(&c.IO, "io", c.IO, "how connections are read: raw, or std where raw is in doubt")
	fs.StringVar(&c.MetricsHost, "metrics_host", c.MetricsHost, "address the admin HTTP server listens on")
	fs.IntVar(&c.MetricsPort, "metrics_port", c.MetricsPort, "port of the admin HTTP server with /metrics; 0 takes a free one")
	fs.BoolVar(&c.MetadataServer, "enable_http_metadata_server", c.MetadataServer, "run the HTTP metadata server")
	fs.StringVar(&c.MetadataHost, "http_metadata_server_host", c.MetadataHost, "address the metadata server listens on")
	fs.IntVar(&c.MetadataPort, "http_metadata_server_port", c.MetadataPort, "port of the metadata server; 0 takes a free one")
	fs.Var(ttl{&c.LeaseTTL}, "default_kv_lease_ttl", "how long a read protects an object: ms, or a number with ms, s, m, h")
	fs.Var(ttl{&c.SoftPinTTL}, "default_kv_soft_pin_ttl", "life of a soft pin whose put names none")
	fs.Var(ttl{&c.MaxSoftPinTTL}, "max_kv_soft_pin_ttl", "longest life a put may name for its soft pin")
	fs.BoolVar(&c.AllowEvictSoftPinned, "allow_evict_soft_pinned_objects", c.AllowEvictSoftPinned, "evict soft pinned objects when nothing else can go")
	fs.Float64Var(&c.EvictionRatio, "eviction_ratio", c.EvictionRatio, "share of the pool freed once the watermark is passed")
	fs.Float64Var(&c.HighWatermark, "eviction_high_watermark_ratio", c.HighWatermark, "used share of the pool that starts eviction")
	o.clientTTL = c.ClientActiveTTL
	fs.Var(seconds{&c.ClientActiveTTL}, flagActiveTTL, "seconds of silence after which a client's objects are hidden until it is heard again")
	fs.Var(seconds{&o.clientTTL}, flagClientTTL, "older name of --"+flagActiveTTL+", which wins when both are given")
	fs.Var(seconds{&c.ClientSuspicionTTL}, flagSuspicionTTL, "further seconds after which they count as lost; not given: that of --"+flagActiveTTL+" if that is given, else 20")
	fs.Var(seconds{&c.ClientLostTTL}, "client_lost_ttl_sec", "further seconds in which a client that returns with its segments gets their objects back")
	fs.Var(seconds{&c.PutDiscard}, "put_start_discard_timeout_sec", "age in seconds at which an unfinished put can be taken over")
	fs.Var(seconds{&c.PutRelease}, "put_start_release_timeout_sec", "age in seconds at which the bytes of an unfinished put are free again")
	fs.Var(seconds{&c.BundleStagingIdle}, "bundle_staging_idle_sec", "seconds without a write after which an unpublished bundle is reclaimed; 0 = never for that alone")
	fs.BoolVar(&c.HideDamagedBundles, "hide_damaged_bundles", c.HideDamagedBundles, "answer look-ups of a bundle that lost members as if it were gone")
	fs.Var(retention{&c.BundleRetention}, "bundle_retention", "published bundles that go by themselves: PREFIX:AGE:COUNT, more after commas; AGE as 24h, COUNT kept of one prefix and partition; either may be empty")
	fs.StringVar(&c.WorkloadsFile, "workloads_file", c.WorkloadsFile, "file with the rules of workloads, read at the start; see deploy/workloads.yaml")
	addStoreFlags(fs, c)
	fs.StringVar(&c.DataDir, "data_dir", c.DataDir, "directory of the journal: what was acknowledged survives a restart; not given: nothing does")
	fs.StringVar(&c.JournalSync, "journal_sync", c.JournalSync, "when the disk is asked to keep the journal: always (before anything is acknowledged), interval, never")
	fs.Var(millis{&c.JournalSyncEvery}, "journal_sync_interval_ms", "time between two syncs with --journal_sync=interval")
	fs.BoolVar(&c.ForceEmpty, "force_empty", c.ForceEmpty, "begin anew: the files of --data_dir are put aside; with --enable_ha what is in etcd is void, if nobody leads")
	fs.BoolVar(&c.HA, "enable_ha", c.HA, "be one of several masters: one leads, the others stand by with the same log in etcd")
	fs.StringVar(&c.HABackend, "ha_backend_type", c.HABackend, "where the masters meet: etcd")
	fs.StringVar(&c.HAConnString, flagConnString, c.HAConnString, "addresses of etcd, separated by ';' or ','")
	fs.StringVar(&o.etcdEndpoints, flagEtcdEndpoints, "", "older name of --"+flagConnString+", which wins when both are given")
	fs.StringVar(&c.ClusterID, flagClusterID, c.ClusterID, "name of the cluster; clients have it in "+envClusterID+", which is taken here too when the flag is not given")
	fs.Var(seconds{&c.LeaderTTL}, "ha_leader_lease_ttl_sec", "seconds after which a leader that is not heard is replaced: 2 to 60")
	fs.StringVar(&c.HAAck, flagHAAck, c.HAAck, "when a call is answered: durable (its outcome is in etcd) or async (it waits to be written; a failover takes back what is not)")
	fs.BoolVar(&c.EtcdCompact, "etcd_compact", c.EtcdCompact, "let etcd forget what was deleted, for all its users; without it its database grows for ever")
	addEtcdFlags(fs, &c.Etcd)
	addGRPCFlags(fs, c)
	fs.StringVar(&c.SnapshotDir, "snapshot_dir", c.SnapshotDir, "directory for snapshots of the log that are too large for etcd; not given: above 32 MiB none is made and the log grows")
	fs.StringVar(&c.PortsFile, "ports_file", c.PortsFile, "file to write the real ports to as JSON, once all are open")
	fs.BoolVar(&o.checkConfig, "check_config", false, "check the settings, print them and exit")
	fs.StringVar(&o.configPath, flagConfigPath, "", "file of settings, .json, .yaml or .yml; flags that are given win")
	fs.StringVar(&o.logLevel, flagLogLevel, "info", "debug, info, warn or error")
	fs.IntVar(&o.port, flagPort, c.RPCPort, "older name of --"+flagRPCPort+", which wins when both are given")
	fs.StringVar(&o.rpcNIC, "rpc_interface", "", "network interface whose first IPv4 address takes the place of --rpc_address")
	addAccessFlags(fs, c)
	addLogFlags(fs, c, o)
	gflag.AddIdle(fs, idle...)
	gflag.AddIdle(fs, gflag.Glog...)
}

// addAccessFlags declares who may do what.
func addAccessFlags(fs *pflag.FlagSet, c *master.Config) {
	fs.StringVar(&c.RPCAllowFrom, "rpc_allow_from", "", "networks whose hosts may call: 10.0.0.0/8,::1; not given: all")
	fs.StringVar(&c.AdminTokens, "admin_tokens_file", "", "file of the tokens that the admin port asks for, LEVEL TOKEN a line: read, operate or admin; see docs/access.md")
	fs.StringVar(&c.AdminCert, "admin_tls_cert", "", "serve the admin port by TLS: file of its certificate; needs --admin_tls_key")
	fs.StringVar(&c.AdminKey, "admin_tls_key", "", "file of the key of --admin_tls_cert")
	fs.StringVar(&c.AdminClientCA, "admin_tls_client_ca", "", "file of the authorities whose certificates callers of the admin port must have")
}

// addStoreFlags adds the flags about disks, events and tenants.
func addStoreFlags(fs *pflag.FlagSet, c *master.Config) {
	fs.StringVar(&c.RootFSDir, "root_fs_dir", c.RootFSDir, "directory that all clients share: objects are written to files below it as well")
	fs.BoolVar(&c.DiskEviction, "enable_disk_eviction", c.DiskEviction, "let clients remove the oldest files when the directory is full")
	fs.Uint64Var(&c.DiskQuota, "quota_bytes", c.DiskQuota, "bytes that clients may fill of the directory; 0 = nine tenths of what there is")
	fs.Int64Var(&c.FileCapacity, "global_file_segment_size", c.FileCapacity, "size of the directory, as it is shown")
	fs.BoolVar(&c.Offload, "enable_offload", c.Offload, "let clients copy objects to disks of their own")
	fs.BoolVar(&c.OffloadOnEvict, "offload_on_evict", c.OffloadOnEvict, "copy what would be evicted, instead of everything that is written; what is not copied yet stays")
	fs.BoolVar(&c.OffloadForce, "offload_force_evict", c.OffloadForce, "evict what cannot be copied all the same")
	fs.IntVar(&c.OffloadQueue, "offloading_queue_limit", c.OffloadQueue, "objects that may wait for one client's disk")
	fs.Float64Var(&c.OffloadCapRatio, "offload_cap_ratio", c.OffloadCapRatio, "share of that limit which one round of eviction may add")
	fs.BoolVar(&c.PromoteOnHit, "promotion_on_hit", c.PromoteOnHit, "bring back into memory what is read and is on a client's disk only")
	fs.IntVar(&c.PromoteThreshold, "promotion_admission_threshold", c.PromoteThreshold, "reads after which that is done")
	fs.IntVar(&c.PromoteQueue, "promotion_queue_limit", c.PromoteQueue, "objects that may be on their way back")
	fs.IntVar(&c.PromotePerBeat, "promotion_max_per_heartbeat", c.PromotePerBeat, "objects that one client is told to bring back at a time")
	e := &c.Events
	fs.BoolVar(&e.On, "enable_kv_events", e.On, "tell subscribers over ZeroMQ of objects that come and go")
	fs.StringVar(&e.Endpoint, "kv_events_bind_endpoint", e.Endpoint, "where subscribers connect: tcp://HOST:PORT")
	fs.StringVar(&e.BackendID, "kv_events_backend_id", e.BackendID, "what subscribers know this cluster by")
	fs.StringVar(&e.ModelName, "kv_events_model_name", e.ModelName, "name of the model in events")
	fs.StringVar(&e.AdditionalSalt, "kv_events_additional_salt", e.AdditionalSalt, "salt of hashes in events")
	fs.StringVar(&e.LoraName, "kv_events_lora_name", e.LoraName, "name of the LoRA in events")
	fs.StringVar(&e.Tenant, "kv_events_tenant_id", e.Tenant, "what the default tenant is called in events")
	fs.Uint32Var(&e.BlockSize, "kv_events_block_size", e.BlockSize, "block size in events; 0 = not known")
	fs.Uint32Var(&e.DPRank, "kv_events_dp_rank", e.DPRank, "data-parallel rank in events")
	fs.BoolVar(&e.Legacy, "kv_events_emit_legacy_compat", e.Legacy, "add the fields of older consumers to events")
	fs.BoolVar(&e.ObjectKey, "kv_events_emit_object_key", e.ObjectKey, "add the object's key to events; those of objects are left out without it")
	fs.IntVar(&e.Queue, "kv_events_queue_capacity", e.Queue, "events that may wait, the oldest go first; 0 = the most there may be")
	fs.BoolVar(&c.MultiTenants, "enable_multi_tenants", c.MultiTenants, "tell tenants apart: each has keys of its own, and only those with a quota may write")
	fs.StringVar(&c.TenantPolicyType, "tenant_quota_connector_type", c.TenantPolicyType, "where the quotas of tenants are kept: file or etcd")
	fs.StringVar(&c.TenantPolicyURI, "tenant_quota_connector_uri", c.TenantPolicyURI, "path of the file, or addresses of etcd, with the quotas of tenants")
	fs.Float64Var(&c.TenantWatermark, "tenant_eviction_high_watermark_ratio", c.TenantWatermark, "used share of its quota above which a tenant's oldest objects go; 0 = never")
	fs.BoolVar(&c.TenantsEvictOnPut, "tenant_quota_evict_on_put", c.TenantsEvictOnPut, "let a put beyond its tenant's quota evict the tenant's own objects, as before 0.3.14; without it the put is refused")
	fs.IntVar(&c.MaxPendingTasks, "max_total_pending_tasks", c.MaxPendingTasks, "copies and moves that may wait for their clients; more are refused")
	fs.IntVar(&c.MaxProcessingTasks, "max_total_processing_tasks", c.MaxProcessingTasks, "copies and moves that clients may work on at a time; more wait")
	fs.IntVar(&c.MaxFinishedTasks, "max_total_finished_tasks", c.MaxFinishedTasks, "ended copies and moves that can still be asked for")
	fs.Var(seconds{&c.PendingTaskTimeout}, "pending_task_timeout_sec", "seconds after which a task that nobody fetched has failed; 0 = never")
	fs.Var(seconds{&c.ProcessingTaskTimeout}, "processing_task_timeout_sec", "seconds after which a fetched task without an end has failed; 0 = never")
	fs.IntVar(&c.MaxRetryAttempts, "max_retry_attempts", c.MaxRetryAttempts, "how often a client is advised to try a task")
	fs.BoolVar(&c.CopiesByAnyClient, "copies_by_any_client", c.CopiesByAnyClient, "take copies and moves also from clients without segments, as before 0.3.14")
	fs.StringVar(&c.DynamicMode, "dynamic_replication_mode", c.DynamicMode, "further copies of objects that are read much: off, observe (only log them) or enforce")
	fs.Var(seconds{&c.HeatWindow}, "dynamic_replication_heat_window_seconds", "seconds over which reads are counted; below 1 counts as 1")
	fs.Float64Var(&c.AdmissionQPS, "dynamic_replication_admission_qps_threshold", c.AdmissionQPS, "reads a second from which on an object gets another copy")
	fs.IntVar(&c.MaxMemoryReplicas, "dynamic_replication_max_memory_replicas", c.MaxMemoryReplicas, "copies that reads can bring an object to; below 1 counts as 1")
	fs.BoolVar(&c.Heal, "heal", c.Heal, "copy objects again that have fewer copies than they were put with, because a segment is lost")
	fs.IntVar(&c.HealTasks, "heal_tasks", c.HealTasks, "objects that one client is asked to copy again at a time")
	fs.Uint64Var(&c.HealBandwidth, "heal_bandwidth", c.HealBandwidth, "bytes a second that are copied again, by all clients together")
	fs.BoolVar(&c.Checksum, "checksum", c.Checksum, "have segment daemons find the CRC32C of every object, and compare copies with it")
	fs.Uint64Var(&c.ScrubBandwidth, "scrub_bandwidth", c.ScrubBandwidth, "with --checksum: bytes a second of each daemon that are compared again, for ever; 0 = never")
	fs.BoolVar(&c.Rebalance, "rebalance", c.Rebalance, "move objects from the fullest segments to the emptiest when they are far apart, within the bounds of --heal_tasks and --heal_bandwidth")
}

// idle are flags of the published masters that have no effect here.
var idle = []gflag.Idle{
	{Name: "allocation_strategy", Type: "string", Default: "random", Why: "placement follows docs/rules.md", Allowed: []string{"random", "free_ratio_first", "cxl", "ssd_free_ratio_first", "local_first"}},
	{Name: "memory_allocator", Type: "string", Default: "offset", Why: "there is one allocator", Allowed: []string{"offset", "cachelib"}},
	{Name: "max_threads", Type: "int32", Default: "16", Why: whyThreads},
	{Name: "rpc_thread_num", Type: "int32", Default: "0", Why: whyThreads},
	{Name: "handler_worker_thread_num", Type: "int32", Default: "0", Why: whyThreads},
	{Name: "enable_metadata_cleanup_on_timeout", Type: "bool", Default: "false", Why: "entries of clients that are gone go always"},
	{Name: "pod_name", Type: "string", Why: whyPod},
	{Name: "pod_namespace", Type: "string", Why: whyPod},
	{Name: "enable_cxl", Type: "bool", Default: "false", Why: whyCXL},
	{Name: "cxl_path", Type: "string", Default: "/dev/dax0.0", Why: whyCXL},
	{Name: "cxl_size", Type: "uint64", Default: "8589934592", Why: whyCXL},
	{Name: "nof_eviction_high_watermark_ratio", Type: "double", Default: "0.9", Why: whyNoF},
	{Name: "nof_eviction_ratio", Type: "double", Default: "0.05", Why: whyNoF},
	{Name: "nof_heartbeat_failures_threshold", Type: "uint32", Default: "3", Why: whyNoF},
	{Name: "nof_heartbeat_interval_sec", Type: "int64", Default: "10", Why: whyNoF},
	{Name: "nof_heartbeat_probe_timeout_ms", Type: "uint32", Default: "1000", Why: whyNoF},
	{Name: "enable_oplog", Type: "bool", Default: "false", Why: whyLog},
	{Name: "batch_oplog_retry_timeout_sec", Type: "uint32", Default: "180", Why: whyLog},
	{Name: "oplog_batch_max_entries", Type: "uint32", Default: "1024", Why: whyLog},
	{Name: "oplog_poll_interval_ms", Type: "int32", Default: "1000", Why: whyLog},
	{Name: "enable_oplog_snapshot", Type: "bool", Default: "false", Why: whyLog},
	{Name: "snapshot_chunk_object_count", Type: "uint64", Default: "1000000", Why: whyLog},
	{Name: "enable_snapshot", Type: "bool", Default: "false", Why: whySnapshot},
	{Name: "enable_snapshot_restore", Type: "bool", Default: "false", Why: whySnapshot},
	{Name: "snapshot_backup_dir", Type: "string", Why: whySnapshot},
	{Name: "snapshot_catalog_backend_connstring", Type: "string", Why: whySnapshot},
	{Name: "snapshot_catalog_backend_type", Type: "string", Why: whySnapshot},
	{Name: "snapshot_catalog_store_connstring", Type: "string", Why: whySnapshot},
	{Name: "snapshot_catalog_store_type", Type: "string", Why: whySnapshot},
	{Name: "snapshot_child_timeout_seconds", Type: "uint64", Default: "300", Why: whySnapshot},
	{Name: "snapshot_interval_seconds", Type: "uint64", Default: "600", Why: whySnapshot},
	{Name: "snapshot_object_store_type", Type: "string", Why: whySnapshot},
	{Name: "snapshot_payload_backend_type", Type: "string", Why: whySnapshot},
	{Name: "snapshot_payload_store_type", Type: "string", Why: whySnapshot},
	{Name: "snapshot_retention_count", Type: "uint32", Default: "2", Why: whySnapshot},
	{Name: "use_mmap_arena_allocator", Type: "bool", Default: "false", Why: whyArena},
	{Name: "mmap_arena_pool_size", Type: "uint64", Default: "8589934592", Why: whyArena},
	{Name: "weight_import_idle_timeout_ms", Type: "uint64", Default: "300000", Why: whyWeights},
	{Name: "weight_management_oplog_capability_confirmed", Type: "bool", Default: "false", Why: whyWeights},
}

// Why they have none.
const (
	whyThreads  = "every connection has a goroutine of its own"
	whyPod      = "masters do not meet in Kubernetes"
	whyCXL      = "CXL memory is not built yet"
	whyNoF      = "NVMe over fabrics is not built yet"
	whyLog      = "with --enable_ha the log is in etcd always"
	whySnapshot = "use --data_dir"
	whyArena    = "a master holds no data"
	whyWeights  = "managed weights are not built yet"
)
