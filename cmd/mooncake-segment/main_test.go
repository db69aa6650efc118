package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooncake/internal/gflag"
)

// asProgram makes this test binary behave as the program, so that signals and exit codes can be seen.
const asProgram = "MOONCAKE_SEGMENT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Exit(run(name, os.Args[1:], os.LookupEnv))
	}
	os.Exit(m.Run())
}

// program starts the program; its environment has nothing of the tester's own MOONCAKE variables.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MOONCAKE_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, asProgram+"="+name)
	return cmd
}

// daemon is a running program whose log is read.
type daemon struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	args = append([]string{
		"--master_server_address=127.0.0.1:1", "--local_hostname=127.0.0.1", "--bind_address=127.0.0.1",
		"--global_segment_size=1mb", "--http_port=0",
	}, args...)
	d := &daemon{cmd: program(t, "mooncake-segment", args...)}
	pipe, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewScanner(pipe)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// until reads the log up to a line with the word and returns that line.
func (d *daemon) until(t *testing.T, word string) string {
	t.Helper()
	var seen []string
	for d.lines.Scan() {
		seen = append(seen, d.lines.Text())
		if strings.Contains(d.lines.Text(), word) {
			return d.lines.Text()
		}
	}
	t.Fatalf("no line with %q in %q", word, seen)
	return ""
}

// end sends a signal, reads the log to its end and gives the exit code.
func (d *daemon) end(t *testing.T, s os.Signal) (code int) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for d.lines.Scan() {
	}
	err := d.cmd.Wait()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%v took %v", s, took)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return d.cmd.ProcessState.ExitCode()
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
		files  int
	}{
		"leave":           {syscall.SIGTERM, 0, 0},
		"leave by hand":   {syscall.SIGINT, 0, 0},
		"make way":        {syscall.SIGUSR1, 0, 2},
		"killed, no word": {syscall.SIGKILL, -1, 3}, // the socket as well, which the next start opens anew
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := startDaemon(t, "--shm_dir="+dir)
			first := d.until(t, "serving")
			if code := d.end(t, c.signal); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if n := files(t, dir); n != c.files {
				t.Errorf("%d files, want %d", n, c.files)
			}
			if c.files == 0 {
				return
			}
			d = startDaemon(t, "--shm_dir="+dir)
			d.until(t, "taking up")
			again := d.until(t, "serving")
			for _, part := range []string{`"endpoint": `, `"data_port": `, `"base": `, `"arena": `} {
				if field(first, part) != field(again, part) || field(first, part) == "" {
					t.Errorf("%s was %q, is %q", part, field(first, part), field(again, part))
				}
			}
			d.end(t, syscall.SIGTERM)
		})
	}
}

// field cuts the value behind a name out of a log line.
func field(line, name string) string {
	_, rest, _ := strings.Cut(line, name)
	value, _, _ := strings.Cut(rest, ",")
	return strings.TrimRight(value, "}")
}

func TestPortsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ports")
	d := startDaemon(t, "--shm_dir="+t.TempDir(), "--ports_file="+path)
	line := d.until(t, "serving")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"te_port", "data_port", "http_port"} {
		if want := `"` + name + `":` + field(line, `"`+name+`": `); !strings.Contains(string(text), want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	d.end(t, syscall.SIGTERM)
}

// TestP03Refusals: each ends with code 1 and one line that names what is wrong.
func TestP03Refusals(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	shm := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"size":              {[]string{"--global_segment_size=abc"}, []string{"--global_segment_size", `"abc"`}},
		"size 0":            {[]string{"--global_segment_size=0"}, []string{"--global_segment_size is 0"}},
		"size too much":     {[]string{"--global_segment_size=1000gb"}, []string{"memory available", "cgroup limit", "free in"}},
		"host":              {[]string{"--local_hostname=no.such.host.invalid"}, []string{"--local_hostname=no.such.host.invalid"}},
		"busy port":         {[]string{fmt.Sprintf("--http_port=%d", port), "--bind_address=127.0.0.1"}, []string{fmt.Sprint(port), "in use", "--http_port"}},
		"te port":           {[]string{"--te_port=13000"}, []string{"--te_port=13000", "12300-14300"}},
		"data port":         {[]string{"--data-port=50052"}, []string{"--data_port=50052"}},
		"protocol":          {[]string{"--protocol", "udp"}, []string{"--protocol=udp", "tcp or rdma"}},
		"device, checked":   {[]string{"--check_config", "--protocol=rdma", "--device_name=nonesuch"}, []string{"--protocol=rdma"}},
		"unknown flag":      {[]string{"--nonesuch=1"}, []string{"nonesuch"}},
		"not a number":      {[]string{"--http_port=abc"}, []string{"http_port", "abc"}},
		"level":             {[]string{"--log_level=loud"}, []string{"--log_level=loud"}},
		"buffer":            {[]string{"--data_sndbuf=1tb"}, []string{"--data_sndbuf"}},
		"local buffer":      {[]string{"--data_sndbuf_local=1tb"}, []string{"--data_sndbuf_local"}},
		"metadata":          {[]string{"--metadata_server=redis://h:1"}, []string{"--metadata_server"}},
		"etcd's files":      {[]string{"--etcd_cacert=/nonexistent/ca.pem"}, []string{"--etcd_cacert", "/nonexistent/ca.pem"}},
		"etcd's user":       {[]string{"--etcd_user=u"}, []string{"--etcd_user=u", "--etcd_password_file", "MOONCAKE_ETCD_PASSWORD"}},
		"networks":          {[]string{"--peer_allow_from=10.0.0.1/8"}, []string{"--peer_allow_from", "10.0.0.1/8", "10.0.0.0/8"}},
		"idle number":       {[]string{"--threads=many"}, []string{"threads", "many"}},
		"idle switch":       {[]string{"--enable_offload=maybe"}, []string{"enable_offload", "maybe"}},
		"log flag":          {[]string{"--minloglevel=x"}, []string{"minloglevel", "x"}},
		"slice":             {[]string{"--sched_slice_us=99"}, []string{"--sched_slice_us=99", "100 to 100000"}},
		"slice, checked":    {[]string{"--check_config", "--sched_slice_us=100001"}, []string{"--sched_slice_us=100001", "100 to 100000"}},
		"no file":           {[]string{"--config_path=/no/such/file.json"}, []string{"--config_path=/no/such/file.json"}},
		"no argument":       {[]string{"--segment_name"}, []string{"segment_name", "missing"}},
		"not a switch":      {[]string{"--nohttp_port"}, []string{"http_port"}},
		"level, checked":    {[]string{"--check_config", "--log_level=loud"}, []string{"--log_level=loud"}},
		"metadata, checked": {[]string{"--check_config", "--metadata_server=h:99999"}, []string{"--metadata_server", "99999"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--local_hostname=127.0.0.1", "--shm_dir=" + shm, "--http_port=0"}, c.args...)
			cmd := program(t, "mooncake-segment", args...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("exit code %d, %v", cmd.ProcessState.ExitCode(), err)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			for _, w := range c.want {
				if !strings.Contains(lines[len(lines)-1], w) {
					t.Errorf("last line %q lacks %q", lines[len(lines)-1], w)
				}
			}
			if len(lines) > 2 || strings.Contains(string(out), "goroutine") {
				t.Errorf("%d lines: %s", len(lines), out)
			}
		})
	}
	if n := files(t, shm); n != 0 {
		t.Errorf("%d files left", n)
	}
}

func TestCheckConfigTouchesNothing(t *testing.T) {
	shm := t.TempDir()
	for _, spelling := range [][]string{
		{"--global_segment_size=2gb"},
		{"-global_segment_size", "2gb"},
		{"--global-segment-size", "2gb"},
		{"-global-segment-size=2gb"},
	} {
		cmd := program(t, "mooncake-segment", append(spelling, "--check_config", "--local_hostname=127.0.0.1", "--shm_dir="+shm)...)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "--global_segment_size=2147483648") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: %v, %q", spelling, err, out)
		}
	}
	if n := files(t, shm); n != 0 {
		t.Errorf("%d files made", n)
	}
}

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		program string
		args    []string
		env     map[string]string
		want    []string // parts of the effective configuration
		note    string   // part of one of the notes
	}{
		"defaults": {"mooncake-segment", []string{"--host=h"}, nil, []string{
			"--master_server_address=127.0.0.1:50051", "--global_segment_size=8589934592", "--metadata_server=P2PHANDSHAKE", "--http_port=9300", "--protocol=tcp",
		}, ""},
		"as the client": {"mooncake_client", []string{"--host=h"}, nil, []string{
			"--global_segment_size=4294967296", "--metadata_server=http://127.0.0.1:8080/metadata", "--http_port=-1",
		}, ""},
		"the client's http": {"mooncake_client", []string{"--host=h", "--enable_http_server", "--http_port=9301"}, nil, []string{"--http_port=9301"}, ""},
		"host is an alias":  {"mooncake-segment", []string{"--host=a", "--local_hostname=b"}, nil, []string{"--local_hostname=b"}, ""},
		"device alias":      {"mooncake-segment", []string{"--host=h", "--device_name=mlx5_0"}, nil, []string{"--device_names=mlx5_0"}, "--device_name=mlx5_0 (only with --protocol=rdma)"},
		"congestion":        {"mooncake-segment", []string{"--host=h", "--tcp_congestion_control=reno"}, nil, []string{"--tcp_congestion_control=reno"}, ""},
		"congestion alias":  {"mooncake-segment", []string{"--host=h", "--data_cc=reno"}, nil, []string{"--tcp_congestion_control=reno"}, ""},
		"environment": {"mooncake-segment", nil, map[string]string{
			"MOONCAKE_MASTER": "10.0.0.9:50051", "MOONCAKE_LOCAL_HOSTNAME": "10.0.0.1", "MOONCAKE_TE_META_DATA_SERVER": "etcd://e:2379",
			"MOONCAKE_PROTOCOL": "tcp", "MOONCAKE_DEVICE": "mlx5_1", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "512MB",
		}, []string{
			"--master_server_address=10.0.0.9:50051", "--local_hostname=10.0.0.1", "--metadata_server=etcd://e:2379",
			"--device_names=mlx5_1", "--global_segment_size=536870912",
		}, "comes from MOONCAKE_MASTER"},
		"by etcd": {"mooncake-segment", []string{"--host=h", "--master_server_address=etcd://a:1,b"}, map[string]string{"MC_STORE_CLUSTER_ID": "blue"}, []string{
			"--master_server_address=etcd://a:1,b", "--cluster_id=blue",
		}, "comes from MC_STORE_CLUSTER_ID"},
		"by etcd, flags": {"mooncake-segment", []string{"--host=h", "--master_server_address=etcd://a:1", "--cluster_id=red"}, map[string]string{"MC_STORE_CLUSTER_ID": "blue"}, []string{
			"--cluster_id=red",
		}, ""},
		"etcd, guarded": {"mooncake-segment", []string{"--host=h", "--etcd_cacert=system", "--etcd_user=u"}, map[string]string{"MOONCAKE_ETCD_PASSWORD": "secret"}, []string{
			"--etcd_cacert=system", "--etcd_user=u",
		}, ""},
		"flags win": {"mooncake-segment", []string{"--host=h", "--global_segment_size=1GiB"}, map[string]string{
			"MOONCAKE_LOCAL_HOSTNAME": "other", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "512MB",
		}, []string{"--local_hostname=h", "--global_segment_size=1073741824"}, ""},
		"networks":      {"mooncake-segment", []string{"--host=h", "--peer_allow_from=10.0.0.0/8, ::1"}, nil, []string{"--peer_allow_from=10.0.0.0/8,::1"}, ""},
		"all at once":   {"mooncake_client", []string{"--host=h", "--threads=8", "--port=1", "--v=1", "--cluster_id=c", "--http_port=9"}, nil, nil, "without effect: --port (dummy clients are not served), --threads (every connection has its own goroutine), --v (use --log_level), --cluster_id=c (only with --master_server_address=etcd://…), --http_port=9 (only with --enable_http_server)"},
		"no effect":     {"mooncake_client", []string{"--host=h", "--threads=8"}, nil, nil, "--threads (every connection"},
		"any address":   {"mooncake_client", []string{"--host=0.0.0.0"}, nil, []string{"--local_hostname=" + ownAddress()}, "names no host"},
		"fixed ports":   {"mooncake-segment", []string{"--host=h", "--te_port=18000", "--data_port=18001"}, nil, []string{"--te_port=18000", "--data_port=18001"}, ""},
		"socket values": {"mooncake-segment", []string{"--host=h", "--data_rcvlowat=0", "--data_sndbuf=64KiB", "--data_sndbuf_local=1MiB", "--io=std"}, nil, []string{"--data_rcvlowat=0", "--data_sndbuf=65536", "--data_sndbuf_local=1048576", "--io=std"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOptions(c.program)
			look := func(key string) (string, bool) { v, ok := c.env[key]; return v, ok }
			if _, err := gflag.Parse(o.flags, c.args, gflag.Program{Name: c.program, LookupEnv: look}); err != nil {
				t.Fatal(err)
			}
			cfg, notes, err := o.config(look)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(cfg.String()+" ", w+" ") {
					t.Errorf("%q lacks %q", cfg, w)
				}
			}
			if !strings.Contains(strings.Join(notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", notes, c.note)
			}
		})
	}
}

