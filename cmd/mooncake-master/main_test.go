package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram makes this test binary behave as the program, so that signals, exit codes and names can be seen.
const asProgram = "MOONCAKE_MASTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// call runs the program inside the test; it must end by itself.
func call(name string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(name, args, &out, &errs)
	return code, out.String(), errs.String()
}

// settings are the values that --check_config prints.
func settings(t *testing.T, args ...string) map[string]string {
	t.Helper()
	code, out, errs := call(newName, append(args, "--check_config")...)
	if code != 0 || errs != "" {
		t.Fatalf("%v: code %d, %s", args, code, errs)
	}
	all := map[string]string{}
	for _, pair := range strings.Split(strings.TrimSpace(out), ", ") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			t.Fatalf("%q in %s", pair, out)
		}
		all[key] = value
	}
	return all
}

// TestP03Spellings gives flags in every spelling, and finds the same value in what is in force.
func TestP03Spellings(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string // setting=value
	}{
		{nil, "rpc_port=50051"},
		{nil, "metrics_port=50052"},
		{nil, "rpc_port_v12=-1"},
		{nil, "client_active_ttl_sec=10"},
		{[]string{"--client_ttl=7"}, "client_active_ttl_sec=7"},
		{[]string{"--client-ttl=7"}, "client_active_ttl_sec=7"},
		{[]string{"-client_ttl=7"}, "client_active_ttl_sec=7"},
		{[]string{"-client-ttl", "7"}, "client_active_ttl_sec=7"},
		{[]string{"--client_ttl", "7"}, "client_active_ttl_sec=7"},
		{[]string{"--client_ttl=5", "--client_ttl=7"}, "client_active_ttl_sec=7"},
		{[]string{"--client_ttl=0x7"}, "client_active_ttl_sec=7"},
		{[]string{"stray", "--client_ttl=7", "words"}, "client_active_ttl_sec=7"},
		{[]string{"--default_kv_lease_ttl= 3 S "}, "default_kv_lease_ttl=3000"},
		{[]string{"--default_kv_lease_ttl=250"}, "default_kv_lease_ttl=250"},
		{[]string{"--default_kv_lease_ttl=2m"}, "default_kv_lease_ttl=120000"},
		{[]string{"--rpc_port", "0", "--metrics_port", "0"}, "rpc_port=0"},
		{[]string{"--enable_http_metadata_server"}, "enable_http_metadata_server=true"},
		{[]string{"--enable_http_metadata_server=yes"}, "enable_http_metadata_server=true"},
		{[]string{"--enable_http_metadata_server", "--noenable_http_metadata_server"}, "enable_http_metadata_server=false"},
		{[]string{"--eviction_high_watermark_ratio=0.95"}, "eviction_high_watermark_ratio=0.95"},
		{[]string{"--rpc_default_family=12"}, "rpc_default_family=12"},
		{[]string{"--rpc_port_v12=50061"}, "rpc_port_v12=50061"},
		{[]string{"--rpc_address=::1"}, "rpc_address=::1"},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=h:1,g:2", "--cluster_id=c"}, "ha_backend_connstring=h:1;g:2"},
		{[]string{"--no_such_flag=1", "--undefok=no_such_flag"}, "rpc_port=50051"},
		{nil, "bundle_staging_idle_sec=120"},
		{nil, "hide_damaged_bundles=false"},
		{[]string{"--bundle_staging_idle_sec=0"}, "bundle_staging_idle_sec=0"},
		{[]string{"--hide-damaged-bundles"}, "hide_damaged_bundles=true"},
		{[]string{"--bundle_retention", "miles-object-store:24h:9,:300s:"}, "bundle_retention=miles-object-store:24h:9,:5m:"},
		{[]string{"--bundle_retention="}, "bundle_retention="},
		{[]string{"--workloads_file=../../deploy/workloads.yaml"}, "workloads_file=../../deploy/workloads.yaml"},
		{[]string{"--put_start_discard_timeout_sec=5", "--put_start_release_timeout_sec=9"}, "put_start_release_timeout_sec=9"},
	} {
		key, value, _ := strings.Cut(tc.want, "=")
		if got := settings(t, tc.args...)[key]; got != value {
			t.Errorf("%q: %s=%s, want %s", tc.args, key, got, value)
		}
	}
}

