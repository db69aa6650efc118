package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// host makes a folder that looks like the root of a host on which nothing is wrong, with two RDMA devices.
func host(t *testing.T, edits map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"proc/self/limits":                          "Max locked memory         unlimited            unlimited            bytes\n",
		"proc/self/cgroup":                          "0::/pod/c\n",
		"sys/fs/cgroup/pod/c/memory.max":            "max\n",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999\n",
		"proc/sys/net/ipv4/ip_local_reserved_ports": "50051-50054\n",
	}
	for _, device := range []string{"mlx5_0", "mlx5_1"} {
		dir := "sys/class/infiniband/" + device + "/"
		files[dir+"node_type"] = "1: CA\n"
		files[dir+"ports/1/state"] = "4: ACTIVE\n"
		files[dir+"ports/1/link_layer"] = "Ethernet\n"
		files[dir+"ports/1/rate"] = "400 Gb/sec (4X NDR)\n"
		files[dir+"ports/1/lid"] = "0x0\n"
		files[dir+"ports/1/pkeys/0"] = "0xffff\n"
		files[dir+"ports/1/gids/0"] = "0000:0000:0000:0000:0000:ffff:0a00:0001\n"
		files[dir+"ports/1/gid_attrs/types/0"] = "RoCE v2\n"
		files[dir+"ports/1/gid_attrs/ndevs/0"] = "eth0\n"
	}
	for path, text := range edits {
		files[path] = text
	}
	for path, text := range files {
		if text == "" {
			continue // taken away
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestDoctor plants one mistake after the other: it is found by the check that is for it, and no other, with a remedy.
func TestDoctor(t *testing.T) {
	wish := []string{"--device_names=mlx5_0,mlx5_1", "--segment_size=64GiB", "--step_bytes=1GiB"}
	trainer := func(address, release string, segments uint32) *mooncakev1.Client {
		return &mooncakev1.Client{Id: &mooncakev1.Uuid{High: 8, Low: uint64(len(release))<<8 | uint64(segments)}, Address: address, Release: release, Connections: 1, Segments: segments, SegmentBytes: uint64(segments) * 8 * gib}
	}
	for _, c := range []struct {
		name   string
		check  string // "" is that nothing is wrong
		found  string
		remedy string
		plant  func(c *cluster)
		host   map[string]string
		args   []string
	}{
		{name: "nothing is wrong"},
		{
			name: "the master is away", check: "master", found: "connection refused", remedy: "--master",
			plant: func(c *cluster) { c.address = "127.0.0.1:1" }, args: []string{"--timeout=300ms"},
		},
		{
			name: "a loopback address is told to others", check: "loopback-address", found: "127.0.0.1:17111", remedy: "--local_hostname",
			plant: func(c *cluster) { c.segments[0].Endpoint = "127.0.0.1:17111" },
		},
		{
			name: "an address does not resolve", check: "unresolvable-address", found: "no.such.host.invalid", remedy: "IP address",
			plant: func(c *cluster) { c.segments[0].Endpoint = "no.such.host.invalid:17111" },
		},
		{
			name: "a port of the ephemeral range", check: "ephemeral-ports", found: "40000", remedy: "ip_local_reserved_ports",
			plant: func(c *cluster) { c.segments[1].Endpoint = "10.0.0.2:40000" },
		},
		{
			name: "releases that cannot be told apart", check: "mixed-releases", found: "10.0.0.3", remedy: "--rpc_port_v12",
			plant: func(c *cluster) { c.clients = append(c.clients, trainer("10.0.0.3", "0.3.12", 0)) },
		},
		{
			name: "a trainer gives memory beside a daemon", check: "trainer-segments", found: "10.0.0.1", remedy: `"global_segment_size":"0"`,
			plant: func(c *cluster) { c.clients = append(c.clients, trainer("10.0.0.1", "0.3.14", 1)) },
		},
		{
			name: "two steps do not fit", check: "segment-size", found: "100.00 GB", remedy: "--global_segment_size",
			args: []string{"--step_bytes=100GiB"},
		},
		{
			name: "nobody gives memory", check: "segment-size", found: "no segment", remedy: "mooncake-segment",
			plant: func(c *cluster) { c.segments = nil },
		},
		{
			name: "a device is missing", check: "rdma-missing", found: "mlx5_7", remedy: "/dev/infiniband",
			args: []string{"--device_names=mlx5_0,mlx5_7"},
		},
		{
			name: "a device is down", check: "rdma-down", found: "mlx5_1 carries no traffic: port 1 is DOWN", remedy: "cable",
			host: map[string]string{"sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN\n"},
		},
		{
			name: "devices of two fabrics", check: "rdma-fabric", found: "mlx5_1 is on InfiniBand", remedy: "one fabric",
			host: map[string]string{
				"sys/class/infiniband/mlx5_1/ports/1/link_layer":        "InfiniBand\n",
				"sys/class/infiniband/mlx5_1/ports/1/lid":               "0x11\n",
				"sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
				"sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0": "",
			},
		},
		{
			name: "a device without an address that is routed", check: "rdma-fabric", found: "mlx5_0 has no RoCE v2 address", remedy: "IP address",
			host: map[string]string{"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n"},
		},
		{
			name: "memory cannot be locked", check: "memlock", found: "64.00 KB", remedy: "LimitMEMLOCK=infinity",
			host: map[string]string{"proc/self/limits": "Max locked memory         65536                65536                bytes\n"},
		},
		{
			name: "the container is too small", check: "cgroup-memory", found: "32.00 GB", remedy: "memory limit",
			host: map[string]string{"sys/fs/cgroup/pod/memory.max": "34359738368\n"},
		},
	} {
		cl := scripted(t)
		if c.plant != nil {
			c.plant(cl)
		}
		code, out, errs := cl.ctl(t, host(t, c.host), append(append([]string{"doctor", "-o", "json"}, wish...), c.args...)...)
		var rows []finding
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Errorf("%s: exit %d, %v: %s%s", c.name, code, err, out, errs)
			continue
		}
		found := false
		for _, f := range rows {
			switch {
			case f.State != "mistake":
			case f.Check == c.check && strings.Contains(f.Found, c.found) && strings.Contains(f.Remedy, c.remedy):
				found = true
			default:
				t.Errorf("%s: also %+v", c.name, f)
			}
		}
		if want := map[bool]int{true: 0, false: 2}[c.check == ""]; found != (c.check != "") || code != want {
			t.Errorf("%s: exit %d, want %d: %s%s", c.name, code, want, out, errs)
		}
	}
}

// TestDoctorAdvice tells of the ports that every master has, and counts them as no mistake.
func TestDoctorAdvice(t *testing.T) {
	c := scripted(t)
	code, out, errs := c.ctl(t, host(t, map[string]string{"proc/sys/net/ipv4/ip_local_reserved_ports": "\n"}), "doctor")
	if code != 0 || strings.Count(out, "advice") != 3 || !strings.Contains(out, "ip_local_reserved_ports=50051-50054") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}
