package rdma

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooncake/descriptor"
)

const own = "127.0.0.1:51211"

// openModel opens a fabric on devices of a model, without Run: tests take its steps one by one.
func openModel(t testing.TB, m *modelNet, cfg Config, devices ...string) *Fabric {
	t.Helper()
	for _, d := range devices {
		cfg.Rails = append(cfg.Rails, Verdict{Device: d, Port: 1, GIDIndex: 1, Chosen: true})
	}
	cfg.verbs = modelLayer{m}
	f, err := OpenFabric(cfg)
	must(t, err)
	return f
}

// request is a first frame to mlx5_0 of the process named own.
func request(change func(c *descriptor.Connection)) *descriptor.Connection {
	c := &descriptor.Connection{
		LocalGID: ipv4GID(9).String(), LocalNICPath: "127.0.0.1:15427@mlx5_1", PeerNICPath: own + "@mlx5_0",
		QPNum: []uint32{501, 502}, ReadyAck: new(bool),
	}
	if change != nil {
		change(c)
	}
	return c
}

func ready(c *descriptor.Connection) *descriptor.Connection {
	again := *c
	again.ReadyAck = new(true)
	return &again
}

func accepted(t testing.TB, f *Fabric, c *descriptor.Connection) descriptor.Connection {
	t.Helper()
	answer := f.Accept(own, c)
	if answer.ReplyMsg != "" {
		t.Fatalf("refused: %s", answer.ReplyMsg)
	}
	return answer
}

func refusedWith(t testing.TB, f *Fabric, c *descriptor.Connection, want string) {
	t.Helper()
	answer := f.Accept(own, c)
	if !strings.Contains(answer.ReplyMsg, want) {
		t.Errorf("reply_msg %q, want %q", answer.ReplyMsg, want)
	}
	if answer.ReplyMsg = ""; !cmp.Equal(answer, descriptor.Connection{}) {
		t.Errorf("a refusal says more: %+v", answer)
	}
}

