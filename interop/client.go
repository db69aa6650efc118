package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// DefaultCallLimit is how long a client may take for one request unless the caller says otherwise. The longest wait inside a
// wheel is its own RPC timeout of 30 s.
const DefaultCallLimit = 90 * time.Second

// leaveLimit is how long a client may take to leave; a wheel waits up to 10 s for a master that is gone.
const leaveLimit = 20 * time.Second

// maxAnswerBytes bounds one answer line of a worker; the longest is the handle of a bundle with thousands of rows.
const maxAnswerBytes = 64 << 20

// ErrWorker is the root of errors that the Python side reported: an exception inside the wheel or the worker.
var ErrWorker = errors.New("client raised")

// Client is a process with an unchanged wheel in it. It may hold several stores, told apart by name; one request runs at a time.
type Client struct {
	Release Release
	Limit   time.Duration // per request; zero means DefaultCallLimit

	proc    *Process
	grace   time.Duration // for leaving
	in      io.WriteCloser
	answers chan answer
	mu      sync.Mutex // one request at a time; guards next
	next    int
}

type answer struct {
	ID    int             `json:"id"`
	OK    bool            `json:"ok"`
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
	Trace string          `json:"trace"`
}

// startClient runs the worker script with the interpreter of a release.
func startClient(env *Environment, script string, more ...string) (*Client, error) {
	cmd := exec.Command(env.Python, "-u", script)
	cmd.Env = env.environ(more...)
	c, err := startWorker("client "+env.Release.Version(), cmd)
	if err == nil {
		c.Release = env.Release
	}
	return c, err
}

// startWorker runs a program that takes and answers lines of JSON.
func startWorker(name string, cmd *exec.Cmd) (*Client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &Client{in: in, answers: make(chan answer, 1)}
	if c.proc, err = startProcess(name, cmd, nil); err != nil {
		return nil, err
	}
	go c.read(out)
	return c, nil
}

// read ends with the process, whose end closes the pipe.
func (c *Client) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), maxAnswerBytes)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a = answer{Error: fmt.Sprintf("no JSON: %q", lines.Bytes())}
		}
		c.answers <- a
	}
	close(c.answers)
}

// Pid is the process id of the client.
func (c *Client) Pid() int { return c.proc.Pid() }

// Log is the end of what the client's libraries wrote.
func (c *Client) Log() string { return c.proc.Log() }

// Signal sends a signal to the client's process: SIGSTOP and SIGCONT make it stall.
func (c *Client) Signal(sig os.Signal) error { return c.proc.Signal(sig) }

// Kill ends the client as a crash would.
func (c *Client) Kill() { c.proc.Kill() }

// Do sends one request and decodes its value into out, which may be nil. args is a struct or map of the worker's arguments.
func (c *Client) Do(op string, args map[string]any, out any) error {
	limit := c.Limit
	if limit == 0 {
		limit = DefaultCallLimit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	request := map[string]any{"id": c.next, "op": op}
	for k, v := range args {
		request[k] = v
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return c.proc.failed("takes no request")
	}
	select {
	case a, open := <-c.answers:
		if !open {
			<-c.proc.done
			return c.proc.failed("ended during " + op)
		}
		return c.take(op, a, out)
	case <-time.After(limit):
		c.proc.Kill() // its next answer would belong to this request
		return c.proc.failed(fmt.Sprintf("gave no answer to %s within %v", op, limit))
	}
}

func (c *Client) take(op string, a answer, out any) error {
	if a.ID != c.next {
		return fmt.Errorf("%s: answer %d to request %d: %s", op, a.ID, c.next, a.Error)
	}
	if !a.OK {
		return fmt.Errorf("%s: %w: %s", op, ErrWorker, a.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.Value, out); err != nil {
		return fmt.Errorf("%s: value %s: %w", op, a.Value, err)
	}
	return nil
}

// Close lets the client leave in good order: stores closed, segments unmounted.
func (c *Client) Close() error {
	c.in.Close()
	if _, err := c.proc.ExitCode(max(c.grace, leaveLimit)); err != nil {
		c.proc.Kill()
		return err
	}
	return nil
}
