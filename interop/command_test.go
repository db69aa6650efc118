package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestBadCommandLines starts each daemon with one thing wrong: it ends with code 1 and one line that names the value and the
// flag, and leaves nothing open.
func TestBadCommandLines(t *testing.T) {
	r := newRig(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	master := []string{"--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--rpc_port=0", "--metrics_port=0"}
	segment := []string{
		"--local_hostname=127.0.0.1", "--bind_address=127.0.0.1", "--http_port=0", "--global_segment_size=16MB", "--shm_dir=" + r.Dir,
	}
	for _, c := range []struct {
		program string
		args    []string
		wrong   string
		want    string // a pattern the line has to match
	}{
		{"mooncake-master", master, fmt.Sprintf("--rpc_port=%d", port), fmt.Sprintf(`%d.*--rpc_port`, port)},
		{"mooncake-master", master, fmt.Sprintf("--metrics_port=%d", port), fmt.Sprintf(`%d.*--metrics_port`, port)},
		{"mooncake-master", master, "--metrics_port=70000", `metrics_port.*70000.*65535`},
		{"mooncake-master", master, "--rpc_port=abc", `abc.*rpc_port`},
		{"mooncake-master", master, "--no_such_flag=1", `no_such_flag`},
		{"mooncake-master", master, "--default_kv_lease_ttl=5q", `5q.*default_kv_lease_ttl`},
		{"mooncake-master", master, "--rpc_default_family=15", `rpc_default_family.*15`},
		{"mooncake-master", master, "--eviction_ratio=2", `eviction_ratio.*2.*0\.\.1`},
		{"mooncake-master", master, "--rpc_address=no.such.host.invalid", `no\.such\.host\.invalid`},
		{"mooncake-segment", segment, fmt.Sprintf("--http_port=%d", port), fmt.Sprintf(`%d.*--http_port`, port)},
		{"mooncake-segment", segment, "--global_segment_size=abc", `global_segment_size.*abc`},
		{"mooncake-segment", segment, "--global_segment_size=1000TB", `global_segment_size.*1099511627776000`},
		{"mooncake-segment", segment, "--protocol=carrier-pigeon", `protocol.*carrier-pigeon.*tcp`},
		{"mooncake-segment", segment, "--metadata_server=ftp://x", `metadata_server.*ftp://x`},
		{"mooncake-segment", segment, "--local_hostname=no.such.host.invalid", `local_hostname.*no\.such\.host\.invalid`},
		{"mooncake-segment", segment, "--te_port=15500", `te_port.*15500.*15000-17000`},
		{"mooncake-segment", segment, "--data_port=13000", `data_port.*13000.*12300-14300`},
		{"mooncake-segment", segment, "--data_port=40000", `data_port.*40000.*32768-60999`},
		{"mooncake-segment", segment, "--te_port=50052", `te_port.*50052`},
	} {
		t.Run(c.program+" "+c.wrong, func(t *testing.T) {
			out := fails(t, filepath.Join(built.dir, c.program), append(c.args[:len(c.args):len(c.args)], c.wrong)...)
			// What was logged before the fault showed has a time; the complaint itself is one line.
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if last := lines[len(lines)-1]; !regexp.MustCompile(c.want).MatchString(last) {
				t.Errorf("last line %q does not match %s", last, c.want)
			}
			if strings.Contains(out, "goroutine ") {
				t.Errorf("a stack trace:\n%s", out)
			}
		})
	}
}

// fails runs a program that has to end with code 1 by itself, and answers with what it wrote.
func fails(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("ended with %v, want exit code 1; output:\n%s", err, out.String())
	}
	return out.String()
}
