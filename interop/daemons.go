package interop

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// MasterOptions says how a master is started.
type MasterOptions struct {
	Release      Release  // zero is ours (or the rig's OriginalMaster); else the wheel's own master
	LeaseMs      int      // zero keeps the default
	ClientTTLSec int      // zero keeps the default
	V12Port      bool     // ours only: a port of its own for clients of 0.3.12
	HTTPMetadata bool     // serve metadata over HTTP
	Flags        []string // further flags
	RPCPort      int      // zero takes a free one
	AdminPort    int      // zero takes a free one
}

// Master is a running master.
type Master struct {
	*Process
	RPC         string // host:port for clients
	RPCv12      string // host:port for clients of 0.3.12, if asked for
	Admin       string // host:port of the admin HTTP server
	GRPC        string // host:port for callers of gRPC, ours only
	MetadataURL string // argument for clients and segments, if asked for
}

// StartMaster starts a master and waits until its ports answer.
func (r *Rig) StartMaster(o MasterOptions) (*Master, error) {
	ports, err := r.TakePorts(5)
	if err != nil {
		return nil, err
	}
	if o.RPCPort != 0 {
		ports[0] = o.RPCPort
	}
	if o.AdminPort != 0 {
		ports[1] = o.AdminPort
	}
	m := &Master{RPC: local(ports[0]), Admin: local(ports[1])}
	listens := []string{m.RPC, m.Admin}
	args := []string{
		"--rpc_address=127.0.0.1", "--rpc_port=" + strconv.Itoa(ports[0]), "--metrics_port=" + strconv.Itoa(ports[1]),
	}
	release := o.Release
	if release == 0 {
		release = r.OriginalMaster
	}
	if release != R12 {
		args = append(args, "--metrics_host=127.0.0.1")
	}
	if release == 0 {
		m.GRPC = local(ports[4])
		args = append(args, "--grpc_port="+strconv.Itoa(ports[4]))
		r.offers(ports[4], m.RPC)
	}
	if o.LeaseMs != 0 {
		args = append(args, fmt.Sprintf("--default_kv_lease_ttl=%d", o.LeaseMs))
	}
	if o.ClientTTLSec != 0 {
		args = append(args, fmt.Sprintf("--client_ttl=%d", o.ClientTTLSec))
	}
	if o.V12Port {
		m.RPCv12 = local(ports[2])
		listens = append(listens, m.RPCv12)
		if release == 0 {
			r.offers(ports[4], m.RPCv12)
		}
		args = append(args, "--rpc_port_v12="+strconv.Itoa(ports[2]))
	}
	if o.HTTPMetadata {
		m.MetadataURL = "http://" + local(ports[3]) + "/metadata"
		listens = append(listens, local(ports[3]))
		args = append(args, "--enable_http_metadata_server=true", "--http_metadata_server_host=127.0.0.1",
			"--http_metadata_server_port="+strconv.Itoa(ports[3]))
	}
	cmd, name, err := r.masterCommand(release, append(args, o.Flags...))
	if err != nil {
		return nil, err
	}
	if m.Process, err = r.Start(name, cmd); err != nil {
		return nil, err
	}
	return m, m.waitListening(r.slow(startLimit), listens...)
}

// offers notes which gRPC port belongs to an address for calls.
func (r *Rig) offers(port int, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = map[string]int{}
	}
	r.streams[address] = port
}

// streamOf is the gRPC port of the master with this address for calls; -1 where this rig has not started one there. A daemon
// that took its default would meet whatever else runs on this machine.
func (r *Rig) streamOf(address string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if port, ours := r.streams[address]; ours {
		return port
	}
	return -1
}

func (r *Rig) masterCommand(release Release, args []string) (cmd *exec.Cmd, name string, err error) {
	if release == 0 {
		return exec.Command(filepath.Join(r.Binaries, "mooncake-master"), args...), "mooncake-master", nil
	}
	wheel, ok := OpenEnvironment(release)
	if !ok {
		return nil, "", fmt.Errorf("the wheel %s is not set up", release.Version())
	}
	return wheel.program("mooncake_master", args...), "mooncake_master " + release.Version(), nil
}

// MemoryFound are flags of a segment daemon that has its memory before it serves. A host has it in the background soon after a start,
// as the unit in deploy/systemd says; for what is timed, that is over by then.
var MemoryFound = []string{"--populate=start"}

// SegmentOptions says how a segment daemon is started.
type SegmentOptions struct {
	Master    string
	Metadata  string // empty is P2PHANDSHAKE
	SizeBytes int64
	Host      string   // empty is 127.0.0.1; ours only
	HTTPPort  int      // zero takes a free one
	ArenaDir  string   // empty makes a new one; a second daemon takes up what the first has left there
	Protocol  string   // empty is tcp
	Devices   string   // RDMA devices, comma between; empty lets the daemon choose
	Flags     []string // further flags, ours only
	Program   string   // empty is the one of Rig.Binaries; ours only
}

