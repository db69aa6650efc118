package vm

import (
	"fmt"
	"time"
)

// Job is what the guest is to do. The zero value of a number takes the default.
type Job struct {
	Command []string      `json:"command"`
	Dir     string        `json:"dir"`   // working directory; empty is /
	Env     []string      `json:"env"`   // environment of the command
	Nodes   int           `json:"nodes"` // RDMA devices, default 2
	LinkMTU int           `json:"mtu"`   // of the nodes' links; the default 4200 makes RoCE's own 4096
	MemMiB  int           `json:"mem"`   // memory of the guest, default 3072
	CPUs    int           `json:"cpus"`  // default: one less than the host has, at most 4
	Limit   time.Duration `json:"limit"` // from boot to end, less what the host kept it waiting; default 10 minutes
	Accel   string        `json:"accel"` // auto, kvm or tcg; default auto
}

// Defaults of a Job.
const (
	DefaultNodes   = 2
	DefaultMemMiB  = 3072
	DefaultLimit   = 10 * time.Minute
	defaultLinkMTU = 4200
	maxCPUs        = 4  // more gain nothing in emulation
	maxNodes       = 16 // rules between nodes grow with the square
)

// Names of the ports the guest writes to.
const (
	PortOut     = "out"
	PortErr     = "err"
	PortControl = "control"
)

// JobFile and ModulesDir are where the guest's first process finds its orders and the kernel modules.
const (
	JobFile    = "job.json"
	ModulesDir = "modules"
)

// Report is one line on the control port.
type Report struct {
	// Tick is the guest's monotonic clock, sent every TickEvery.
	Tick time.Duration `json:"tick,omitempty"`
	// Ready says that devices and network are set up and the command starts.
	Ready bool `json:"ready,omitempty"`
	// Failed says why the guest cannot run the command.
	Failed string `json:"failed,omitempty"`
	// Exit is the command's status, the last report.
	Exit *int `json:"exit,omitempty"`
}

// TickEvery is how often the guest tells its time.
const TickEvery = time.Second

// NodeNet and HostNet are the first three numbers of the two networks; LanGateway is the last number of the first
// namespace's own address in HostNet. The wheels count 192.168/16 as routable, unlike 10/8 and 172.16/12.
const (
	NodeNet    = "192.168.99"
	HostNet    = "192.168.98"
	LanGateway = 254
)

// NodeAddr is the address of a node, from which its RoCE GID follows.
func NodeAddr(i int) string { return fmt.Sprintf("%s.%d", NodeNet, i+1) }

// HostAddr is the address of the namespace hostI.
func HostAddr(i int) string { return fmt.Sprintf("%s.%d", HostNet, i+1) }

// withDefaults fills in what was left zero.
func (j Job) withDefaults(hostCPUs int) Job {
	if j.Dir == "" {
		j.Dir = "/"
	}
	if j.Nodes == 0 {
		j.Nodes = DefaultNodes
	}
	if j.LinkMTU == 0 {
		j.LinkMTU = defaultLinkMTU
	}
	if j.MemMiB == 0 {
		j.MemMiB = DefaultMemMiB
	}
	if j.CPUs == 0 {
		// QEMU's own threads want a processor too. Where emulated processors have to share one, each stalls while the others
		// run, and resends after a fifteenth of a second pile up faster than answers are dealt with.
		j.CPUs = min(max(1, hostCPUs-1), maxCPUs)
	}
	if j.Limit == 0 {
		j.Limit = DefaultLimit
	}
	if j.Accel == "" {
		j.Accel = "auto"
	}
	return j
}

// check refuses what no guest can do.
func (j Job) check() error {
	switch {
	case len(j.Command) == 0:
		return fmt.Errorf("a job without a command")
	case j.Nodes < 1 || j.Nodes > maxNodes:
		return fmt.Errorf("%d nodes: between 1 and %d are possible", j.Nodes, maxNodes)
	case j.Accel != "auto" && j.Accel != "kvm" && j.Accel != "tcg":
		return fmt.Errorf("accelerator %q: auto, kvm or tcg", j.Accel)
	}
	return nil
}
