package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

const holderName = "127.0.0.1:17002"

// pairOf is a fabric that copies, and one that holds memory for it.
type pairOf struct {
	m            *modelNet
	f, holder    *Fabric
	clock        *clock
	region       *Region
	ours, theirs []byte
	target       Target
}

const holderBase = 1 << 40

func newPair(t testing.TB, ourDevices, theirDevices []string) *pairOf {
	t.Helper()
	p := &pairOf{m: newModel(t, append(append([]string(nil), ourDevices...), theirDevices...)...), clock: &clock{at: time.Unix(1000, 0)}}
	p.f = openModel(t, p.m, Config{now: p.clock.now}, ourDevices...)
	p.holder = openModel(t, p.m, Config{now: p.clock.now, PartBytes: 2 << 20}, theirDevices...)
	p.ours, p.theirs = mapped(t, 8<<20), mapped(t, 8<<20)
	_, err := p.f.Register(t.Context(), p.ours, 1<<33, nil)
	must(t, err)
	p.publish(t)
	_, err = rand.NewChaCha8([32]byte{}).Read(p.ours)
	must(t, err)
	return p
}

// publish registers the holder's memory, as it does again after a restart.
func (p *pairOf) publish(t testing.TB) {
	t.Helper()
	region, err := p.holder.Register(t.Context(), p.theirs, holderBase, nil)
	must(t, err)
	p.region = region
	s := &descriptor.Segment{Name: holderName, Protocol: descriptor.ProtocolRDMA, TCPProtoVersion: 1}
	s.Devices, s.Buffers = region.Publish()
	for i := range s.Buffers {
		s.Buffers[i].Name = "cpu:0"
	}
	must(t, s.Validate())
	p.target = Target{Self: own, Segment: s, Handshake: p.answer}
}

func (p *pairOf) answer(_ context.Context, req *descriptor.Connection) (*descriptor.Connection, error) {
	answer := p.holder.Accept(holderName, req)
	return &answer, nil
}

func (p *pairOf) close(t testing.TB) {
	t.Helper()
	must(t, p.f.Close())
	must(t, p.holder.Close())
	p.m.checkEmpty()
}

// TestCopies moves bytes of all sizes both ways, out of registered memory and out of other.
func TestCopies(t *testing.T) {
	for _, rails := range [][2][]string{
		{{"a0"}, {"b0"}},
		{{"a0", "a1"}, {"b0", "b1"}},
		{{"a0"}, {"b0", "b1", "b2"}},
		{{"a0", "a1", "a2"}, {"b0"}},
	} {
		t.Run(fmt.Sprint(len(rails[0]), "to", len(rails[1])), func(t *testing.T) {
			p := newPair(t, rails[0], rails[1])
			for _, size := range []int{0, 1, 4095, 65536, 65537, 1<<20 + 3, 8 << 20} {
				clear(p.theirs)
				must(t, p.f.Write(t.Context(), p.target, holderBase, p.ours[:size]))
				back, got := p.ours[len(p.ours)-size:], make([]byte, size)
				must(t, p.f.Read(t.Context(), p.target, holderBase, got))
				if !bytes.Equal(got, p.theirs[:size]) || !bytes.Equal(got, p.ours[:size]) {
					t.Fatalf("%d bytes differ", size)
				}
				if size <= len(p.ours)/2 {
					must(t, p.f.Read(t.Context(), p.target, holderBase, back))
					if !bytes.Equal(back, got) {
						t.Fatalf("%d bytes differ in registered memory", size)
					}
				}
				must(t, p.f.Write(t.Context(), p.target, holderBase+uint64(len(p.theirs)-size), got))
				if !bytes.Equal(got, p.theirs[len(p.theirs)-size:]) {
					t.Fatalf("%d bytes differ at the end", size)
				}
			}
			s := p.f.Stats()
			if want := min(len(rails[0]), len(rails[1])); len(s.Paths) != want || s.CopyRetries != 0 {
				t.Errorf("%d paths, want %d: %+v", len(s.Paths), want, s)
			}
			for _, path := range s.Paths {
				if path.Bytes == 0 || path.Outstanding != 0 {
					t.Errorf("%+v", path)
				}
			}
			p.close(t)
		})
	}
}

