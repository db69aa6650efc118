package segment

import (
	"context"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // part of the refusal; empty: accepted
	}{
		"as it is":              {func(*Config) {}, ""},
		"a name":                {func(c *Config) { c.LocalHostname = "host.example" }, ""},
		"ipv6":                  {func(c *Config) { c.LocalHostname = "::1" }, ""},
		"ipv6 with port":        {func(c *Config) { c.LocalHostname = "[::1]:18000" }, ""},
		"no host":               {func(c *Config) { c.LocalHostname = "" }, "--local_hostname is missing"},
		"any host":              {func(c *Config) { c.LocalHostname = "0.0.0.0" }, "no other host"},
		"any v6 host":           {func(c *Config) { c.LocalHostname = "[::]:18000" }, "no other host"},
		"host port":             {func(c *Config) { c.LocalHostname = "10.0.0.1:13000" }, "12300-14300"},
		"two host ports":        {func(c *Config) { c.LocalHostname, c.TEPort = "10.0.0.1:18000", 18001 }, "two handshake ports"},
		"master without port":   {func(c *Config) { c.MasterAddress = "10.0.0.1" }, "--master_server_address"},
		"master by etcd":        {func(c *Config) { c.MasterAddress = "etcd://10.0.0.1:2379;10.0.0.2,[::1]:2380" }, ""},
		"master by no etcd":     {func(c *Config) { c.MasterAddress = "etcd://" }, "--master_server_address"},
		"master by bad etcd":    {func(c *Config) { c.MasterAddress = "etcd://h:99999" }, "--master_server_address"},
		"master by redis":       {func(c *Config) { c.MasterAddress = "redis://h:1" }, "--master_server_address=redis://h:1: redis"},
		"no cluster":            {func(c *Config) { c.MasterAddress, c.ClusterID = "etcd://h:1", "/" }, "--cluster_id"},
		"endless cluster":       {func(c *Config) { c.MasterAddress, c.ClusterID = "etcd://h:1", strings.Repeat("n", 3000) }, "--cluster_id"},
		"master garbage":        {func(c *Config) { c.MasterAddress = "h:x" }, "--master_server_address"},
		"no metadata":           {func(c *Config) { c.MetadataServer = "" }, "--metadata_server"},
		"redis":                 {func(c *Config) { c.MetadataServer = "redis://h:1" }, "--metadata_server"},
		"etcd":                  {func(c *Config) { c.MetadataServer = "etcd://h:2379" }, ""},
		"http":                  {func(c *Config) { c.MetadataServer = "http://h:8080/metadata" }, ""},
		"size 0":                {func(c *Config) { c.SegmentBytes = 0 }, "--global_segment_size is 0"},
		"size above a TiB":      {func(c *Config) { c.SegmentBytes = 1<<40 + 1 }, "--global_segment_size"},
		"rdma, not built":       {func(c *Config) { c.Protocol, c.openFabric = "rdma", nil }, "built without RDMA"},
		"unknown protocol":      {func(c *Config) { c.Protocol = "udp" }, "--protocol=udp"},
		"io":                    {func(c *Config) { c.Data.IO = "uring" }, "--io"},
		"congestion":            {func(c *Config) { c.Data.CongestionControl = "nonesuch" }, "--tcp_congestion_control"},
		"sndbuf":                {func(c *Config) { c.Data.SndbufBytes = -1 }, "--data_sndbuf"},
		"local sndbuf":          {func(c *Config) { c.Data.SndbufLocalBytes = -1 }, "--data_sndbuf_local"},
		"hugepages":             {func(c *Config) { c.HugePages = "2M" }, "--hugepages"},
		"shm dir":               {func(c *Config) { c.ShmDir = "" }, "--shm_dir"},
		"te port of clients":    {func(c *Config) { c.TEPort = 15500 }, "15000-17000"},
		"data port of master":   {func(c *Config) { c.DataPort = 50052 }, "50052"},
		"ports equal":           {func(c *Config) { c.TEPort, c.DataPort = 18000, 18000 }, "both 18000"},
		"http on te port":       {func(c *Config) { c.TEPort, c.HTTPPort = 18000, 18000 }, "--http_port=18000"},
		"http port":             {func(c *Config) { c.HTTPPort = 70000 }, "--http_port=70000"},
		"no http":               {func(c *Config) { c.HTTPPort = -1 }, ""},
		"bind address":          {func(c *Config) { c.BindAddress = "eth0" }, "--bind_address"},
		"bind half a bracket":   {func(c *Config) { c.BindAddress = "[::1" }, "--bind_address"},
		"bind with a port":      {func(c *Config) { c.BindAddress = "127.0.0.1:5" }, "--bind_address"},
		"bind brackets":         {func(c *Config) { c.BindAddress = "[::1]" }, ""},
		"bind v6":               {func(c *Config) { c.BindAddress = "::1" }, ""},
		"etcd without scheme":   {func(c *Config) { c.MetadataServer = "h:2379" }, ""},
		"etcd port":             {func(c *Config) { c.MetadataServer = "etcd://h:99999" }, "--metadata_server"},
		"etcd with a blank":     {func(c *Config) { c.MetadataServer = "a b" }, "--metadata_server"},
		"http port number":      {func(c *Config) { c.MetadataServer = "http://h:99999/metadata" }, "--metadata_server"},
		"http without a host":   {func(c *Config) { c.MetadataServer = "http:///metadata" }, "--metadata_server"},
		"name":                  {func(c *Config) { c.SegmentName = "node-7" }, ""},
		"name with slash":       {func(c *Config) { c.SegmentName = "a/b" }, "--segment_name"},
		"name with blank":       {func(c *Config) { c.SegmentName = "a b" }, "--segment_name"},
		"name like a client":    {func(c *Config) { c.SegmentName = "10.0.0.1:13000" }, "looks like a client"},
		"name like an endpoint": {func(c *Config) { c.SegmentName = "10.0.0.1:18000" }, ""},
		"long name":             {func(c *Config) { c.SegmentName = strings.Repeat("n", 300) }, "--segment_name"},
		"no workers":            {func(c *Config) { c.TaskWorkers = 0 }, "--task_workers"},
		"no interval":           {func(c *Config) { c.PingEvery = 0 }, "interval"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.LocalHostname = "127.0.0.1"
			cfg.procRoot = procWith(t, "32768\t60999", "")
			c.change(&cfg)
			err := cfg.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
}

func TestHostPortBecomesTheHandshakePort(t *testing.T) {
	c := DefaultConfig()
	c.LocalHostname = "127.0.0.1:18000"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.TEPort != 18000 || c.host() != "127.0.0.1" {
		t.Errorf("port %d, host %q", c.TEPort, c.host())
	}
}

func TestResolve(t *testing.T) {
	c := DefaultConfig()
	for _, numeric := range []string{"127.0.0.1", "::1", "[::1]:18000"} {
		c.LocalHostname = numeric
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // an address that needs no resolver needs no time either
		if err := c.Resolve(ctx); err != nil {
			t.Errorf("%s: %v", numeric, err)
		}
	}
	c.LocalHostname = "no.such.host.invalid"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Resolve(ctx); err == nil || !strings.Contains(err.Error(), "--local_hostname=no.such.host.invalid") {
		t.Errorf("error %v", err)
	}
}

func TestStringSaysWhatIsInForce(t *testing.T) {
	c := DefaultConfig()
	c.LocalHostname, c.SegmentName, c.DeviceNames, c.PortsFile = "10.0.0.1:18000", "n", "mlx5_0", "p"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	text := c.String()
	for _, want := range []string{
		"--master_server_address=127.0.0.1:50051", "--local_hostname=10.0.0.1 ", "--te_port=18000", "--global_segment_size=8589934592",
		"--segment_name=n", "--device_names=mlx5_0", "--ports_file=p", "--state_dir=/dev/shm", "--io=raw", "--http_port=9300",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Contains(text, "\n") {
		t.Error("more than one line")
	}
}
