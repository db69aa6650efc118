package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mooncake/wire"
)

// What the daemons may take of crafted input.
const (
	hostileSenders  = 200
	hostileGrowth   = 50 << 20 // bytes of each daemon
	hostileSlowdown = 2.0      // of the 99th percentile of a client's reads; judged when soaking only
)

// TestHostileInput sends crafted and random frames and headers to the call, data and handshake ports, while slow senders hold
// connections there, and a client reads: no read fails, neither daemon grows, and nothing stays open. When soaking it is ten
// thousand messages, and the client's slow reads are compared with those of a quiet time.
func TestHostileInput(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	s := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	st := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	items := itemsOf("steady/", 20, func(i int) int64 { return int64(4096 * (i + 1)) })
	for _, i := range items {
		put(t, st, i, nil)
	}
	handshake := segments(t, m, 1)[0].Endpoint
	ports := []hostilePort{{m.RPC, callFrames}, {handshake, handshakeFrames}, {dataPort(t, handshake), dataFrames}}

	rounds, reads := repeat(1, 5), repeat(1500, 5000)
	var quiet, noisy []float64
	descriptorsBefore := [2]int{descriptors(t, m.Pid()), descriptors(t, s.Pid())}
	for round := range rounds {
		quiet = append(quiet, steadyReads(t, st, items, reads, round))
		before := [2]int64{ownMemory(t, m.Pid()), ownMemory(t, s.Pid())}
		sent, stop := harass(t, ports, repeat(1500, 10_000)/rounds, uint64(round))
		noisy = append(noisy, steadyReads(t, st, items, reads, round))
		sent()
		for n, pid := range []int{m.Pid(), s.Pid()} {
			if grown := ownMemory(t, pid) - before[n]; grown > hostileGrowth {
				t.Errorf("round %d: %s grew by %d MiB", round, []string{"the master", "the segment daemon"}[n], grown>>20)
			}
		}
		stop()
	}
	t.Logf("99th percentile of reads in ms: quiet %.2f, under fire %.2f", quiet, noisy)
	// The best of the noisy rounds: others use this machine too, and the daemons have the race detector.
	if slices.Sort(quiet); *soak && slices.Min(noisy) > hostileSlowdown*quiet[len(quiet)/2] {
		t.Errorf("reads take more than %v times as long under fire", hostileSlowdown)
	}
	eventually(t, 120*time.Second, fmt.Sprintf("back to %v descriptors (+16)", descriptorsBefore), func() bool {
		return descriptors(t, m.Pid()) <= descriptorsBefore[0]+16 && descriptors(t, s.Pid()) <= descriptorsBefore[1]+16
	})
}

// steadyReads has the well-behaved client read; none may fail. It answers with the 99th percentile.
func steadyReads(t *testing.T, st *Store, items []Item, reads, dice int) float64 {
	t.Helper()
	got, err := st.ReadMany(items, reads, 2, dice)
	if err != nil || got.Failed != 0 {
		t.Errorf("%d of %d reads failed: %q, %v", got.Failed, got.Reads, got.First, err)
	}
	return got.P99Ms
}

// hostilePort is a port and what is sent to it.
type hostilePort struct {
	addr   string
	frames func(dice *rand.Rand) []byte
}

// harass sends messages to the ports, in turn, beside slow senders. The functions it returns wait for the last message, and end
// the slow senders.
func harass(t *testing.T, ports []hostilePort, messages int, seed uint64) (sent, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var slow, quick sync.WaitGroup
	for n := range hostileSenders {
		p := ports[n%len(ports)]
		slow.Go(func() { dribble(ctx, p, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	var next atomic.Int64
	for w := range 4 {
		quick.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(1000+w)))
			pace := time.NewTicker(time.Duration(repeat(1, 10)) * time.Millisecond)
			defer pace.Stop()
			for n := next.Add(1) - 1; n < int64(messages); n = next.Add(1) - 1 {
				<-pace.C // this process is to leave the processors to the daemons and to the client
				p := ports[n%int64(len(ports))]
				if err := say(p.addr, p.frames(dice), dice.IntN(2) == 0); err != nil {
					t.Errorf("%s does not take connections any more: %v", p.addr, err)
					return
				}
			}
		})
	}
	return quick.Wait, func() {
		cancel()
		slow.Wait()
	}
}

