package rdma

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// probeRound sends one round of probes and waits until all are answered.
func probeRound(t *testing.T, f *Fabric) {
	t.Helper()
	credits := make(chan struct{}, limits.RDMAProbesAtOnce)
	f.probeAll(t.Context(), credits)
	for range limits.RDMAProbesAtOnce {
		credits <- struct{}{} // there is room for the last one when all are back
	}
}

// TestProbes keeps those who answer, reaps those who do not, and asks neither the young nor over a port that is down.
func TestProbes(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	c := &clock{at: time.Unix(1000, 0)}
	f := openModel(t, m, Config{ProbeEvery: 5 * time.Second, now: c.now}, "mlx5_0")
	stays := newWheel(t, modelLayer{m}, "mlx5_1", "127.0.0.1:1")
	stays.connect(f, own, "mlx5_0", 2)
	goes := newWheel(t, modelLayer{m}, "mlx5_1", "127.0.0.1:2")
	goes.connect(f, own, "mlx5_0", 3)
	probeRound(t, f)
	if m.posted != 0 {
		t.Errorf("%d probes of peers that may not be ready", m.posted)
	}
	c.at = c.at.Add(5 * time.Second)
	probeRound(t, f)
	f.clear()
	s := f.Stats()
	if s.ProbesAnswered != 5 || s.ProbesFailed != 0 || s.QPs != 5 || s.Peers[0].Probes == 0 || !s.Peers[1].Answered.Equal(c.at) {
		t.Errorf("%+v", s)
	}
	goes.vanish()
	m.set("mlx5_0", func(d *modelDevice) { d.info.active, d.info.state = false, "DOWN" }, event{kind: eventPort})
	<-f.Changed()
	probeRound(t, f)
	f.clear()
	if s := f.Stats(); m.posted != 5 || s.QPs != 5 {
		t.Errorf("%d probes, some over a port that is down; %+v", m.posted, s)
	}
	m.set("mlx5_0", func(d *modelDevice) { d.info.active, d.info.state = true, StateActive }, event{kind: eventPort})
	<-f.Changed()
	probeRound(t, f)
	f.clear()
	s = f.Stats()
	if s.ProbesFailed != 3 || s.QPs != 2 || s.Disconnected["unanswered"] != 1 || s.Peers[0].Path != stays.name {
		t.Errorf("%+v", s)
	}
	stays.vanish()
	must(t, f.Close())
	m.checkEmpty()
}

