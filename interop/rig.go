package interop

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed testdata/*.py
var scripts embed.FS

// stopGrace is how long a daemon or client may take to leave; a wheel waits up to 10 s for a master that is gone.
const stopGrace = 15 * time.Second

// startLimit is how long a daemon may take until it listens, on a machine busy with other tests.
const startLimit = 40 * time.Second

// Rig starts processes and stops all of them at the end, in reverse order.
type Rig struct {
	// Binaries is the folder with our daemons.
	Binaries string
	// OriginalMaster and OriginalSegment, when set, run the daemons of a release in place of ours: what they do in a test is
	// what ours have to do.
	OriginalMaster, OriginalSegment Release
	// Dir is a scratch folder.
	Dir string

	// Slow multiplies the limits of starting, asking and stopping; zero is 1. An emulated machine wants more.
	Slow int

	// Output, if set, gets a copy of what the daemons write.
	Output io.Writer

	memory  string // folder for arenas
	ports   *Ports
	closing sync.Mutex // held by Close throughout; taken before mu
	mu      sync.Mutex // guards what follows
	procs   []*Process
	clients []*Client
	streams map[string]int // gRPC port of each of our masters, by its address for calls
}

// NewRig makes a rig with a scratch folder of its own inside dir.
func NewRig(dir string) (*Rig, error) {
	scratch, err := os.MkdirTemp(dir, "rig-")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"worker.py", "values.py", "rollout.py"} {
		text, err := scripts.ReadFile("testdata/" + name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(scratch, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	memory, err := memoryDir(scratch)
	if err != nil {
		return nil, err
	}
	return &Rig{Dir: scratch, memory: memory, ports: new(Ports)}, nil
}

// enoughMemoryBytes is the room in the shared memory file system below which arenas lie in the scratch folder instead:
// containers often come with 64 MiB of it.
const enoughMemoryBytes = 2 << 30

// memoryDir makes a folder for arenas that is this rig's own: what a killed daemon leaves is taken up by nobody else.
func memoryDir(scratch string) (string, error) {
	const shm = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enoughMemoryBytes {
		return os.MkdirTemp(scratch, "arenas-")
	}
	return os.MkdirTemp(shm, "mooncake-rig-")
}

// BuildDaemons compiles the named ones of our daemons into dir; race adds the race detector.
// Without libibverbs-dev they come out without RDMA, which the demo does not need.
func BuildDaemons(ctx context.Context, dir string, race bool, names ...string) error {
	root, err := ModuleRoot()
	if err != nil || len(names) == 0 {
		return err
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if race {
		args = append(args, "-race")
	}
	if !HaveVerbs() {
		args = append(args, "-tags=nordma")
	}
	for _, n := range names {
		args = append(args, "./cmd/"+n)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, lastLines(out, 20))
	}
	return nil
}

// Close stops every process of the rig: clients first, since they take their leave from the daemons.
// A second call waits for the first and has nothing to do.
func (r *Rig) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	r.mu.Lock()
	procs, clients := r.procs, r.clients
	r.procs, r.clients = nil, nil
	r.mu.Unlock()
	var errs []error
	var leaving sync.WaitGroup
	for _, c := range clients {
		leaving.Go(func() { _ = c.Close() }) // a test may have killed it on purpose
	}
	leaving.Wait()
	for i := len(procs) - 1; i >= 0; i-- {
		errs = append(errs, procs[i].Stop(r.slow(stopGrace)))
	}
	return errors.Join(append(errs, os.RemoveAll(r.memory), os.RemoveAll(r.Dir))...)
}

// Logs writes the end of every process's output, for a failed test.
func (r *Rig) Logs(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		fmt.Fprintf(w, "--- %s (pid %d)\n%s\n", p.Name, p.Pid(), lastLines([]byte(p.Log()), 25))
	}
	for _, c := range r.clients {
		fmt.Fprintf(w, "--- %s (pid %d)\n%s\n", c.proc.Name, c.Pid(), lastLines([]byte(c.Log()), 25))
	}
}

// slow is a limit as this rig counts it.
func (r *Rig) slow(limit time.Duration) time.Duration { return limit * time.Duration(max(1, r.Slow)) }

// Start runs a program until Close.
func (r *Rig) Start(name string, cmd *exec.Cmd) (*Process, error) {
	p, err := startProcess(name, cmd, r.Output)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.procs = append(r.procs, p)
	return p, nil
}

// TakePorts hands out n free ports.
func (r *Rig) TakePorts(n int) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		port, err := r.ports.Take()
		if err != nil {
			return nil, err
		}
		out[i] = port
	}
	return out, nil
}

// StartClient starts a process with the wheel of a release; env adds NAME=value settings.
func (r *Rig) StartClient(release Release, env ...string) (*Client, error) {
	wheel, ok := OpenEnvironment(release)
	if !ok {
		return nil, fmt.Errorf("the wheel %s is not set up", release.Version())
	}
	c, err := startClient(wheel, filepath.Join(r.Dir, "worker.py"), env...)
	if err != nil {
		return nil, err
	}
	return r.keep(c), nil
}

// StartWorker starts another program that takes and answers lines of JSON as the worker inside a client does. A script in Python
// finds the module rollout, of which the content of bundles comes, in the rig's folder.
func (r *Rig) StartWorker(name string, cmd *exec.Cmd) (*Client, error) {
	c, err := startWorker(name, cmd)
	if err != nil {
		return nil, err
	}
	return r.keep(c), nil
}

// keep notes a client, so that Close ends it.
func (r *Rig) keep(c *Client) *Client {
	c.Limit, c.grace = r.slow(DefaultCallLimit), r.slow(leaveLimit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c
}

// Script runs a program in Python with the wheel.
func (e *Environment) Script(path string) *exec.Cmd {
	cmd := exec.Command(e.Python, "-u", path)
	cmd.Env = e.environ()
	return cmd
}

// program is one of the wheel's own executables.
func (e *Environment) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(e.Package, name), args...)
	cmd.Env = e.environ()
	return cmd
}

// environ is what wheels run with: their libraries found, everything on the loopback address, and none of the settings the
// user may have made for a cluster of their own.
func (e *Environment) environ(more ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MC_") && !strings.HasPrefix(v, "MOONCAKE_") {
			out = append(out, v)
		}
	}
	out = append(out, "MC_TCP_BIND_ADDRESS=127.0.0.1", "PYTHONDONTWRITEBYTECODE=1")
	if e.LibraryPath != "" {
		out = append(out, "LD_LIBRARY_PATH="+e.LibraryPath)
	}
	return append(out, more...)
}