// dribble holds connections to a port and sends a few bytes of a message at a time, until ctx ends.
func dribble(ctx context.Context, p hostilePort, dice *rand.Rand) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return // the port is full, or ctx has ended
		}
		message := append(p.frames(dice), bytes.Repeat([]byte{21}, 1<<16)...)
		for at := 0; at < len(message); {
			n := min(1+dice.IntN(64), len(message)-at)
			if _, err := conn.Write(message[at : at+n]); err != nil {
				break // the daemon has had enough
			}
			at += n
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			}
			break
		}
		_ = conn.Close() // it may be closed already
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// callFrames makes a call of some release wrong in some way. Calls that would change something that the client reads are none
// of them.
func callFrames(dice *rand.Rand) []byte {
	le := binary.LittleEndian
	header := func(function uint32, body, attachment uint32) []byte {
		h := []byte{21, 0, 0, 0}
		for _, v := range []uint32{dice.Uint32(), function, body, attachment} {
			h = le.AppendUint32(h, v)
		}
		return h
	}
	key := strings.Repeat("k", dice.IntN(300))
	var function uint32
	var body []byte
	switch dice.IntN(5) {
	case 0:
		function, body = wire.ExistKey.ID.FunctionID(), wire.ExistKey.AppendRequest(nil, wire.V13, &wire.ExistKeyRequest{Key: key})
	case 1:
		function, body = wire.GetReplicaList.ID.FunctionID(), wire.GetReplicaList.AppendRequest(nil, wire.V13, &wire.GetReplicaListRequest{Key: key})
	case 2:
		function, body = wire.BatchExistKey.ID.FunctionID(), wire.BatchExistKey.AppendRequest(nil, wire.V12, &wire.BatchExistKeyRequest{Keys: []string{key, "", key}})
	case 3:
		function, body = wire.Ping.ID.FunctionID(), wire.Ping.AppendRequest(nil, wire.V14, &wire.PingRequest{})
	default:
		function, body = dice.Uint32(), noise(dice, dice.IntN(2000))
	}
	length := uint32(len(body))
	switch dice.IntN(7) {
	case 0: // some bits are wrong
		for range 1 + dice.IntN(8) {
			if len(body) > 0 {
				body[dice.IntN(len(body))] ^= byte(1 << dice.IntN(8))
			}
		}
	case 1: // a count inside says too much
		if len(body) >= 12 {
			le.PutUint32(body[4+dice.IntN(len(body)-8):], dice.Uint32())
		}
	case 2: // it ends too early
		length += uint32(dice.IntN(1 << 20))
	case 3: // a length nobody takes
		length = dice.Uint32() | 1<<31
	case 4: // an attachment that never comes
		return append(header(function, length, dice.Uint32()), body...)
	case 5: // several at once, the last one broken
		one := append(header(function, length, 0), body...)
		return append(bytes.Repeat(one, 1+dice.IntN(50)), one[:dice.IntN(len(one))]...)
	case 6: // nothing of it
		return noise(dice, 1+dice.IntN(4000))
	}
	return append(header(function, length, 0), body...)
}

// handshakeFrames makes a request for a descriptor wrong in some way.
func handshakeFrames(dice *rand.Rand) []byte {
	frame := func(length uint64, kind byte, text string) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, length), kind), text...)
	}
	texts := []string{
		`{}`, `null`, `[]`, `"x"`, `{"name":7}`, `{"name":"` + strings.Repeat("x", 5000) + `"}`, `{"buffers":[` + strings.Repeat(`{"addr":1},`, 500) + `{}]}`,
		strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 5000), `{"devices":{"name":{}},"protocol":["rdma"]}`, `{"tcp_data_port":99999999999999999999}`, "{\"a\":\"\xff\xfe\"}",
		`{"local_nic_path":"x@y","peer_nic_path":"` + strings.Repeat("@", 3000) + `","qp_num":[1,-1,4294967296]}`,
	}
	text := texts[dice.IntN(len(texts))]
	kind := byte(dice.IntN(6))
	switch dice.IntN(5) {
	case 0:
		return frame(uint64(len(text)+1), kind, text)
	case 1:
		return frame(uint64(len(text)+1+dice.IntN(1<<20)), kind, text) // the rest never comes
	case 2:
		return frame(dice.Uint64(), kind, text)
	case 3:
		return frame(uint64(dice.IntN(3)), kind, text)
	}
	return noise(dice, 1+dice.IntN(4000))
}

// dataFrames makes a request of the data port wrong in some way. Its addresses are none of the segment's, but for the chance of
// one in a million million.
func dataFrames(dice *rand.Rand) []byte {
	header := func(op byte, address, size uint64) []byte {
		h := readHeader(address, size)
		h[16] = op
		return h
	}
	switch op := byte(dice.IntN(256)); dice.IntN(5) {
	case 0:
		return header(op, dice.Uint64(), dice.Uint64())
	case 1:
		return append(header(1, dice.Uint64(), uint64(dice.IntN(1<<20))), noise(dice, 1000)...) // a write to nowhere
	case 2:
		return header(0, ^uint64(0)-uint64(dice.IntN(100)), uint64(dice.IntN(200)))
	case 3:
		return header(0, dice.Uint64(), 0)[:dice.IntN(24)]
	}
	return noise(dice, 1+dice.IntN(4000))
}

func noise(dice *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(dice.IntN(256))
	}
	return out
}

// ownMemory is what a process holds besides files and shared memory.
func ownMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no RssAnon of process %d", pid)
	return 0
}
