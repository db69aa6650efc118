// Command guest is the first process of the emulated machine: it loads the modules, mounts the host's files, sets up network
// and RDMA devices, runs the job's command and turns the machine off. It tells how it goes on the control port.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mooncake/interop/vm"
)

// leftBehind is how long output of daemons that the command left behind is waited for.
const leftBehind = 2 * time.Second

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the first process of an emulated machine, nothing to be called by hand")
		os.Exit(2)
	}
	control, err := live()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		if control != nil {
			control.tell(vm.Report{Failed: err.Error()})
		}
	}
	off()
}

// live is everything between boot and power-off.
func live() (*control, error) {
	if err := mountKernel(""); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/" + vm.JobFile)
	if err != nil {
		return nil, err
	}
	var job vm.Job
	if err := json.Unmarshal(text, &job); err != nil {
		return nil, err
	}
	if err := loadModules("/" + vm.ModulesDir); err != nil {
		return nil, err
	}
	port, err := openPort(vm.PortControl)
	if err != nil {
		return nil, err
	}
	c := &control{port: port}
	if err := enterHostTree(); err != nil {
		return c, err
	}
	if err := setUpNetwork(job); err != nil {
		return c, err
	}
	c.tell(vm.Report{Ready: true})
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { c.ticks(stop) })
	status, err := runCommand(job)
	close(stop)
	ticking.Wait()
	if err != nil {
		return c, err
	}
	c.tell(vm.Report{Exit: &status})
	return c, nil
}

// control is the port of reports.
type control struct {
	mu   sync.Mutex
	port *os.File
}

func (c *control) tell(r vm.Report) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.port.Write(append(line, '\n')) // nobody is left to tell
}

func (c *control) ticks(stop <-chan struct{}) {
	every := time.NewTicker(vm.TickEvery)
	defer every.Stop()
	for {
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
			c.tell(vm.Report{Tick: time.Duration(now.Nano())})
		}
		select {
		case <-stop:
			return
		case <-every.C:
		}
	}
}

// runCommand runs the job in a session of its own and answers with its status as a shell would.
func runCommand(job vm.Job) (int, error) {
	out, err := openPort(vm.PortOut)
	if err != nil {
		return 0, err
	}
	errs, err := openPort(vm.PortErr)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(job.Command[0], job.Command[1:]...)
	cmd.Dir, cmd.Env = job.Dir, job.Env
	// Not the ports themselves: the command gets pipes, which it may open again by name.
	cmd.Stdout, cmd.Stderr = struct{ writer }{out}, struct{ writer }{errs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = leftBehind
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return cmd.ProcessState.ExitCode(), nil
	case errors.As(err, &ended):
		if status := ended.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return ended.ExitCode(), nil
	default:
		return 0, err
	}
}

// writer hides everything of a file but writing.
type writer interface{ Write(p []byte) (int, error) }

func off() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {} // the first process must not end
}