// TestP03BadCommandLines gives one thing wrong at a time: code 1, one line with the flag, no stack.
func TestP03BadCommandLines(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []string // all in the one line
	}{
		{[]string{"--rpc_port=99999"}, []string{"rpc_port", "99999", "65535"}},
		{[]string{"--rpc_port=-1"}, []string{"rpc_port", "-1"}},
		{[]string{"--rpc_port=abc"}, []string{"rpc_port", "abc"}},
		{[]string{"--rpc_port="}, []string{"rpc_port"}},
		{[]string{"--rpc_port"}, []string{"rpc_port", "missing"}},
		{[]string{"--metrics_port=70000"}, []string{"metrics_port", "70000"}},
		{[]string{"--rpc_port_v12=50051"}, []string{"--rpc_port", "--rpc_port_v12", "same port"}},
		{[]string{"--metrics_port=50051"}, []string{"--rpc_port", "--metrics_port", "same port"}},
		{[]string{"--no_such_flag=1"}, []string{"no_such_flag"}},
		{[]string{"--rpc_default_family=15"}, []string{"rpc_default_family", "15"}},
		{[]string{"--io=uring"}, []string{"io", "uring", "raw"}},
		{[]string{"--eviction_high_watermark_ratio=1.5"}, []string{"eviction_high_watermark_ratio", "1.5"}},
		{[]string{"--eviction_ratio=NaN"}, []string{"eviction_ratio", "NaN"}},
		{[]string{"--eviction_ratio=much"}, []string{"eviction_ratio", "much"}},
		{[]string{"--default_kv_lease_ttl=5q"}, []string{"default_kv_lease_ttl", "5q"}},
		{[]string{"--default_kv_lease_ttl=1.5s"}, []string{"default_kv_lease_ttl", "1.5s"}},
		{[]string{"--default_kv_lease_ttl=-5"}, []string{"default_kv_lease_ttl", "-5"}},
		{[]string{"--client_ttl=0"}, []string{"client_ttl"}},
		{[]string{"--client_ttl=-3"}, []string{"client_ttl", "-3"}},
		{[]string{"--put_start_release_timeout_sec=30"}, []string{"put_start_release_timeout_sec", "put_start_discard_timeout_sec"}},
		{[]string{"--default_kv_soft_pin_ttl=48h"}, []string{"default_kv_soft_pin_ttl", "max_kv_soft_pin_ttl"}},
		{[]string{"--enable_http_metadata_server=maybe"}, []string{"enable_http_metadata_server", "maybe"}},
		{[]string{"--rpc_conn_timeout_seconds=99999999999"}, []string{"rpc_conn_timeout_seconds", "99999999999"}},
		{[]string{"--bundle_staging_idle_sec=-1"}, []string{"bundle_staging_idle_sec", "-1"}},
		{[]string{"--bundle_retention=eval"}, []string{"bundle_retention", "eval", "PREFIX:AGE:COUNT"}},
		{[]string{"--bundle_retention=eval:1.5h:"}, []string{"bundle_retention", "1.5h"}},
		{[]string{"--bundle_retention=eval::-1"}, []string{"bundle_retention", "-1"}},
		{[]string{"--bundle_retention=eval::"}, []string{"bundle_retention", "eval::", "neither"}},
		{[]string{"--bundle_retention=eval::1,eval:1h:"}, []string{"bundle_retention", "eval", "two rules"}},
		{[]string{"--workloads_file=/no/such/file"}, []string{"workloads_file", "/no/such/file"}},
		{[]string{"--workloads_file=main.go"}, []string{"workloads_file", "main.go", "line "}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1"}, []string{"enable_ha", "ha_backend_connstring", "etcd_endpoints"}},
		{[]string{"--ha_ack=later"}, []string{"ha_ack", "later", "durable", "async"}},
		{[]string{"--enable_ha", "--ha_backend_connstring=127.0.0.1:1"}, []string{"--rpc_address=0.0.0.0", "enable_ha"}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=a:b"}, []string{"ha_backend_connstring", "a:b"}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=h:1", "--ha_backend_type=redis"}, []string{"ha_backend_type", "redis", "etcd"}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=h:1", "--ha_leader_lease_ttl_sec=61"}, []string{"ha_leader_lease_ttl_sec", "61", "2..60"}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=h:1", "--cluster_id=/"}, []string{"cluster_id", "/"}},
		{[]string{"--enable_ha", "--rpc_address=127.0.0.1", "--etcd_endpoints=h:1", "--data_dir=/tmp/x"}, []string{"data_dir", "/tmp/x", "enable_ha"}},
		{[]string{"--port=70000"}, []string{"port", "70000", "65535"}},
		{[]string{"--rpc_interface=no.such.nic"}, []string{"rpc_interface", "no.such.nic"}},
		{[]string{"--log_level=loud"}, []string{"log_level", "loud", "debug"}},
		{[]string{"--allocation_strategy=bogus"}, []string{"allocation_strategy", "bogus", "random"}},
		{[]string{"--memory_allocator=none"}, []string{"memory_allocator", "none", "offset"}},
		{[]string{"--enable_cxl=maybe"}, []string{"enable_cxl", "maybe"}},
		{[]string{"--nof_eviction_ratio=much"}, []string{"nof_eviction_ratio", "much"}},
		{[]string{"--snapshot_retention_count=-1"}, []string{"snapshot_retention_count", "-1"}},
		{[]string{"--max_threads=many"}, []string{"max_threads", "many"}},
		{[]string{"--noclient_ttl"}, []string{"client_ttl"}},
		{[]string{"--rpc_allow_from=here"}, []string{"rpc_allow_from", "here", "10.0.0.0/8"}},
		{[]string{"--rpc_allow_from=10.1.2.3/8"}, []string{"rpc_allow_from", "10.1.2.3/8", "10.0.0.0/8"}},
		{[]string{"--admin_tokens_file=/no/such/file"}, []string{"admin_tokens_file", "/no/such/file"}},
		{[]string{"--grpc_tokens_file=main.go"}, []string{"grpc_tokens_file", "main.go", "line 1"}},
		{[]string{"--grpc_allow_from=10.0.0.1/8"}, []string{"grpc_allow_from", "10.0.0.1/8", "10.0.0.0/8"}},
		{[]string{"--admin_tokens_file=main.go"}, []string{"admin_tokens_file", "main.go", "line 1"}},
		{[]string{"--admin_tls_cert=main.go"}, []string{"admin_tls_key"}},
		{[]string{"--admin_tls_key=main.go"}, []string{"admin_tls_cert"}},
		{[]string{"--admin_tls_cert=main.go", "--admin_tls_key=main.go"}, []string{"admin_tls_cert", "main.go"}},
		{[]string{"--config_path=/no/such/file.yaml"}, []string{"config_path", "/no/such/file.yaml"}},
		{[]string{"--config_path=main.go"}, []string{"config_path", "main.go", ".json"}},
		{[]string{"--flagfile=/no/such/file"}, []string{"/no/such/file"}},
		{[]string{"--fromenv=client_ttl"}, []string{"FLAGS_client_ttl"}},
		{[]string{"--ports_file=/no/such/folder/ports", "--rpc_port=0", "--metrics_port=0"}, []string{"ports_file", "/no/such/folder/ports"}},
		{[]string{"--rpc_address=no.such.host.invalid", "--rpc_port=0", "--metrics_port=0"}, []string{"rpc_address", "no.such.host.invalid"}},
		{[]string{"--metrics_host=no.such.host.invalid", "--rpc_port=0", "--metrics_port=0"}, []string{"metrics_host", "no.such.host.invalid"}},
	} {
		code, out, errs := call(newName, tc.args...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "ERROR: ") || strings.Contains(errs, "goroutine") {
			t.Errorf("%q: code %d, stdout %q, stderr %q", tc.args, code, out, errs)
		}
		for _, w := range tc.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%q: no %q in %q", tc.args, w, errs)
			}
		}
	}
}

