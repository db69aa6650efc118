package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

var portNames = [...]string{PortOut, PortErr, PortControl}

// ports are the pipes through which a guest speaks.
type ports struct {
	ours, qemus [len(portNames)]*os.File
}

func openPorts() (*ports, error) {
	p := &ports{}
	for i := range portNames {
		var err error
		if p.ours[i], p.qemus[i], err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) theirs() []*os.File { return p.qemus[:] }

// started gives up the ends that QEMU has now, so that ours see its end.
func (p *ports) started() {
	for i, f := range p.qemus {
		f.Close()
		p.qemus[i] = nil
	}
}

func (p *ports) close() {
	for i := range portNames {
		for _, f := range []*os.File{p.ours[i], p.qemus[i]} {
			if f != nil {
				f.Close()
			}
		}
	}
}

// drain copies a port to its end even when nobody listens any more: a full port would stop the guest.
func drain(to io.Writer, from io.Reader) {
	if to != nil {
		_, _ = io.Copy(to, from)
	}
	_, _ = io.Copy(io.Discard, from)
}

// How far the guest's clock may be from the host's: a report may be late on a busy host, but hardly more than clockSlack;
// a clock that runs at another rate leaves that soon.
const (
	clockSlack = 5 * time.Second
	clockRate  = 0.1
)

// watch follows the control port.
type watch struct {
	cancel  context.CancelCauseFunc
	unready *time.Timer // may be nil

	mu     sync.Mutex
	ready  bool
	failed string
	exit   *int

	firstTick time.Duration
	firstAt   time.Time
}

func (w *watch) follow(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // a line cut off by the end of the guest
		}
		w.take(r, time.Now())
	}
	drain(nil, from)
}

func (w *watch) take(r Report, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Exit != nil:
		w.exit = r.Exit
	case r.Failed != "":
		w.failed = r.Failed
	case r.Ready:
		w.ready = true
		if w.unready != nil {
			w.unready.Stop()
		}
	case w.firstAt.IsZero():
		w.firstTick, w.firstAt = r.Tick, now
	default:
		if err := compareClocks(r.Tick-w.firstTick, now.Sub(w.firstAt)); err != nil {
			w.cancel(err)
		}
	}
}

// compareClocks judges how much time has passed inside and outside.
func compareClocks(guest, host time.Duration) error {
	away := max(guest-host, host-guest)
	if away <= clockSlack+time.Duration(clockRate*float64(host)) {
		return nil
	}
	return fmt.Errorf("%w: %v passed inside while %v passed outside", ErrClock, guest.Round(time.Second), host.Round(time.Second))
}

// outcome is what the whole run comes to.
func (w *watch) outcome(cause, ended error) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unready != nil {
		w.unready.Stop()
	}
	switch {
	case w.exit != nil && !errors.Is(cause, ErrClock):
		return *w.exit, nil
	case w.failed != "":
		return 0, fmt.Errorf("%w: %s", ErrGuest, w.failed)
	case errors.Is(cause, errNeverReady):
		return 0, fmt.Errorf("%w: %w within %v", ErrGuest, errNeverReady, readyLimit)
	case cause != nil:
		return 0, cause
	case !w.ready:
		return 0, fmt.Errorf("%w: %w (QEMU: %v)", ErrGuest, errNeverReady, ended)
	default:
		return 0, fmt.Errorf("%w: it ended without a status (QEMU: %v)", ErrGuest, ended)
	}
}