// TestCopyOverOtherPath goes on over what works, and remembers for a while what does not.
func TestCopyOverOtherPath(t *testing.T) {
	p := newPair(t, []string{"a0", "a1"}, []string{"b0", "b1"})
	p.m.devices["a0"].cut = true
	got := make([]byte, 4<<20)
	for range 2 {
		must(t, p.f.Write(t.Context(), p.target, holderBase, p.ours[:len(got)]))
		must(t, p.f.Read(t.Context(), p.target, holderBase, got))
		if !bytes.Equal(got, p.ours[:len(got)]) {
			t.Fatal("bytes differ")
		}
	}
	s := p.f.Stats()
	if s.CopyFailures != 0 || s.CopyRetries == 0 || s.Devices[0].Errors == 0 {
		t.Errorf("%+v", s)
	}
	errorsBefore := s.Devices[0].Errors
	must(t, p.f.Write(t.Context(), p.target, holderBase, got))
	if s := p.f.Stats(); s.Devices[0].Errors != errorsBefore {
		t.Error("a path was tried again that had failed a moment ago")
	}
	p.m.devices["a0"].cut = false
	p.clock.at = p.clock.at.Add(limits.RDMARoutePauseMs * time.Millisecond)
	before := p.f.Stats().Devices[0].WriteOps
	must(t, p.f.Write(t.Context(), p.target, holderBase, got))
	if s := p.f.Stats(); s.Devices[0].WriteOps == before {
		t.Errorf("a path was not tried again: %+v", s)
	}
	p.close(t)
}

// TestCopyUnreachable gives up with the error on which callers take another transport.
func TestCopyUnreachable(t *testing.T) {
	p := newPair(t, []string{"a0"}, []string{"b0"})
	check := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	got := make([]byte, 1<<20)
	check(p.f.Read(t.Context(), p.target, holderBase-1, got), "address 0xffffffffff is in no buffer")
	check(p.f.Read(t.Context(), p.target, holderBase+8<<20-1, got), "is in no buffer")
	check(p.f.Read(t.Context(), p.target, 1<<64-1, got), "beyond the end of the address space")
	must(t, p.f.Read(t.Context(), p.target, holderBase, got))
	p.m.devices["b0"].cut = true
	check(p.f.Read(t.Context(), p.target, holderBase, got), "retries exceeded")
	check(p.f.Read(t.Context(), p.target, holderBase, got), "failed a moment ago")
	if s := p.f.Stats(); s.CopyFailures != 5 || len(s.Paths) != 0 || s.Devices[0].QPs != 0 {
		t.Errorf("%+v", s)
	}
	p.m.devices["b0"].cut = false
	p.close(t)
}

// TestCopyAfterRestart connects anew when the holder has restarted; old keys are another matter, for which the caller needs
// a new descriptor.
func TestCopyAfterRestart(t *testing.T) {
	p := newPair(t, []string{"a0"}, []string{"b0"})
	got := make([]byte, 1<<20)
	must(t, p.f.Read(t.Context(), p.target, holderBase, got))
	must(t, p.holder.Close())
	p.holder = openModel(t, p.m, Config{now: p.clock.now}, "b0")
	old := p.target
	p.publish(t)
	if err := p.f.Read(t.Context(), old, holderBase, got); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "remote access error") {
		t.Error(err)
	}
	must(t, p.f.Write(t.Context(), p.target, holderBase, p.ours))
	if !bytes.Equal(p.ours, p.theirs) {
		t.Error("bytes differ")
	}
	p.close(t)
}