// TestCheckConfigReadsBack gives every printed setting as a flag and gets the same settings.
func TestCheckConfigReadsBack(t *testing.T) {
	_, first, _ := call(newName, "--check_config", "--rpc_port=1", "--metrics_port=2", "--client_ttl=99", "--io=std", "--ports_file=/tmp/p", "--rpc_enable_tcp_no_delay=false")
	args := []string{"--check_config"}
	for _, pair := range strings.Split(strings.TrimSpace(first), ", ") {
		args = append(args, "--"+pair)
	}
	if code, second, errs := call(newName, args...); code != 0 || second != first {
		t.Errorf("code %d, %s\n%s\n%s", code, errs, first, second)
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, name := range []string{newName, oldName} {
		if code, out, errs := call(name, "--version"); code != 0 || !strings.HasPrefix(out, name+" version ") || errs != "" {
			t.Errorf("version of %s: code %d, %q, %q", name, code, out, errs)
		}
		code, out, errs := call(name, "--help")
		if code != 1 || errs != "" { // 1 as the published programs
			t.Errorf("help of %s: code %d, %q", name, code, errs)
		}
		for _, flag := range []string{"rpc_port_v12", "rpc_default_family", "ports_file", "check_config", "metrics_port", "default_kv_lease_ttl"} {
			if !strings.Contains(out, flag) {
				t.Errorf("help of %s: no %s", name, flag)
			}
		}
	}
}

// program is the running program, started under some name.
type program struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	seen  []string
}

