//go:build linux && (amd64 || arm64) && !race

package rpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pacedServerEnv makes the test program a bare server of empty calls: context switches are counted per process.
const pacedServerEnv = "RPC_TEST_PACED_SERVER"

func init() {
	if os.Getenv(pacedServerEnv) != "" {
		os.Exit(pacedServer(os.Getenv(pacedServerEnv) == "std"))
	}
}

// pacedServer serves until its standard input ends.
func pacedServer(std bool) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	os.Stdout.WriteString(ln.Addr().String() + "\n")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	if NewServer(ServerConfig{Std: std}, emptyHandler{}).Serve(ctx, ln) != nil {
		return 1
	}
	return 0
}

// A peer that pauses between calls, as a wheel does, costs one context switch per call. The ordinary exit from a system
// call would wake the runtime's monitor thread and make it three.
func TestPacedCallsSwitchOnce(t *testing.T) {
	const calls = 1000
	perCall := map[string]float64{}
	for _, io := range []string{"raw", "std"} {
		perCall[io] = pacedSwitches(t, io, calls)
	}
	t.Logf("context switches per paced call: raw %.2f, std %.2f", perCall["raw"], perCall["std"])
	if perCall["raw"] > 1.5 {
		t.Errorf("%.2f context switches per paced call, want at most 1.5 (std has %.2f)", perCall["raw"], perCall["std"])
	}
}

func pacedSwitches(t *testing.T, io string, calls int) float64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pacedServerEnv+"="+io)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, strings.TrimSpace(addr), 1)
	tick := time.NewTicker(300 * time.Microsecond)
	defer tick.Stop()
	for range 100 { // start-up work of the runtime is not a call's
		<-tick.C
		c.round(t)
	}
	before := switches(t, cmd.Process.Pid)
	for range calls {
		<-tick.C
		c.round(t)
	}
	return float64(switches(t, cmd.Process.Pid)-before) / float64(calls)
}

// switches sums the voluntary context switches of all threads: those that wait, not those that lost the processor.
func switches(t *testing.T, pid int) (sum int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(status)) {
			var n int
			if _, err := fmt.Sscanf(line, "voluntary_ctxt_switches: %d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}
