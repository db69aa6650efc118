package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"mooncake/bench/data"
	"mooncake/bench/figures"
	"mooncake/interop"
)

// Names of those that move bytes besides the daemons: the client in Go, and bare connections by their number.
const (
	goClient = "go"
	bare     = "raw"
)

const (
	rawServeCommand = "raw-serve"
	mountLimit      = 30 * time.Second
	// keptShare is how much of the memory objects may take while they are moved, in percent. Our master keeps ranges that
	// readers were given out of use for ten seconds after their removal: those of several phases must fit beside each other.
	keptShare = 12
	// divided is the size from which on bare connections and the client in Go divide an object.
	divided = 8 << 20
)

// house is a master with a segment and clients.
type house struct {
	name   string
	holder int // process that holds the memory
	wheels data.Wheels
	grpc   string // ours only
}

// suiteData moves objects of all sizes by wheels through every contestant's segment, by the client in Go through ours, and over
// bare connections.
func suiteData(ctx context.Context, b *bench) (err error) {
	var houses []*house
	most := 0
	for _, n := range b.clients {
		most = max(most, n)
	}
	for _, who := range slices.Concat(b.contestants, b.segments) {
		if who.command != nil {
			continue // a master given as a command has no segment daemon
		}
		h, err := b.furnish(ctx, who, most, b.room)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		houses = append(houses, h)
	}
	raw, rawPid, err := b.serveRaw()
	if err != nil {
		return err
	}
	for round := range b.rounds {
		for _, size := range b.dataSizes {
			for _, n := range b.clients {
				if size*int64(n)*4/3 > b.room {
					continue
				}
				if err := b.rawRound(ctx, raw, rawPid, size, n, round); err != nil {
					return err
				}
				if err := b.moveRound(ctx, houses, size, n, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// furnish starts master, segment with so much memory, and clients.
func (b *bench) furnish(ctx context.Context, who contestant, clients int, room int64) (*house, error) {
	m, err := b.rig.StartMaster(interop.MasterOptions{Release: who.release})
	if err != nil {
		return nil, err
	}
	h, release := &house{name: who.name, grpc: m.GRPC}, who.release
	if who.release == 0 {
		release = interop.R13
		o := interop.SegmentOptions{Master: m.RPC, SizeBytes: room, Flags: interop.MemoryFound}
		if who.segment != nil {
			o.Program, o.Flags = who.segment[0], slices.Concat(o.Flags, who.segment[1:])
		}
		s, err := b.rig.StartSegment(o)
		if err != nil {
			return nil, err
		}
		h.holder = s.Pid()
	} else {
		w, err := data.StartWheel(b.rig, release, m.RPC, room)
		if err != nil {
			return nil, err
		}
		h.holder = w.Pid()
	}
	if _, err := m.WaitSegments(1, mountLimit); err != nil {
		return nil, err
	}
	for range clients {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w, err := data.StartWheel(b.rig, release, m.RPC, 0)
		if err != nil {
			return nil, err
		}
		h.wheels = append(h.wheels, w)
	}
	return h, nil
}

// serveRaw starts this program once more, as the other end of bare connections.
func (b *bench) serveRaw() (address string, pid int, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", 0, err
	}
	ports, err := b.rig.TakePorts(1)
	if err != nil {
		return "", 0, err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	cmd := exec.Command(program, rawServeCommand, address, strconv.FormatInt(b.room, 10))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, err
	}
	p, err := b.rig.Start("bare connections", cmd)
	if err != nil {
		return "", 0, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return "", 0, fmt.Errorf("%s does not say that it serves: %q: %w", p.Name, line, err)
	}
	return address, p.Pid(), nil
}

// serveRawHere is that other end: it says when it serves, and ends with a signal.
func serveRawHere(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want an address and a number of bytes", rawServeCommand)
	}
	bytes, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("%s: %q is no number of bytes", rawServeCommand, args[1])
	}
	ln, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	return data.ServeRaw(ctx, ln, bytes, func() { fmt.Println("serves") })
}

// dataPhase names a phase.
func dataPhase(what string, size int64, clients int) string {
	unit := "KiB"
	if size >>= 10; size >= 1024 {
		size, unit = size>>10, "MiB"
	}
	return fmt.Sprintf("%s %d %s x%d", what, size, unit, clients)
}

// streamsOf are the numbers of connections over which bare objects go.
func streamsOf(size int64) []int {
	if size >= divided {
		return []int{1, 4}
	}
	return []int{1}
}

func (b *bench) rawRound(ctx context.Context, address string, pid int, size int64, clients, round int) error {
	for _, streams := range streamsOf(size) {
		for _, what := range []string{"put", "get"} {
			r := data.RawClients{Address: address, Clients: clients, Streams: streams, Bytes: b.room}
			p := data.Phase{What: what, Size: size, Seconds: b.phase.Seconds() / 2}
			who := fmt.Sprintf("%s%d", bare, streams)
			if err := b.moving(ctx, pid, who, dataPhase(what, size, clients), round, r, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveRound moves by the wheels of every house, and by the client in Go.
func (b *bench) moveRound(ctx context.Context, houses []*house, size int64, clients, round int) error {
	for _, what := range []string{"put", "get"} {
		for _, h := range order(houses, round) {
			p := data.Phase{
				What: what, Size: size, Seconds: b.phase.Seconds(), Budget: b.room * keptShare / 100,
				Tag: fmt.Sprintf("%s/%d/%d/%d", what, size, clients, round),
			}
			if err := b.moving(ctx, h.holder, h.name, dataPhase(what, size, clients), round, h.wheels[:clients], p); err != nil {
				return err
			}
			if h.name != ours {
				continue
			}
			p.Tag = goClient + "/" + p.Tag
			if err := b.goRound(ctx, h, p, clients, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// moving runs a phase and keeps its numbers. What the holder used is counted without the writing of what is then read, and
// once more with it.
func (b *bench) moving(ctx context.Context, holder int, who, phase string, round int, m data.Mover, p data.Phase) error {
	empty, err := figures.Read(holder)
	if err != nil {
		return err
	}
	if err := m.Fill(ctx, p); err != nil {
		return fmt.Errorf("%s, %s: %w", who, phase, err)
	}
	before, err := figures.Read(holder)
	if err != nil {
		return err
	}
	all, err := m.Move(ctx, p)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", who, phase, err)
	}
	after, err := figures.Read(holder)
	if err != nil {
		return err
	}
	if err := m.Clear(ctx, p); err != nil {
		return fmt.Errorf("%s, %s: %w", who, phase, err)
	}
	rate, sum := data.Together(all)
	if sum.Errors > 0 {
		return fmt.Errorf("%s, %s: %d of %d objects were not moved", who, phase, sum.Errors, sum.Count)
	}
	u := figures.Between(before, after)
	gb := float64(sum.Bytes) / 1e9
	v := map[string]float64{
		"gb_s": rate, "cpu_s_gb": processor(u).Seconds() / gb, "filled_cpu_s_gb": processor(figures.Between(empty, after)).Seconds() / gb,
		"p50_us": sum.P50 * 1e6, "p99_us": sum.P99 * 1e6, "others_cpu": u.Others.Seconds() / u.Wall.Seconds(), "count": float64(sum.Count),
	}
	if sum.CPU > 0 {
		v["client_cpu_s_gb"] = sum.CPU / gb
	}
	b.note(phase, who, round, v)
	return nil
}
