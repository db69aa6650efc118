package master

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mooncake/internal/limits"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// unharmed does something bad to a master while another client works. The other client must not notice, and afterwards
// everything must be as before: connections, goroutines, descriptors and what the catalog holds.
func (b *bed) unharmed(t *testing.T, bad func()) {
	t.Helper()
	bystander := b.client(wire.V14)
	conns, goroutines, files, stats := b.conns(), runtime.NumGoroutine(), openFiles(t), b.service.cat.Stats()
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		rounds := 0
		defer func() { stopped <- rounds }()
		for {
			bystander.put("bystander", 9)
			if got := bystander.get("bystander"); got.Err != 0 {
				t.Errorf("the other client's get: %v", got.Err)
				return
			}
			if code := bystander.remove("bystander", true); code != 0 {
				t.Errorf("the other client's remove: %v", code)
				return
			}
			rounds++
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	bad()
	close(stop)
	if rounds := <-stopped; rounds == 0 {
		t.Error("the other client got nothing done")
	}
	left := func() string {
		if b.conns() <= conns && runtime.NumGoroutine() <= goroutines+2 && openFiles(t) <= files+2 && b.parked() == 0 {
			return ""
		}
		return fmt.Sprintf("%d connections of %d, %d goroutines of %d, %d descriptors of %d, %d parked replies",
			b.conns(), conns, runtime.NumGoroutine(), goroutines, openFiles(t), files, b.parked())
	}
	t.Cleanup(func() {
		if what := left(); t.Failed() && what != "" {
			stacks := make([]byte, 1<<20)
			t.Logf("left when it failed: %s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	})
	waitFor(t, "what the bad input opened to be closed", func() bool { return left() == "" })
	now := b.service.cat.Stats()
	stats.PutStartAllocFailures, now.PutStartAllocFailures = 0, 0 // figures of what happened, not of what is there
	stats.EvictionAttempts, now.EvictionAttempts = 0, 0
	stats.PutStartPartialAllocs, now.PutStartPartialAllocs = 0, 0
	stats.ArenaBytes, now.ArenaBytes = 0, 0
	stats.QuarantinedBytes, now.QuarantinedBytes = 0, 0 // what the other client read and removed waits for its time
	stats.SuspectClients, now.SuspectClients = 0, 0     // the bed's own client does not ping
	if now != stats {
		t.Errorf("left behind:\n%+v\nbefore:\n%+v", now, stats)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// withPool is a master with one segment to put on.
func withPool(t *testing.T) *bed {
	b := newBed(t)
	b.client(wire.V13).mount("pool", 1<<44, 64*mib)
	return b
}

// badBodies are requests that cannot be read: each is answered with code 4 and the connection stays.
func badBodies() map[string][]byte {
	put := wire.PutStart.AppendRequest(nil, wire.V13, &wire.PutStartRequest{Key: "some key", Size: 1, Config: oneCopy()})
	exist := wire.ExistKey.AppendRequest(nil, wire.V13, &wire.ExistKeyRequest{Key: "some key"})
	edited := func(body []byte, edit func(b []byte) []byte) []byte { return edit(append([]byte(nil), body...)) }
	huge := func(length uint64) []byte { // the same hash, lengths of eight bytes, no literal
		b := binary.LittleEndian.AppendUint32(nil, binary.LittleEndian.Uint32(exist)|1)
		b = append(b, 3<<3)
		return append(binary.LittleEndian.AppendUint64(b, length), "some key"...)
	}
	return map[string][]byte{
		"nothing":              nil,
		"half a hash":          exist[:3],
		"unknown hash":         edited(exist, func(b []byte) []byte { b[2] ^= 0xff; return b }),
		"hash of another call": put,
		"foreign literal":      edited(exist, func(b []byte) []byte { b[7] ^= 1; return b }),
		"cut in the literal":   exist[:8],
		"cut in the key":       exist[:len(exist)-4],
		"key of 1 TiB":         huge(1 << 40),
		"key of 2^63":          huge(1 << 63),
		"key of 2^64-1":        huge(1<<64 - 1),
		"head only":            exist[:4],
	}
}

func TestUnreadableBodies(t *testing.T) {
	b := withPool(t)
	b.unharmed(t, func() {
		p := b.client(wire.V13)
		for name, body := range badBodies() {
			code, reply, err := p.Call(t.Context(), wire.CallExistKey.FunctionID(), body)
			if err != nil || code != rpc.CodeInvalidArgs || rpc.ErrorText(reply) != rpc.TextInvalidArgs {
				t.Errorf("%s: code %d, %q, %v", name, code, rpc.ErrorText(reply), err)
			}
		}
		for _, id := range []uint32{0, 1, 0xdeadbeef, 0xffffffff} {
			code, reply, err := p.Call(t.Context(), id, nil)
			if err != nil || code != rpc.CodeUnknownFunction || rpc.ErrorText(reply) != rpc.TextUnknownFunction {
				t.Errorf("function %#x: code %d, %q, %v", id, code, rpc.ErrorText(reply), err)
			}
		}
		for _, c := range everyCall {
			if code, _, err := p.Call(t.Context(), c.id.FunctionID(), []byte("\x00\x00\x00\x00nonsense")); err != nil || code != rpc.CodeInvalidArgs && code != rpc.CodeOK {
				t.Errorf("%s with nonsense: code %d, %v", c.id, code, err)
			}
		}
		expect(t, "the connection serves on", p.exists("k"), false)
		_ = p.caller.(*rpc.Client).Close()
	})
}

// TestTolerated has what is odd and yet right: it is answered like anything else.
func TestTolerated(t *testing.T) {
	b := withPool(t)
	l := b.line(b.Ports().RPC, addressA)
	exist := wire.ExistKey.AppendRequest(nil, wire.V13, &wire.ExistKeyRequest{Key: "k"})
	plain := func() []byte { // no meta byte: no literal, lengths of one byte
		body := binary.LittleEndian.AppendUint32(nil, binary.LittleEndian.Uint32(exist)&^1)
		return append(body, "\x01k\x00"...)
	}()
	for name, tc := range map[string]struct {
		call wire.CallID
		body []byte
	}{
		"bytes behind the arguments":           {wire.CallExistKey, append(exist[:len(exist):len(exist)], "more"...)},
		"no literal":                           {wire.CallExistKey, plain},
		"arguments for a call that has none":   {wire.CallServiceReady, []byte("arguments")},
		"a call without arguments or anything": {wire.CallGetStorageConfig, nil},
	} {
		if code, _, err := l.Call(t.Context(), tc.call.FunctionID(), tc.body); err != nil || code != rpc.CodeOK {
			t.Errorf("%s: code %d, %v", name, code, err)
		}
	}
	frame := requestFrame(l.seq, wire.CallExistKey.FunctionID(), exist)
	l.seq++
	frame[3] = 77 // message type, which nobody looks at
	binary.LittleEndian.PutUint32(frame[16:], 10_000)
	if _, err := l.Write(append(frame, make([]byte, 10_000)...)); err != nil { // an attachment, which nobody wants
		t.Fatal(err)
	}
	if _, code, _, err := l.receive(); err != nil || code != rpc.CodeOK {
		t.Errorf("attachment: code %d, %v", code, err)
	}
}

// TestForeignFrames speaks other protocols, or this one wrongly: the connection is closed without a word.
func TestForeignFrames(t *testing.T) {
	b := withPool(t)
	frame := func(edit func(f []byte)) []byte {
		f := requestFrame(0, wire.CallExistKey.FunctionID(), nil)
		edit(f)
		return f
	}
	messages := map[string][]byte{
		"another magic":         frame(func(f []byte) { f[0] = 22 }),
		"version 1":             frame(func(f []byte) { f[1] = 1 }),
		"another serialization": frame(func(f []byte) { f[2] = 1 }),
		"4 GiB announced":       frame(func(f []byte) { binary.LittleEndian.PutUint32(f[12:], 0xffffffff) }),
		"4 GiB of attachment":   frame(func(f []byte) { binary.LittleEndian.PutUint32(f[16:], 0xffffffff) }),
		"HTTP":                  []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                   []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
		"one byte":              {0},
		"the RDMA greeting":     append([]byte{0x3e, 0x3b, 0xe3, 0xa2}, make([]byte, 32)...),
	}
	b.unharmed(t, func() {
		for name, message := range messages {
			l := b.line(b.Ports().RPC, addressA)
			if _, err := l.Write(message); err != nil {
				t.Fatal(err)
			}
			if err := l.ended(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = l.Close()
		}
	})
	if lines := b.complaints(); len(lines) != 0 {
		t.Errorf("logged: %q", lines)
	}
}

// TestHalfFramesAndGarbage sends random bytes, broken real frames and halves of frames to all ports, and leaves.
func TestHalfFramesAndGarbage(t *testing.T) {
	b := newBed(t, func(c *Config) { c.MetadataServer, c.RPCPortV12 = true, 0 })
	b.client(wire.V13).mount("pool", 1<<44, 64*mib)
	dice := rand.New(rand.NewPCG(1, 2))
	read := requestFrame(0, wire.CallBatchGetReplicaList.FunctionID(), // a broken byte of a put may be a put, too
		wire.BatchGetReplicaList.AppendRequest(nil, wire.V14, &wire.BatchGetReplicaListRequest{Keys: []string{"one", "two"}}))
	b.unharmed(t, func() {
		for _, port := range []int{b.Ports().RPC, b.Ports().RPCV12, b.Ports().Metrics, b.Ports().Metadata} {
			for range 100 {
				c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
				if err != nil {
					t.Fatal(err)
				}
				var message []byte
				switch dice.IntN(3) {
				case 0:
					message = read[:dice.IntN(len(read))]
				case 1:
					message = append(message, read...)
					message[dice.IntN(len(message))] ^= byte(1 + dice.IntN(255))
				default:
					for range dice.IntN(400) {
						message = append(message, byte(dice.Uint32()))
					}
				}
				_, _ = c.Write(message) // it may be closed meanwhile
				_ = c.Close()
			}
		}
	})
}

func TestLongKeys(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		for _, n := range []int{255, 256, 65_535, 65_536, 70_000, limits.KeyBytesMax} {
			key := strings.Repeat("k", n)
			p.put(key, 1)
			expect(t, fmt.Sprint("exist of ", n), p.exists(key), true)
			expect(t, fmt.Sprint("get of ", n), p.get(key).Err, 0)
			expect(t, fmt.Sprint("remove of ", n), p.remove(key, true), 0)
		}
		long := strings.Repeat("k", limits.KeyBytesMax+1)
		expect(t, "put of too long a key", p.putStart(long, 1).Err, wire.ErrInvalidParams)
		expect(t, "exist", p.exists(long), false)
		expect(t, "get", p.get(long).Err, wire.ErrObjectNotFound)
		expect(t, "remove", p.remove(long, true), wire.ErrObjectNotFound)
		cfg := oneCopy()
		cfg.GroupIDs = wire.Some([]string{long})
		put := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "k", Size: 1, Config: cfg})
		expect(t, "put into too long a group", put.Err, wire.ErrInvalidParams)
		seg := wire.Segment{ID: newID(), Name: strings.Repeat("n", limits.MountTextBytes+1), Base: 1, Size: 1}
		expect(t, "mount under too long a name", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, wire.ErrInvalidParams)
		remount := wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: newID()}
		expect(t, "remount under too long a name", invoke(p, &wire.ReMountSegment, &remount).Err, wire.ErrInvalidParams)
		expect(t, "segments", len(b.service.cat.Segments()), 1)
	})
}

// TestOddKeys puts, reads and removes keys of any bytes.
func TestOddKeysOnTheWire(t *testing.T) {
	b := withPool(t)
	peers := map[wire.Dialect]*peer{}
	for _, d := range dialects {
		peers[d] = b.client(d)
	}
	rapid.Check(t, func(r *rapid.T) {
		key := string(rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(r, "key"))
		writer := peers[rapid.SampledFrom(dialects).Draw(r, "writer")]
		reader := peers[rapid.SampledFrom(dialects).Draw(r, "reader")]
		writer.put(key, 1)
		if !reader.exists(key) || reader.get(key).Err != 0 {
			r.Fatalf("%q is not there", key)
		}
		found := 0
		for k := range b.service.cat.Keys {
			if k == key {
				found++
			}
		}
		if found != 1 || reader.remove(key, false) != wire.ErrObjectHasLease || reader.remove(key, true) != 0 || reader.exists(key) {
			r.Fatalf("%q is listed %d times, or does not go", key, found)
		}
	})
}

// TestLargeBatches has batches as large as any trainer makes, and one with one key a thousand times.
func TestLargeBatches(t *testing.T) {
	const n = 100_000
	b := withPool(t)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("rollout/step_12/of a large batch/%06d", i)
	}
	b.unharmed(t, func() {
		p := b.client(wire.V13)
		all := make([]uint64, n)
		for i := range all {
			all[i] = 16
		}
		failed := func(codes []wire.ErrorCode) (n int) {
			for _, c := range codes {
				if c != 0 {
					n++
				}
			}
			return n
		}
		begun := invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: keys, Sizes: all, Config: oneCopy()})
		expect(t, "puts refused", failed(codesOf(begun)), 0)
		ended := invoke(p, &wire.BatchPutEnd, &wire.BatchPutEndRequest{ClientID: p.id, Objects: metas(keys...), ReplicaType: wire.ReplicaTypeAll})
		expect(t, "ends refused", failed(codesOf(ended)), 0)
		got := invoke(p, &wire.BatchGetReplicaList, &wire.BatchGetReplicaListRequest{Keys: keys})
		expect(t, "gets refused", failed(codesOf(got)), 0)
		exist := invoke(p, &wire.BatchExistKey, &wire.BatchExistKeyRequest{Keys: keys})
		expect(t, "items of exist", len(exist), n)
		removed := invoke(p, &wire.BatchRemove, &wire.BatchRemoveRequest{Keys: keys, Force: true})
		expect(t, "removes refused", failed(codesOf(removed)), 0)

		same := make([]string, 1000)
		for i := range same {
			same[i] = "same"
		}
		begun = invoke(p, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: p.id, Keys: same, Sizes: all[:1000], Config: oneCopy()})
		expect(t, "puts of the same key refused", failed(codesOf(begun)), 999)
		revoke := invoke(p, &wire.BatchPutRevoke, &wire.BatchPutRevokeRequest{ClientID: p.id, Keys: same, ReplicaType: wire.ReplicaTypeAll})
		expect(t, "revokes of the same key refused", failed(codesOf(revoke)), 999)

		list := wire.ReplicateConfig{ReplicaNum: 1, PreferredSegments: keys}
		put := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "k", Size: 1, Config: list})
		expect(t, "put with a hundred thousand preferences", put.Err, 0)
		expect(t, "its revoke", p.revoke("k"), 0)
		_ = p.caller.(*rpc.Client).Close()
	})
}