// TestCopyHandshakes goes through what a holder may answer.
func TestCopyHandshakes(t *testing.T) {
	var frames []descriptor.Connection
	for _, c := range []struct {
		name   string
		answer func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error)
		frames int
		want   string // of the error
	}{
		{"both frames", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			return p.answer(context.Background(), req)
		}, 2, ""},
		{"an older one", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			answer, err := p.answer(context.Background(), req)
			answer.ReadyAck = nil
			return answer, err
		}, 1, ""},
		{"four queue pairs", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			if len(req.QPNum) != 4 {
				return &descriptor.Connection{ReplyMsg: "QP count mismatch", QPNum: []uint32{1, 2, 3, 4}}, nil
			}
			return p.answer(context.Background(), req)
		}, 3, ""},
		{"nobody", func(*pairOf, *descriptor.Connection) (*descriptor.Connection, error) {
			return nil, syscall.ECONNREFUSED
		}, 1, "connection refused"},
		{"refused", func(*pairOf, *descriptor.Connection) (*descriptor.Connection, error) {
			return &descriptor.Connection{ReplyMsg: "go away"}, nil
		}, 1, "refused: go away"},
		{"without RDMA", func(*pairOf, *descriptor.Connection) (*descriptor.Connection, error) {
			return &descriptor.Connection{}, nil
		}, 1, `answer is for "" and ""`},
		{"for another", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			answer, err := p.answer(context.Background(), req)
			answer.LocalNICPath += "x"
			return answer, err
		}, 1, "answer is for"},
		{"fewer queue pairs", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			answer, err := p.answer(context.Background(), req)
			answer.QPNum = append(answer.QPNum, answer.QPNum...)
			return answer, err
		}, 2, "answer has 8 queue pairs, want 4"},
		{"no address", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			answer, err := p.answer(context.Background(), req)
			answer.LocalGID = "fe80::1"
			return answer, err
		}, 1, "local_gid of the answer"},
		{"second refused", func(p *pairOf, req *descriptor.Connection) (*descriptor.Connection, error) {
			if req.Ready() {
				return &descriptor.Connection{ReplyMsg: "stale"}, nil
			}
			return p.answer(context.Background(), req)
		}, 2, "refused: stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, []string{"a0"}, []string{"b0"})
			frames = nil
			p.target.Handshake = func(_ context.Context, req *descriptor.Connection) (*descriptor.Connection, error) {
				frames = append(frames, *req)
				return c.answer(p, req)
			}
			err := p.f.Write(t.Context(), p.target, holderBase, p.ours[:100])
			if (err == nil) != (c.want == "") || err != nil && !(errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if len(frames) != c.frames {
				t.Errorf("%d frames, want %d: %+v", len(frames), c.frames, frames)
			}
			if first := frames[0]; first.LocalNICPath != own+"@a0#copy" || first.PeerNICPath != holderName+"@b0" || len(first.QPNum) != 2 || first.LocalGID != ipv4GID(1).String() {
				t.Errorf("%+v", first)
			}
			p.close(t)
		})
	}
}

// TestCopyEnds returns when the context does, but not before the devices let go of the memory.
func TestCopyEnds(t *testing.T) {
	p := newPair(t, []string{"a0"}, []string{"b0"})
	got := make([]byte, 100)
	must(t, p.f.Read(t.Context(), p.target, holderBase, got))
	p.m.mu.Lock()
	p.m.hold = true
	p.m.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.f.Read(ctx, p.target, holderBase, p.ours) }()
	for len(p.f.Stats().Paths) == 0 || p.f.Stats().Paths[0].Outstanding == 0 {
		// the copy has not begun
	}
	cancel()
	select {
	case err := <-done:
		t.Errorf("returned while work is under way: %v", err)
	default:
	}
	p.m.release()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	must(t, p.f.Read(t.Context(), p.target, holderBase, p.ours))
	if err := p.f.Read(ctx, p.target, holderBase, p.ours); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.close(t)
}