// Segment is a running segment daemon.
type Segment struct {
	*Process
	HTTP string // host:port of its HTTP server; empty for the wheel's own
}

// StartSegment starts our segment daemon and waits until its HTTP server answers; the caller waits for the master to list it.
func (r *Rig) StartSegment(o SegmentOptions) (*Segment, error) {
	ports, err := r.TakePorts(3)
	if err != nil {
		return nil, err
	}
	if o.HTTPPort != 0 {
		ports[2] = o.HTTPPort
	}
	if o.Metadata == "" {
		o.Metadata = "P2PHANDSHAKE"
	}
	if o.Protocol == "" {
		o.Protocol = "tcp"
	}
	args := []string{
		"--master_server_address=" + o.Master, "--metadata_server=" + o.Metadata, "--protocol=" + o.Protocol,
		"--global_segment_size=" + strconv.FormatInt(o.SizeBytes, 10),
	}
	if o.Devices != "" {
		args = append(args, "--device_names="+o.Devices)
	}
	if r.OriginalSegment != 0 {
		return r.startWheelSegment(append(args, "--host=127.0.0.1", "--port="+strconv.Itoa(ports[0])))
	}
	if o.ArenaDir == "" {
		if o.ArenaDir, err = os.MkdirTemp(r.memory, "segment-"); err != nil {
			return nil, err
		}
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	args = append(args, "--local_hostname="+o.Host, "--bind_address="+o.Host, "--shm_dir="+o.ArenaDir,
		"--http_port="+strconv.Itoa(ports[2]), "--master_grpc_port="+strconv.Itoa(r.streamOf(o.Master)))
	if o.Program == "" {
		o.Program = filepath.Join(r.Binaries, "mooncake-segment")
	}
	s := &Segment{HTTP: net.JoinHostPort(o.Host, strconv.Itoa(ports[2]))}
	if s.Process, err = r.Start("mooncake-segment", exec.Command(o.Program, append(args, o.Flags...)...)); err != nil {
		return nil, err
	}
	return s, s.waitListening(r.slow(startLimit), s.HTTP)
}

// startWheelSegment runs the original's process of the same purpose.
func (r *Rig) startWheelSegment(args []string) (*Segment, error) {
	wheel, ok := OpenEnvironment(r.OriginalSegment)
	if !ok {
		return nil, fmt.Errorf("the wheel %s is not set up", r.OriginalSegment.Version())
	}
	p, err := r.Start("mooncake_client "+r.OriginalSegment.Version(), wheel.program("mooncake_client", args...))
	return &Segment{Process: p}, err
}

// StartEtcd runs Debian's etcd with one member and answers with its host:port.
func (r *Rig) StartEtcd() (string, error) {
	ports, err := r.TakePorts(2)
	if err != nil {
		return "", err
	}
	client, peer := "http://"+local(ports[0]), "http://"+local(ports[1])
	p, err := r.Start("etcd", exec.Command("etcd", "--data-dir", filepath.Join(r.Dir, "etcd"), "--name", "one",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer))
	if err != nil {
		return "", err
	}
	return local(ports[0]), p.waitListening(r.slow(startLimit), local(ports[0]))
}

// EtcdMember is one process of an etcd cluster.
type EtcdMember struct {
	*Process
	Client string // host:port
}

// StartEtcdCluster runs Debian's etcd with n members.
func (r *Rig) StartEtcdCluster(n int) ([]*EtcdMember, error) {
	ports, err := r.TakePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, local(ports[n+i])))
	}
	var members []*EtcdMember
	for i := range n {
		client, peer, name := "http://"+local(ports[i]), "http://"+local(ports[n+i]), fmt.Sprintf("m%d", i)
		p, err := r.Start("etcd "+name, exec.Command("etcd", "--data-dir", filepath.Join(r.Dir, "etcd-"+name), "--name", name,
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
			"--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(peers, ",")))
		if err != nil {
			return nil, err
		}
		members = append(members, &EtcdMember{p, local(ports[i])})
	}
	for _, m := range members {
		if err := m.waitListening(startLimit, m.Client); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// Leads asks a member whether it is the leader of its cluster.
func (m *EtcdMember) Leads() (bool, error) {
	resp, err := http.Post("http://"+m.Client+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var status struct {
		Leader string
		Header struct {
			Member string `json:"member_id"`
		}
	}
	err = json.NewDecoder(resp.Body).Decode(&status)
	return status.Leader != "" && status.Leader == status.Header.Member, err
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