// TestProbeUnderWay reaps, restarts and closes while probes are under way, which then say nothing about whoever came after.
func TestProbeUnderWay(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	c := &clock{at: time.Unix(1000, 0)}
	f := openModel(t, m, Config{now: c.now}, "mlx5_0")
	first := request(func(c *descriptor.Connection) { c.QPNum = []uint32{1, 2} })
	accepted(t, f, first)
	c.at = c.at.Add(time.Hour)
	m.hold = true
	credits := make(chan struct{}, 8)
	f.probeAll(t.Context(), credits)
	f.probeAll(t.Context(), credits) // the first ones are not back: nobody is asked twice
	if m.posted != 2 {
		t.Errorf("%d probes", m.posted)
	}
	accepted(t, f, request(nil)) // it comes again, with other queue pairs
	if len(credits) != 0 {
		t.Errorf("%d probes of destroyed queue pairs never came back", len(credits))
	}
	m.release()
	f.clear()
	if s := f.Stats(); s.QPs != 2 || s.ProbesFailed != 0 || s.Restarted != 1 {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestProbePairInError dooms a peer whose queue pair takes no work.
func TestProbePairInError(t *testing.T) {
	m := newModel(t, "mlx5_0")
	c := &clock{at: time.Unix(1000, 0)}
	f := openModel(t, m, Config{now: c.now}, "mlx5_0")
	accepted(t, f, request(nil))
	c.at = c.at.Add(time.Hour)
	m.failVerbs["ibv_post_send"] = syscall.EINVAL
	probeRound(t, f)
	<-f.kicked
	f.clear()
	if s := f.Stats(); s.QPs != 0 || s.ProbesFailed != 2 {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestQueuePairEvent reaps the peer that asked for what it may not have, when the device says so.
func TestQueuePairEvent(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	f := openModel(t, m, Config{}, "mlx5_0")
	region, err := f.Register(t.Context(), mapped(t, 1<<20), 1<<32, nil)
	must(t, err)
	w := newWheel(t, modelLayer{m}, "mlx5_1", "127.0.0.1:1")
	w.connect(f, own, "mlx5_0", 2)
	must(t, w.do(0, opRead, 0, 1<<20, 1<<32, region.Describe()[0].RKey[0]))
	if err := w.do(0, opRead, 0, 1<<20, 1<<32+1, region.Describe()[0].RKey[0]); err == nil {
		t.Error("reading beyond the end worked")
	}
	<-f.kicked
	f.clear()
	if s := f.Stats(); s.QPs != 0 || s.Disconnected["queue_pair_failed"] != 1 || s.Devices[0].Events["queue_pair"] != 1 {
		t.Errorf("%+v", s)
	}
	w.dropPairs()
	w.connect(f, own, "mlx5_0", 2) // it may come again
	must(t, w.do(1, opWrite, 0, 5, 1<<32, region.Describe()[0].RKey[0]))
	w.vanish()
	must(t, f.Close())
	m.checkEmpty()
}

func listedNames(f *Fabric) (out string) {
	for _, d := range f.Devices() {
		out += d.Name + " "
	}
	return out
}

// TestPortEvents follows ports down and up: the devices and keys are those that work, or all while none does.
func TestPortEvents(t *testing.T) {
	m := newModel(t, "mlx5_0", "mlx5_1")
	f := openModel(t, m, Config{}, "mlx5_0", "mlx5_1")
	region, err := f.Register(t.Context(), mapped(t, 1<<20), 1<<32, nil)
	must(t, err)
	both := region.Describe()[0].RKey
	port := func(device string, active bool, want string) {
		t.Helper()
		m.set(device, func(d *modelDevice) { d.info.active = active }, event{kind: eventPort})
		<-f.Changed()
		if got := listedNames(f); got != want {
			t.Errorf("%s active %v: %s listed, want %s", device, active, got, want)
		}
		if devices, buffers := region.Publish(); len(devices) != len(buffers[0].RKey) || len(devices) != len(buffers[0].LKey) {
			t.Errorf("%d devices, %d keys", len(devices), len(buffers[0].RKey))
		}
	}
	port("mlx5_0", false, "mlx5_1 ")
	if keys := region.Describe()[0].RKey; keys[0] != both[1] {
		t.Errorf("keys %v, with both %v", keys, both)
	}
	port("mlx5_1", false, "mlx5_0 mlx5_1 ")
	port("mlx5_0", true, "mlx5_0 ")
	port("mlx5_1", true, "mlx5_0 mlx5_1 ")
	if s := f.Stats(); s.Devices[0].PortDowns != 1 || s.Devices[1].PortDowns != 1 {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	m.checkEmpty()
}

// TestAddressChange takes the new address, at another place of the table, and ends those who know the old one.
func TestAddressChange(t *testing.T) {
	m := newModel(t, "mlx5_0")
	f := openModel(t, m, Config{Rechoose: func(device string) (Verdict, error) {
		return Verdict{Device: device, Port: 1, GIDIndex: 2, GID: ipv4GID(77)}, nil
	}}, "mlx5_0")
	accepted(t, f, request(nil))
	m.set("mlx5_0", func(d *modelDevice) { d.gids[1] = GID{}; d.gids = append(d.gids, ipv4GID(77)) }, event{kind: eventPort})
	<-f.Changed()
	if got := f.Devices()[0].GID; got != ipv4GID(77).String() {
		t.Errorf("address %s", got)
	}
	<-f.kicked
	f.clear()
	if s := f.Stats(); s.QPs != 0 || s.Disconnected["address_changed"] != 1 {
		t.Errorf("%+v", s)
	}
	answer := accepted(t, f, request(nil))
	m.mu.Lock()
	if to := m.devices["mlx5_0"].opened[0].pairs[answer.QPNum[0]].to; to.gidIndex != 2 {
		t.Errorf("connected from place %d of the table", to.gidIndex)
	}
	m.mu.Unlock()
	must(t, f.Close())
	m.checkEmpty()
}

// TestDeviceGone gives back all that was had of a device, and goes on with the other; without any, nothing is listed.
func TestDeviceGone(t *testing.T) {
	for _, how := range []string{"event", "look"} {
		t.Run(how, func(t *testing.T) {
			m := newModel(t, "mlx5_0", "mlx5_1", "peer")
			f := openModel(t, m, Config{}, "mlx5_0", "mlx5_1")
			region, err := f.Register(t.Context(), mapped(t, 4<<20), 1<<32, nil)
			must(t, err)
			accepted(t, f, request(nil))
			lose := func(device string) {
				if how == "event" {
					m.set(device, func(d *modelDevice) { d.gone = true }, event{kind: eventDevice, name: "device fatal"})
				} else {
					m.mu.Lock()
					m.devices[device].gone = true
					m.mu.Unlock()
					f.rail(device).refresh()
				}
				<-f.Changed()
				<-f.kicked
				f.clear()
			}
			lose("mlx5_0")
			if s := f.Stats(); s.QPs != 0 || s.Devices[0].State != "GONE" || s.Devices[0].Regions != 0 || s.Disconnected["device_gone"] != 1 || m.open != 1 {
				t.Errorf("%d open, %+v", m.open, s)
			}
			refusedWith(t, f, request(nil), `"mlx5_0" is down`)
			devices, buffers := region.Publish()
			if len(devices) != 1 || devices[0].Name != "mlx5_1" || len(buffers[0].RKey) != 1 {
				t.Errorf("%+v %+v", devices, buffers)
			}
			second, err := f.Register(t.Context(), mapped(t, 1<<20), 1<<33, nil) // on what is left
			must(t, err)
			if b := second.Describe(); len(b) != 1 || len(b[0].RKey) != 1 {
				t.Errorf("%+v", b)
			}
			lose("mlx5_1")
			if devices, buffers := region.Publish(); devices != nil || buffers != nil {
				t.Errorf("%+v %+v", devices, buffers)
			}
			must(t, f.Close())
			m.checkEmpty()
		})
	}
}

// TestRun lets time pass: peers that vanish are gone after a probe, and Run ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, "mlx5_0", "mlx5_1")
		f := openModel(t, m, Config{}, "mlx5_0")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		w := newWheel(t, modelLayer{m}, "mlx5_1", "127.0.0.1:1")
		w.connect(f, own, "mlx5_0", 2)
		advance(t, time.Minute)
		if s := f.Stats(); s.QPs != 2 || s.ProbesAnswered < 10 {
			t.Errorf("%+v", s)
		}
		w.vanish()
		advance(t, limits.RDMAProbeMs*time.Millisecond)
		if s := f.Stats(); s.QPs != 0 {
			t.Errorf("%+v", s)
		}
		m.mu.Lock()
		m.devices["mlx5_0"].gone = true // without a word
		m.mu.Unlock()
		advance(t, limits.RDMAProbeMs*time.Millisecond)
		if s := f.Stats(); s.Devices[0].State != "GONE" || m.open != 0 {
			t.Errorf("%+v", s)
		}
		cancel()
		must(t, <-done)
		must(t, f.Close())
		m.checkEmpty()
	})
}

// advance lets the time of a bubble pass.
func advance(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}
