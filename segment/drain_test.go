package segment

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mooncake/wire"
)

// leave ends a daemon as SIGTERM does and gives the error of Run.
func (r *running) leave(t *testing.T) error {
	t.Helper()
	r.cancel(errors.New("told to leave"))
	select {
	case err := <-r.done:
		close(r.done)
		return err
	case <-time.After(60 * time.Second):
		t.Fatal("the daemon does not end")
		return nil
	}
}

// TestP17DrainBeforeLeaving has a daemon leave with time for a drain: it asks for it, waits for its end, does tasks and pings
// meanwhile, and unmounts afterwards.
func TestP17DrainBeforeLeaving(t *testing.T) {
	m := newFakeMaster(t)
	m.lock(func() { m.drains = []string{`{"left":2,"blocked":1}`, `{"left":1,"moved":1}`, `{"left":0}`} })
	c := daemonConfig(t, m)
	c.DrainTimeout = time.Minute
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	if _, body := d.get(t, "/drain"); !strings.Contains(body, `"draining":false`) || !strings.Contains(body, `"of_ms":60000`) {
		t.Errorf("before: %s", body)
	}
	m.forget()
	if err := d.leave(t); err != nil {
		t.Errorf("left with %v", err)
	}
	for _, e := range m.wait(t, "GracefulUnmountSegment") {
		if e == "UnmountSegment" {
			t.Error("unmounted before it was drained")
		}
	}
	m.wait(t, "QueryTask")
	m.wait(t, "FetchTasks")
	m.wait(t, "UnmountSegment")
	if files, err := os.ReadDir(c.ShmDir); err != nil || len(files) != 0 {
		t.Errorf("%d files left, %v", len(files), err)
	}
	if d.log.FilterMessage("draining").Len() == 0 || d.log.FilterMessage("nothing is left on the segment").Len() != 1 {
		t.Error("the log says nothing of the drain")
	}
}

// TestP17LeavesWithWhatIsLeft has too little time, a master that moves nothing, and one that does not know what is asked.
func TestP17LeavesWithWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*fakeMaster)
		want LeftError
	}{
		"no room":             {func(m *fakeMaster) { m.drains = []string{`{"left":7,"moved":3}`} }, LeftError{7, true, 4 * time.Second}},
		"a published master":  {func(*fakeMaster) {}, LeftError{0, false, time.Minute}},
		"an old one":          {func(m *fakeMaster) { m.refuse[wire.CallGracefulUnmountSegment] = wire.ErrSegmentNotFound }, LeftError{0, false, time.Minute}},
		"a text for somebody": {func(m *fakeMaster) { m.drains = []string{"x"} }, LeftError{0, false, 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMaster(t)
			m.lock(func() { c.set(m) })
			cfg := daemonConfig(t, m)
			cfg.DrainTimeout = c.want.Within
			d := run(t, cfg)
			m.wait(t, "ReMountSegment")
			var left *LeftError
			if err := d.leave(t); !errors.As(err, &left) || *left != c.want || strings.Contains(err.Error(), "\n") {
				t.Errorf("left with %v", err)
			}
			m.wait(t, "UnmountSegment")
		})
	}
}

// TestStayingDrainsNothing tells a daemon with time for a drain to make way for its successor.
func TestStayingDrainsNothing(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.DrainTimeout = time.Minute
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	m.forget()
	d.end(t, ErrStay)
	m.lock(func() {
		for len(m.events) > 0 {
			if e := <-m.events; strings.HasPrefix(e, "Graceful") {
				t.Error("it asked for a drain")
			}
		}
	})
	if c.DrainTimeout = -1; c.Validate() == nil {
		t.Error("a negative time is taken")
	}
}