func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.CommandContext(t.Context(), path, args...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(pipe)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended already, or the test failed
		_ = p.cmd.Wait()
	})
	return p
}

// onLoopback are arguments that take free ports of this host.
func onLoopback(more ...string) []string {
	return append([]string{"--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--rpc_port", "0", "--metrics_port", "0", "--grpc_port=0"}, more...)
}

// until reads the log up to a line with the word.
func (p *program) until(t *testing.T, word string) string {
	t.Helper()
	for p.lines.Scan() {
		p.seen = append(p.seen, p.lines.Text())
		if strings.Contains(p.lines.Text(), word) {
			return p.lines.Text()
		}
	}
	t.Fatalf("no line with %q in %q", word, p.seen)
	return ""
}

// end reads the log to its end and returns the exit code.
func (p *program) end(t *testing.T) int {
	t.Helper()
	for p.lines.Scan() {
		p.seen = append(p.seen, p.lines.Text())
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// setting finds a value in the start line.
func setting(t *testing.T, line, key string) string {
	t.Helper()
	m := regexp.MustCompile(`[ \t]` + key + `=([^,\s]*)`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no %s in %s", key, line)
	}
	return m[1]
}

// TestStartServeStop starts the program with free ports, finds them in the log and in the file, and stops it by signals.
func TestStartServeStop(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		file := filepath.Join(t.TempDir(), "ports")
		p := start(t, newName, onLoopback("--rpc_port_v12=0", "--enable_http_metadata_server", "--http_metadata_server_host=127.0.0.1",
			"--http_metadata_server_port=0", "--ports_file="+file)...)
		line := p.until(t, "Master service started on port ")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ports := map[string]int{}
		if err := json.Unmarshal(text, &ports); err != nil {
			t.Fatal(err)
		}
		for key, port := range ports {
			if key == "grpc_port" && port == 0 {
				continue // there is none
			}
			if port == 0 || setting(t, line, key) != fmt.Sprint(port) {
				t.Errorf("%s=%d in the file, %s in the log", key, port, setting(t, line, key))
			}
			c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			_ = c.Close()
		}
		if len(ports) != 5 {
			t.Errorf("the ports file is %s", text)
		}
		resp, err := http.Get("http://127.0.0.1:" + setting(t, line, "metrics_port") + "/health")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		_ = resp.Body.Close()
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t); code != 0 {
			t.Errorf("code %d after %v: %q", code, signal, p.seen)
		}
		if last := p.seen[len(p.seen)-1]; !strings.Contains(last, "Shutdown signal received") {
			t.Errorf("last line %q", last)
		}
	}
}

// TestP08Names looks at what the name the program is called by decides.
func TestP08Names(t *testing.T) {
	for name, port := range map[string]string{newName: "50052", oldName: "9003"} {
		code, out, errs := call(name, "--check_config")
		if code != 0 || !strings.Contains(out, "metrics_port="+port+",") {
			t.Errorf("%s: code %d, %s%s", name, code, out, errs)
		}
		p := start(t, name, onLoopback()...)
		p.until(t, "Master service started")
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.cmd.Process.Pid))
		if err != nil || strings.TrimSpace(string(comm)) != name[:min(len(name), 15)] {
			t.Errorf("%s is called %q, %v", name, comm, err)
		}
	}
}