// TestAcceptReleases answers what clients of the three releases have sent, both frames.
func TestAcceptReleases(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{}, "mlx5_0")
	for _, release := range []string{"12", "13", "14"} {
		var frames [2]*descriptor.Connection
		for i, name := range []string{"first-", "ready-"} {
			text, err := os.ReadFile("testdata/handshakes/" + name + release + ".json")
			must(t, err)
			frames[i], err = descriptor.ParseConnection(text)
			must(t, err)
		}
		got := accepted(t, f, frames[0])
		want := descriptor.Connection{
			LocalGID: ipv4GID(1).String(), LocalNICPath: frames[0].PeerNICPath, PeerNICPath: frames[0].LocalNICPath,
			QPNum: got.QPNum, ReadyAck: new(bool),
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got.QPNum) != 2 {
			t.Errorf("release %s: %s", release, diff)
		}
		if got := accepted(t, f, frames[1]); !cmp.Equal(got, descriptor.Connection{}) {
			t.Errorf("release %s: answer to ready: %+v", release, got)
		}
	}
	if s := f.Stats(); s.Accepted != 3 || s.Readied != 3 || s.QPs != 6 || !s.Peers[0].Acked {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptRules goes through what a peer may do: repeat itself, restart, be an older one without the second frame.
func TestAcceptRules(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{}, "mlx5_0")
	first := accepted(t, f, request(nil))
	if again := accepted(t, f, request(nil)); !cmp.Equal(again, first) {
		t.Errorf("repeated: %+v, first %+v", again, first)
	}
	accepted(t, f, ready(request(nil)))
	if again := accepted(t, f, request(nil)); !cmp.Equal(again, first) {
		t.Errorf("repeated after ready: %+v, first %+v", again, first)
	}
	comeBack := request(func(c *descriptor.Connection) { c.QPNum = []uint32{601, 602, 603, 604} })
	second := accepted(t, f, comeBack)
	if len(second.QPNum) != 4 || second.QPNum[0] == first.QPNum[0] {
		t.Errorf("restarted: %+v, first %+v", second, first)
	}
	refusedWith(t, f, ready(request(nil)), "connected with other queue pairs")
	refusedWith(t, f, ready(request(func(c *descriptor.Connection) { c.LocalNICPath = "nobody@mlx5_1" })), "is not connected")
	old := accepted(t, f, request(func(c *descriptor.Connection) { c.ReadyAck, c.LocalNICPath = nil, "127.0.0.1:5@x@y" }))
	if old.ReadyAck != nil || old.PeerNICPath != "127.0.0.1:5@x@y" {
		t.Errorf("answer to an old peer: %+v", old)
	}
	if s := f.Stats(); s.Accepted != 3 || s.Repeated != 2 || s.Restarted != 1 || s.QPs != 6 || m.qps != 6 {
		t.Errorf("%+v; the device has %d", s, m.qps)
	}
	must(t, f.Close())
	refusedWith(t, f, request(nil), "down") // its devices are closed
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptUsedPairs gives a peer that begins anew with the same numbers other queue pairs than those it has used.
func TestAcceptUsedPairs(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	f := openModel(t, m, Config{}, "mlx5_0")
	region, err := f.Register(t.Context(), mapped(t, 1<<20), 1<<32, nil)
	must(t, err)
	w := newWheel(t, modelLayer{m}, "mlx5_1", "127.0.0.1:15427")
	first := w.connect(f, own, "mlx5_0", 2)
	must(t, w.do(0, opWrite, 0, 10, 1<<32, region.Describe()[0].RKey[0]))
	again := w.prepare(own+"@mlx5_0", 0)
	for _, qp := range w.qps {
		again.QPNum = append(again.QPNum, qp.number())
	}
	if second := accepted(t, f, again); cmp.Equal(second.QPNum, first.QPNum) {
		t.Error("used queue pairs were given out as new ones")
	}
	w.vanish()
	must(t, f.Close())
	m.checkEmpty()
}

func TestAcceptRefusals(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_9")
	f := openModel(t, m, Config{}, "mlx5_0", "mlx5_9")
	m.set("mlx5_9", func(d *modelDevice) { d.info.active = false }, event{kind: eventPort})
	<-f.Changed()
	for _, c := range []struct {
		name   string
		change func(c *descriptor.Connection)
		want   string
	}{
		{"no @", func(c *descriptor.Connection) { c.PeerNICPath = "junk" }, `invalid peer_nic_path "junk"`},
		{"no own @", func(c *descriptor.Connection) { c.LocalNICPath = "junk" }, `invalid local_nic_path "junk"`},
		{"other device", func(c *descriptor.Connection) { c.PeerNICPath = own + "@nope" }, `no RDMA device "nope" here`},
		{"other server", func(c *descriptor.Connection) { c.PeerNICPath = "10.9.9.9:1@mlx5_0" }, `is not ours, which is "127.0.0.1:51211@mlx5_0"`},
		{"port down", func(c *descriptor.Connection) { c.PeerNICPath = own + "@mlx5_9" }, `"mlx5_9" is down`},
		{"no queue pairs", func(c *descriptor.Connection) { c.QPNum = nil }, "0 queue pairs"},
		{"too many", func(c *descriptor.Connection) { c.QPNum = make([]uint32, 257) }, "257 queue pairs: want 1 to 256"},
		{"number 0", func(c *descriptor.Connection) { c.QPNum = []uint32{0} }, "0 is not the number"},
		{"25 bits", func(c *descriptor.Connection) { c.QPNum = []uint32{1 << 24} }, "16777216 is not the number"},
		{"no gid", func(c *descriptor.Connection) { c.LocalGID = "" }, "local_gid is empty"},
		{"other form", func(c *descriptor.Connection) { c.LocalGID = "fe80::1" }, `invalid local_gid: "fe80::1" is not 16 pairs`},
		{"no digits", func(c *descriptor.Connection) { c.LocalGID = strings.Repeat("zz:", 15) + "zz" }, `"zz" is not two`},
		{"zero gid", func(c *descriptor.Connection) { c.LocalGID = GID{}.String() }, "all zero"},
	} {
		t.Run(c.name, func(t *testing.T) { refusedWith(t, f, request(c.change), c.want) })
	}
	if s := f.Stats(); s.QPs != 0 || len(s.Peers) != 0 || s.Refused["malformed"] != 10 || s.Refused["device"] != 2 || s.Refused["name"] != 1 {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptAsksForGID finds the address of a peer that did not send it, as real passive sides do.
func TestAcceptAsksForGID(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{TrafficClass: 106, ServiceLevel: 3, PeerGID: func(server, device string) (descriptor.Device, error) {
		if server != "127.0.0.1:15427" || device != "mlx5_1" {
			return descriptor.Device{}, errors.New("nobody there")
		}
		return descriptor.Device{Name: device, GID: ipv4GID(9).String(), LID: 7}, nil
	}}, "mlx5_0")
	answer := accepted(t, f, request(func(c *descriptor.Connection) { c.LocalGID = "" }))
	m.mu.Lock()
	for _, n := range m.devices["mlx5_0"].opened {
		if to := n.pairs[answer.QPNum[0]].to; to.peerGID != ipv4GID(9) || to.peerLID != 7 || to.mtuBytes != 4096 || to.retry != 6 || to.peerQP != 501 || to.trafficClass != 106 || to.serviceLevel != 3 {
			t.Errorf("connected to %+v", to)
		}
	}
	m.mu.Unlock()
	refusedWith(t, f, request(func(c *descriptor.Connection) { c.LocalGID, c.LocalNICPath = "", "other@mlx5_1" }), "nobody there")
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptLimits bounds what one peer and all peers have. What is given back can be had again.
func TestAcceptLimits(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{QPsPerPeerMax: 4, QPsMax: 6}, "mlx5_0")
	from := func(path string, qps ...uint32) *descriptor.Connection {
		return request(func(c *descriptor.Connection) { c.LocalNICPath, c.QPNum = path, qps })
	}
	accepted(t, f, from("a@0", 1, 2))
	accepted(t, f, from("a@1", 3, 4))
	refusedWith(t, f, from("a@2", 5), "at most 4 are allowed for each peer")
	accepted(t, f, from("b@0", 6, 7))
	refusedWith(t, f, from("c@0", 8), "1 queue pairs asked for, 6 are in use: at most 6 are allowed in all")
	refusedWith(t, f, from("b@0", 8, 9, 10), "in all") // and it has lost what it had: it had restarted
	accepted(t, f, from("c@0", 8, 9))
	if s := f.Stats(); s.QPs != 6 || len(s.Peers) != 3 || s.Refused["limit"] != 2 || s.Refused["peer_limit"] != 1 || m.qps != 6 {
		t.Errorf("%+v; the device has %d", s, m.qps)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptVerbsFail refuses with the device's own words and leaves nothing behind.
func TestAcceptVerbsFail(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{}, "mlx5_0")
	m.qpsMax = 1 // the second fails
	refusedWith(t, f, request(nil), "ibv_create_qp of mlx5_0: cannot allocate memory (errno 12)")
	m.qpsMax, m.failVerbs["ibv_modify_qp"] = 0, syscall.EINVAL
	refusedWith(t, f, request(nil), "ibv_modify_qp of mlx5_0: invalid argument (errno 22)")
	delete(m.failVerbs, "ibv_modify_qp")
	if s := f.Stats(); s.QPs != 0 || len(s.Peers) != 0 || m.qps != 0 || s.Refused["verbs"] != 2 {
		t.Errorf("%+v; the device has %d", s, m.qps)
	}
	accepted(t, f, request(nil))
	must(t, f.Close())
	m.checkEmpty()
}

// TestAcceptCrowd lets many peers come at once, some of them as each other, while others vanish.
func TestAcceptCrowd(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{}, "mlx5_0")
	var crowd sync.WaitGroup
	for i := range 16 {
		crowd.Go(func() {
			for round := range 20 {
				f.Accept(own, request(func(c *descriptor.Connection) {
					c.LocalNICPath = "p@" + string(rune('a'+i%5))
					c.QPNum = []uint32{uint32(round + 1), uint32(i + 1)}
				}))
			}
		})
	}
	crowd.Go(func() {
		for range 50 {
			for _, p := range f.snapshot() {
				p.doom(unanswered)
			}
			f.clear()
		}
	})
	crowd.Wait()
	if s := f.Stats(); s.QPs != m.qps || s.QPs != 2*len(s.Peers) || int64(s.QPs) != s.Devices[0].QPs {
		t.Errorf("%d queue pairs for %d peers; the device has %d and counts %d", s.QPs, len(s.Peers), m.qps, s.Devices[0].QPs)
	}
	must(t, f.Close())
	m.checkEmpty()
	if f.qps != 0 || len(f.perServer) != 0 {
		t.Errorf("%d queue pairs still counted, %v", f.qps, f.perServer)
	}
}

// FuzzAccept feeds whatever parses as a request to the passive side.
func FuzzAccept(f *testing.F) {
	for _, name := range []string{"first-12", "first-13", "first-14", "ready-12", "ready-14"} {
		text, err := os.ReadFile("testdata/handshakes/" + name + ".json")
		must(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"local_gid":"fe80::1","peer_nic_path":"127.0.0.1:51211@mlx5_0","local_nic_path":"@","qp_num":[16777216]}`))
	m := newModel(f, "mlx5_0")
	fabric := openModel(f, m, Config{QPsPerPeerMax: 8, QPsMax: 64}, "mlx5_0")
	f.Cleanup(func() { must(f, fabric.Close()) })
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := descriptor.ParseConnection(text)
		if err != nil {
			return
		}
		answer := fabric.Accept(own, c)
		switch {
		case answer.ReplyMsg != "" && len(answer.QPNum) > 0, c.Ready() && len(answer.QPNum) > 0:
			t.Errorf("%q and %d queue pairs", answer.ReplyMsg, len(answer.QPNum))
		case answer.ReplyMsg == "" && !c.Ready() && len(answer.QPNum) != len(c.QPNum):
			t.Errorf("%d queue pairs for %d", len(answer.QPNum), len(c.QPNum))
		}
		if s := fabric.Stats(); s.QPs > 64 || s.QPs != m.qps {
			t.Errorf("%d queue pairs, the device has %d", s.QPs, m.qps)
		}
	})
}
