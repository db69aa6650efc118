package interop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// keptLogBytes is how much of a process's output is kept for a failure message.
const keptLogBytes = 64 << 10

// Process is a program the rig has started.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  tail
	done chan struct{}
	err  error // valid after done
}

// tail keeps the end of what is written to it.
type tail struct {
	copyTo io.Writer // may be nil
	mu     sync.Mutex
	kept   []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copyTo != nil {
		_, _ = l.copyTo.Write(p) // a terminal that has gone does not stop the daemon
	}
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - keptLogBytes; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}

// startProcess starts cmd; output that has no destination yet goes to the process's log, and to copyTo unless that is nil.
func startProcess(name string, cmd *exec.Cmd, copyTo io.Writer) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, done: make(chan struct{})}
	p.log.copyTo = copyTo
	if cmd.Stdout == nil {
		cmd.Stdout = &p.log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.log
	}
	cmd.WaitDelay = 2 * time.Second // a grandchild may hold the pipes
	// Nothing outlives a run that was cut off, and Ctrl-C reaches only the parent, which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log is the end of what the process wrote.
func (p *Process) Log() string { return p.log.String() }

// exited reports whether the process has ended.
func (p *Process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to this one process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// ExitCode waits up to limit for the end of the process and answers with its exit code.
func (p *Process) ExitCode(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s (pid %d) still runs after %v", p.Name, p.Pid(), limit)
	}
}

// Stop asks the process to end, and kills it when it has not after grace.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		<-p.done
		return nil // it has ended before
	}
	if _, err := p.ExitCode(grace); err != nil {
		p.Kill()
		return fmt.Errorf("%w; killed", err)
	}
	return nil
}

// Kill ends the process without a chance to tidy up.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // the only error is that it has ended
	<-p.done
}

// waitListening waits until every address accepts a connection, or the process has ended.
func (p *Process) waitListening(limit time.Duration, addrs ...string) error {
	deadline := time.Now().Add(limit)
	for _, addr := range addrs {
		for {
			conn, err := net.DialTimeout("tcp", addr, time.Second)
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(deadline) {
				return p.failed(fmt.Sprintf("does not listen on %s after %v", addr, limit))
			}
			select {
			case <-p.done:
				return p.failed("ended")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	select {
	case <-p.done: // somebody else listens there
		return p.failed("ended")
	default:
		return nil
	}
}

// failed is an error with the end of the log.
func (p *Process) failed(what string) error {
	text := strings.TrimSpace(p.Log())
	if text == "" {
		text = "(no output)"
	}
	return errors.New(p.Name + " " + what + "; its output ends:\n" + lastLines([]byte(text), 15))
}
