//go:build rdmavm

package interop

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// This build of the tests runs inside an emulated machine. Everything they start was made outside, before the boot.

var (
	binaries = flag.String("binaries", "", "folder with our daemons")
	only     = flag.Int("only", 0, "run everything with this one release, for trying things")
	shim     = flag.String("shim", "", "library that makes rxe report dead peers, preloaded into clients")
)

// slowness multiplies the time steps may take: emulated processors are that much slower, and stall.
const slowness = 5

// callLimit is how long a client may take for one request: a good deal more than the minute after which a wheel gives up a
// transfer by itself, and little enough to fail before the machine's own time is over.
const callLimit = 8 * time.Minute

// Memory that a store registers for its own use: a transfer takes all of its bytes there.
const (
	smallBuffer = 8 * mib
	largeBuffer = 40 * mib
)

// Memory that a daemon offers: enough for all that a test puts there, since what was read is not used again before the lease
// ends. The kernel finds and pins all of it at the start, which costs seconds for every hundred MiB.
const (
	smallArena = 32 * mib
	largeArena = 96 * mib
)

// kind is what a client process of the crowd is like.
type kind string

const (
	plain   kind = "plain"   // when soaking the wheel as it is, else the patient one
	second  kind = "second"  // the same once more, for tests that want two processes
	patient kind = "patient" // with the shim, for tests in which somebody dies
)

// as is the kind that stands for k in this run. Plain wheels resend for ever, and on a busy host more often than the answers
// are dealt with; a run that must always end has the shim in every client. Nothing else of it differs.
func (k kind) as() kind {
	if k == plain && !*soak {
		return patient
	}
	return k
}

func (k kind) env() []string {
	if k == second && *soak || k == plain {
		return nil
	}
	return []string{"LD_PRELOAD=" + *shim}
}

// crowd are client processes that the tests share: to start one takes seconds in here. Each is started when first asked for.
type crowd struct {
	rig     *Rig
	members map[member]*Client
	open    map[*testing.T][]*Store
}

type member struct {
	kind    kind
	release Release
}

var guests crowd

func TestMain(m *testing.M) {
	flag.Parse()
	built.dir = *binaries
	if *only != 0 {
		Releases = []Release{Release(*only)}
	}
	rig, err := NewRig(os.TempDir())
	if err == nil {
		rig.Slow = slowness
		guests = crowd{rig: rig, members: map[member]*Client{}, open: map[*testing.T][]*Store{}}
		if code := m.Run(); code != 0 {
			err = errors.New("tests failed")
		}
		err = errors.Join(err, rig.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// client is the process of this kind and release.
func (c *crowd) client(t *testing.T, k kind, r Release) *Client {
	t.Helper()
	if !slices.Contains(Releases, r) {
		r = Releases[0]
	}
	c.ready(t, k, r)
	return c.members[member{k.as(), r}]
}

// ready starts those of the releases that do not run, together.
func (c *crowd) ready(t *testing.T, k kind, releases ...Release) {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var starting sync.WaitGroup
	started := 0
	for _, r := range releases {
		who := member{k.as(), r}
		if have := c.members[who]; have != nil && !have.proc.exited() {
			continue
		}
		started++
		starting.Go(func() {
			client, err := c.rig.StartClient(r, who.kind.env()...)
			if err == nil {
				client.Limit = time.Duration(repeat(1, 3)) * callLimit
				err = client.Do("load", nil, nil)
			}
			mu.Lock()
			defer mu.Unlock()
			if c.members[who] = client; err != nil {
				t.Errorf("%s client %v: %v", who.kind, r, err)
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if started > 0 {
		t.Logf("%d %s clients started in %v", started, k, time.Since(began).Round(time.Second))
	}
}

// rdmaStore sets up a store of this test in a shared client, to be closed with the test.
func rdmaStore(t *testing.T, c *Client, o StoreOptions) *Store {
	t.Helper()
	if o.Name == "" {
		o.Name = t.Name()
	}
	if o.Protocol == "" {
		o.Protocol = "rdma"
	}
	if o.Devices == "" && o.Protocol == "rdma" {
		o.Devices = "rxe1"
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = smallBuffer
	}
	s := setup(t, c, o)
	if guests.open[t] == nil {
		t.Cleanup(func() { guests.closeStores(t) })
	}
	guests.open[t] = append(guests.open[t], s)
	return s
}

// closeStores closes the stores of a test, those of several processes at once: each takes seconds to leave.
func (c *crowd) closeStores(t *testing.T) {
	var closing sync.WaitGroup
	for _, s := range c.open[t] {
		closing.Go(func() {
			if t.Failed() {
				t.Logf("client %v ends with:\n%s", s.Client.Release, lastLines([]byte(s.Client.Log()), 25))
			}
			if err := s.Close(); err != nil && !s.Client.proc.exited() {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	delete(c.open, t)
}

// guestMaster starts a master that puts up with stalls: no lease ends under a read that takes long, nobody is given up for
// being late.
func guestMaster(t *testing.T, r *Rig, o MasterOptions) *Master {
	t.Helper()
	o.LeaseMs, o.ClientTTLSec = 120_000, 60
	return startMaster(t, r, o)
}

// rdmaSegment starts our segment daemon on a device.
func rdmaSegment(t *testing.T, r *Rig, m *Master, n int, o SegmentOptions) *Segment {
	t.Helper()
	o.Protocol = "rdma"
	if o.Devices == "" {
		o.Devices = "rxe0"
	}
	if o.SizeBytes == 0 {
		o.SizeBytes = smallArena
	}
	return startSegment(t, r, m, n, o)
}

// addressFor is where a client of this release finds the master.
func (m *Master) addressFor(r Release) string {
	if r == R12 {
		return m.RPCv12
	}
	return m.RPC
}

// perRelease runs a step for each release.
func perRelease(t *testing.T, step func(t *testing.T, r Release)) {
	t.Helper()
	for _, r := range Releases {
		t.Run(r.String(), func(t *testing.T) { step(t, r) })
	}
}