// TestCopyCrowd runs many copies at once, more than there are bounce buffers, while routes are dropped under them.
func TestCopyCrowd(t *testing.T) {
	p := newPair(t, []string{"a0", "a1"}, []string{"b0", "b1"})
	must(t, p.f.Write(t.Context(), p.target, holderBase, p.ours))
	var crowd sync.WaitGroup
	var failed sync.Map
	for i := range 12 {
		crowd.Go(func() {
			got := make([]byte, 3<<20)
			for round := range 10 {
				at := (i*10 + round) * 4099
				if err := p.f.Read(t.Context(), p.target, holderBase+uint64(at), got); err != nil {
					failed.Store(err.Error(), true)
				} else if !bytes.Equal(got, p.theirs[at:at+len(got)]) {
					t.Errorf("bytes differ")
				}
			}
		})
	}
	crowd.Go(func() {
		for range 20 {
			p.f.dropRoutes(nil)
		}
	})
	crowd.Wait()
	failed.Range(func(err, _ any) bool {
		if !strings.Contains(err.(string), "abandoned") && !strings.Contains(err.(string), "given up") && !strings.Contains(err.(string), "moment ago") {
			t.Errorf("%v", err)
		}
		return true
	})
	p.close(t)
}

// TestRoutesExpire closes what no copy uses, and what hangs on a device that is lost.
func TestRoutesExpire(t *testing.T) {
	p := newPair(t, []string{"a0", "a1"}, []string{"b0", "b1"})
	got := make([]byte, 1<<20)
	must(t, p.f.Read(t.Context(), p.target, holderBase, got))
	p.f.expire()
	if s := p.f.Stats(); len(s.Paths) != 2 {
		t.Errorf("%+v", s.Paths)
	}
	p.f.rail("a0").lose(syscall.EIO)
	p.f.clear()
	must(t, p.f.Read(t.Context(), p.target, holderBase, got))
	for _, path := range p.f.Stats().Paths {
		if path.Device != "a1" {
			t.Errorf("%+v", path)
		}
	}
	p.clock.at = p.clock.at.Add(limits.RDMARouteIdleMs * time.Millisecond)
	p.f.expire()
	if s := p.f.Stats(); len(s.Paths) != 0 || s.Devices[1].QPs != 0 {
		t.Errorf("%+v", s)
	}
	p.close(t)
}

// TestRounds connects and disconnects two hundred times both ways; nothing is left.
func TestRounds(t *testing.T) {
	p := newPair(t, []string{"a0"}, []string{"b0"})
	for range 200 {
		must(t, p.f.Write(t.Context(), p.target, holderBase, p.ours[:10]))
		p.f.dropRoutes(nil)
		for _, peer := range p.holder.snapshot() {
			peer.doom(unanswered)
		}
		p.holder.clear()
		if p.m.qps != 0 {
			t.Fatalf("%d queue pairs left", p.m.qps)
		}
	}
	p.close(t)
}

// TestPreferred puts devices that are near to the memory first, and every rail on another one.
func TestPreferred(t *testing.T) {
	s := &descriptor.Segment{
		Devices:        []descriptor.Device{{Name: "d0"}, {Name: "d1"}, {Name: "d2"}},
		PriorityMatrix: map[string]descriptor.NICPreference{"cpu:1": {{"d2"}, {"d0", "d7"}}, "*": {{"d1"}, nil}},
	}
	for location, want := range map[string]string{"cpu:1": "[2 0 1]", "cpu:0": "[1 0 2]"} {
		if got := fmt.Sprint(preferred(s, &descriptor.Buffer{Name: location})); got != want {
			t.Errorf("%s: %s, want %s", location, got, want)
		}
	}
	ls := legsTo([]*rail{{name: "r0"}, {name: "r1"}}, s, &descriptor.Buffer{Name: "cpu:1"})
	var got []string
	for _, l := range ls.all {
		got = append(got, l.rail.name+l.device)
	}
	if want := "[r0d2 r1d0 r0d0 r1d1 r0d1 r1d2]"; fmt.Sprint(got) != want || ls.width != 2 {
		t.Errorf("%v of width %d, want %s", got, ls.width, want)
	}
}