// TestManyClientIDs comes with a client id of its own for each call: what is remembered of them has a bound.
func TestManyClientIDs(t *testing.T) {
	b := withPool(t)
	b.unharmed(t, func() {
		p := b.client(wire.V13)
		for range 2000 {
			p.id = newID()
			expect(t, "end of nothing", p.putEnd("nothing"), wire.ErrObjectNotFound)
		}
		_ = p.caller.(*rpc.Client).Close()
	})
	waitFor(t, "the registry to forget", func() bool {
		b.service.families.mu.Lock()
		defer b.service.families.mu.Unlock()
		return len(b.service.families.clients) < 10
	})
}

// TestProbesOfLaunchers connects and closes a thousand times, as launchers do that wait for the port: no line above debug,
// nothing counted as an error, nothing left.
func TestProbesOfLaunchers(t *testing.T) {
	b := withPool(t)
	before := b.logs.Len()
	b.unharmed(t, func() {
		for range 1000 {
			c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(b.Ports().RPC))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
	})
	for _, e := range b.logs.All()[before:] {
		if e.ContextMap()["call"] != "PutStart" { // the one by which the test's own client shows its release
			t.Errorf("logged: %v %s", e.Level, e.Message)
		}
	}
	for _, s := range b.rpc {
		stats := s.Stats()
		if stats.ProtocolErrors != 0 || stats.HalfFrames != 0 || stats.ConnsRefused != 0 || stats.SlowReaders != 0 {
			t.Errorf("counted: %+v", stats)
		}
	}
}