// launchersPatience is far above the tenth of a second it takes, even where a machine has much else to do.
const launchersPatience = time.Minute

// TestP01BusyPorts is what once cost launchers half a minute: the call port must never open when another cannot.
func TestP01BusyPorts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	for _, flag := range []string{"--metrics_port", "--http_metadata_server_port", "--rpc_port_v12", "--rpc_port"} {
		rpc := freePort(t)
		args := []string{
			"--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--metrics_port=0", fmt.Sprint("--rpc_port=", rpc),
			"--enable_http_metadata_server", "--http_metadata_server_host=127.0.0.1", "--http_metadata_server_port=0", fmt.Sprint(flag, "=", port),
		}
		stop, opened := make(chan struct{}), make(chan bool)
		go func() {
			seen := false
			for {
				select {
				case <-stop:
					opened <- seen
					return
				default:
				}
				if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", rpc)); err == nil {
					seen = true
					_ = c.Close()
				}
			}
		}()
		began := time.Now()
		p := start(t, newName, args...)
		code := p.end(t)
		if took := time.Since(began); code != 1 || took > launchersPatience {
			t.Errorf("%s: code %d after %v", flag, code, took)
		}
		close(stop)
		if <-opened {
			t.Errorf("%s is taken, yet the call port was open", flag)
		}
		if len(p.seen) == 0 {
			t.Fatalf("%s: not a word", flag)
		}
		last := p.seen[len(p.seen)-1]
		for _, want := range []string{fmt.Sprint(port), "in use", flag} {
			if !strings.Contains(last, want) {
				t.Errorf("%s: no %q in %q", flag, want, last)
			}
		}
		if len(p.seen) != 1 {
			t.Errorf("%s: %d lines: %q", flag, len(p.seen), p.seen)
		}
	}
}

// freePort finds a port below those the system gives to connections that somebody might open meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 20_000 + os.Getpid()%5000; port < 32_000; port++ {
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// TestP08Probes connects and closes a thousand times: no word in the log, no descriptor left.
func TestP08Probes(t *testing.T) {
	t.Setenv("GOGC", "10") // what is no longer used goes at once: what is left is what probes take
	p := start(t, oldName, onLoopback()...)
	line := p.until(t, "Master service started")
	port, metrics := setting(t, line, "rpc_port"), setting(t, line, "metrics_port")
	probe := func(n int) {
		for range n {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
	}
	files := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	probe(1000)           // once through everything, until the memory that is used again and again is there
	ownMemory(t, metrics) // the connection to ask on stays
	before := files()
	var grown int64
	for range 10 { // a collection of garbage may be late; what is never given back shows every time
		memory := ownMemory(t, metrics)
		probe(1000)
		if grown = ownMemory(t, metrics) - memory; grown < 1<<20 {
			break
		}
	}
	if grown >= 1<<20 {
		t.Errorf("a thousand probes take %d KiB, every time", grown>>10)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(60 * time.Second); files() > before; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d descriptors, %d before", files(), before)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != 0 || len(p.seen) != 2 {
		t.Errorf("code %d, log %q", code, p.seen)
	}
}

// ownMemory is what a master holds for its data and its goroutines, as it says itself. What the process takes is no measure
// here: the race detector, with which this very program may be built, takes more with every goroutine there ever was.
func ownMemory(t *testing.T, metricsPort string) (bytes int64) {
	t.Helper()
	resp, err := http.Get("http://127.0.0.1:" + metricsPort + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^mooncake_go_memstats_(?:heap|stack)_inuse_bytes (\S+)$`).FindAllSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("the master says %q of its memory", found)
	}
	for _, m := range found {
		f, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes += int64(f)
	}
	return bytes
}

// TestLogReaderLeaves closes the other end of the log: the master goes on and still ends as it should.
func TestLogReaderLeaves(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ports")
	cmd := exec.CommandContext(t.Context(), os.Args[0], onLoopback("--ports_file="+file)...)
	cmd.Env, cmd.Stderr, cmd.Stdout = append(os.Environ(), asProgram+"=1"), w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	first := bufio.NewScanner(r)
	if !first.Scan() {
		t.Error("not a word")
	}
	_ = r.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // it says goodbye, to nobody
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}
