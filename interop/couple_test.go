package interop

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// couple is two masters on one log in an etcd of three.
type couple struct {
	t       *testing.T
	r       *Rig
	etcd    string // addresses of its members
	options MasterOptions
	leader  *Master
	standby *Master
	times   figures
}

// What is measured when a leader goes.
const (
	servesAfterKill  = "from a kill to the new leader's first answer"
	servesAfterTerm  = "from SIGTERM to the new leader's first answer"
	firstPutDead     = "from a kill to the first put, the old port dead"
	firstPutAnswered = "from a kill to the first put, the old port answering again"
	gapOfHandOver    = "longest gap between puts in a hand-over"
)

// promises are what docs/ha.md says of them.
var promises = map[string]time.Duration{
	servesAfterKill: 300 * time.Millisecond, firstPutDead: 9 * time.Second, firstPutAnswered: 1600 * time.Millisecond,
	gapOfHandOver: 300 * time.Millisecond,
}

func startCouple(t *testing.T, leaseMs int) *couple {
	t.Helper()
	p := &couple{t: t, r: newRig(t)}
	_, p.etcd = startEtcds(t, p.r)
	p.options = MasterOptions{LeaseMs: leaseMs, Flags: memberFlags(p.r, p.etcd)}
	p.leader = startMaster(t, p.r, p.options)
	p.ready(p.leader)
	p.standby = startMaster(t, p.r, p.options)
	p.ready(p.standby)
	if a, b := page(p.leader, "/role"), page(p.standby, "/role"); a != "leader" || b != "standby" {
		t.Fatalf("the masters are %s and %s", a, b)
	}
	return p
}

// memberFlags make a master one of several. A port on which only masters talk to each other, where there is one, is left to
// the kernel.
func memberFlags(r *Rig, etcd string) []string {
	flags := []string{"--enable_ha", "--ha_backend_connstring=" + etcd}
	help, _ := exec.Command(filepath.Join(r.Binaries, "mooncake-master"), "--help").CombinedOutput() // start says what is wrong with it
	if strings.Contains(string(help), " -grpc_port ") {
		flags = append(flags, "--grpc_port=0")
	}
	return flags
}

// address is what clients are given.
func (p *couple) address() string { return "etcd://" + p.etcd }

func (p *couple) ready(m *Master) {
	p.t.Helper()
	eventually(p.t, startLimit, "a master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
}

// again starts a master in the place of one that has ended.
func (p *couple) again(m *Master) *Master {
	p.t.Helper()
	if _, err := m.ExitCode(60 * time.Second); err != nil {
		p.t.Fatal(err)
	}
	o := p.options
	o.RPCPort, o.AdminPort = portOf(p.t, m.RPC), portOf(p.t, m.Admin)
	return startMaster(p.t, p.r, o)
}

// loss is what is known of the end of a leader.
type loss struct {
	at     time.Time
	served time.Duration // until the other answered
}

// lose ends the leader with a signal while f is being written, and returns when the other leads and the writer is at work
// again. With restart the master is started again at once, at its old address, else afterwards.
func (p *couple) lose(sig syscall.Signal, restart bool, writer *Store, f Flood) loss {
	p.t.Helper()
	old, next := p.leader, p.standby
	before, _, err := writer.FloodState(f)
	if err != nil {
		p.t.Fatal(err)
	}
	l := loss{at: time.Now()}
	if err := old.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- firstAnswer(next.RPC, l.at, &l.served) }()
	if restart {
		p.standby = p.again(old)
	}
	if err := <-answered; err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, 60*time.Second, "the writer to go on", func() bool {
		acked, last, err := writer.FloodState(f)
		if err != nil {
			p.t.Fatal(err)
		}
		return acked > before+20 && last.After(l.at.Add(l.served))
	})
	time.Sleep(200 * time.Millisecond)
	if sig == syscall.SIGTERM {
		if code, err := old.ExitCode(60 * time.Second); err != nil || code != 0 {
			p.t.Errorf("the leader that was asked to leave ends with %d, %v", code, err)
		}
	}
	if !restart {
		p.standby = p.again(old)
	}
	p.leader = next
	p.settle()
	return l
}

// settle waits until one leads and the other could, and takes them for what they are: also a master that was started again
// may take the lead.
func (p *couple) settle() {
	p.t.Helper()
	leads := func(m *Master) bool { return page(m, "/role") == "leader" && status(m, "/readyz") == http.StatusOK }
	eventually(p.t, startLimit, "a leader", func() bool {
		if leads(p.standby) {
			p.leader, p.standby = p.standby, p.leader
		}
		return leads(p.leader)
	})
	p.ready(p.standby)
}

// recovery finds the pause of a writer that the loss of its leader made, and where it ended, counted from the loss.
func recovery(out Flooded, l loss) (gap, first time.Duration) {
	at := make([]time.Time, 0, len(out.Acked))
	for _, c := range out.Acked {
		at = append(at, c.At)
	}
	slices.SortFunc(at, time.Time.Compare)
	for n := 1; n < len(at); n++ {
		if d := at[n].Sub(at[n-1]); d > gap && at[n].After(l.at) {
			gap, first = d, at[n].Sub(l.at)
		}
	}
	return gap, first
}

// keys lists what the leader has.
func (p *couple) keys(prefix string) map[string]bool {
	p.t.Helper()
	all := map[string]bool{}
	for _, k := range keysOf(p.t, p.leader, prefix) {
		all[k] = true
	}
	return all
}

// codes counts the outcomes of calls, for the log.
func codes(calls []FloodCall) string {
	n := map[int]int{}
	for _, c := range calls {
		n[c.Code]++
	}
	return fmt.Sprint(n)
}