// TestConfigReadsBack: what the log says is in force can be given to a daemon again.
func TestConfigReadsBack(t *testing.T) {
	read := func(args []string) string {
		o := newOptions("mooncake-segment")
		none := func(string) (string, bool) { return "", false }
		if _, err := gflag.Parse(o.flags, args, gflag.Program{Name: "mooncake-segment", LookupEnv: none}); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := o.config(none)
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		return cfg.String()
	}
	for _, args := range [][]string{
		{"--host=10.0.0.1"},
		{"--host=[::1]:18000", "--data_port=18001", "--segment_name=n", "--prefault", "--hugepages=off", "--io=std", "--fresh", "--noenable_http_server"},
		{"--host=h", "--master_server_address=etcd://a:1;b:2", "--cluster_id=red"},
		{"--host=h", "--state_dir=/tmp", "--ports_file=/tmp/p", "--bind_address=127.0.0.1", "--device_names=a,b", "--task_workers=9", "--data_sndbuf=0"},
	} {
		text := read(args)
		if again := read(strings.Fields(text)); again != text {
			t.Errorf("%q became %q", text, again)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	for flag, want := range map[string]struct {
		code int
		text string
	}{"--version": {0, "version"}, "--help": {1, "global_segment_size"}} {
		cmd := program(t, "mooncake-segment", flag)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != want.code || !strings.Contains(string(out), want.text) {
			t.Errorf("%s: %v, %q", flag, err, out)
		}
	}
}
