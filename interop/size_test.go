package interop

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// load is a client without a wheel: it lends memory that is not there and writes objects without bytes, as fast as a master
// takes them.
type load struct {
	t    *testing.T
	addr string
	id   wire.UUID
	name string
	stop func()
}

const loadSegmentBytes = 1 << 40

// startLoad mounts the memory and keeps the client alive.
func startLoad(t *testing.T, addr string) *load {
	t.Helper()
	l := &load{t: t, addr: addr, id: wire.UUID{Hi: 0x10ad, Lo: uint64(time.Now().UnixNano())}, name: "127.0.0.1:1"}
	c := l.dial()
	seg := wire.Segment{ID: wire.UUID{Hi: 0x10ad, Lo: 1}, Name: l.name, Base: 1 << 20, Size: loadSegmentBytes, TeEndpoint: l.name, Protocol: "tcp"}
	if rep := must(l, c, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: l.id}); rep.Err != 0 {
		t.Fatalf("mount: %v", rep.Err)
	}
	over := make(chan struct{})
	var pinging sync.WaitGroup
	pinging.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Second):
				must(l, c, &wire.Ping, &wire.PingRequest{ClientID: l.id})
			}
		}
	})
	l.stop = sync.OnceFunc(func() {
		close(over)
		pinging.Wait()
		_ = c.Close() // nothing is in flight
	})
	t.Cleanup(l.stop)
	return l
}

func (l *load) dial() *rpc.Client {
	l.t.Helper()
	c, err := rpc.Dial(context.Background(), l.addr, rpc.ClientConfig{})
	if err != nil {
		l.t.Error(err)
		return nil
	}
	return c
}

// must makes a call that has to be answered; else the test has failed, and the answer is empty.
func must[Req, Rep any](l *load, c *rpc.Client, call *wire.Call[Req, Rep], req *Req) (rep Rep) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	rep, err := wireCall(ctx, c, call, req)
	if err != nil {
		l.t.Errorf("%s: %v", call.ID, err)
	}
	return rep
}

// pairs writes and removes objects, n at a time, on one connection until more says no. At most live of them are there.
func (l *load) pairs(lane, n, live int, more func() bool) {
	c := l.dial()
	if c == nil {
		return
	}
	defer c.Close()
	var there [][]string
	for number := 0; more() && !l.t.Failed(); number++ {
		keys, objects, sizes := make([]string, n), make([]wire.ObjectMeta, n), make([]uint64, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("pairs/%02d/%026d", lane, number*n+i)
			objects[i], sizes[i] = wire.ObjectMeta{Key: keys[i]}, 4096
		}
		for _, e := range must(l, c, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: l.id, Keys: keys, Sizes: sizes, Config: wire.ReplicateConfig{ReplicaNum: 1}}) {
			l.want("start", e.Err)
		}
		for _, e := range must(l, c, &wire.BatchPutEnd, &wire.BatchPutEndRequest{ClientID: l.id, Objects: objects, ReplicaType: wire.ReplicaTypeAll}) {
			l.want("end", e.Err)
		}
		if there = append(there, keys); len(there)*n > live {
			l.remove(c, there[0])
			there = there[1:]
		}
	}
	for _, keys := range there[min(1, len(there)):] { // one batch stays for the next leader
		l.remove(c, keys)
	}
}

func (l *load) remove(c *rpc.Client, keys []string) {
	for _, e := range must(l, c, &wire.BatchRemove, &wire.BatchRemoveRequest{Keys: keys, Force: true}) {
		l.want("remove", e.Err)
	}
}

func (l *load) want(what string, code wire.ErrorCode) {
	if code != 0 {
		l.t.Errorf("%s: %v", what, code)
	}
}

// gateway asks a member of etcd through its JSON gateway.
func (m *EtcdMember) gateway(path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	resp, err := http.Post("http://"+m.Client+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}

// holds tells how large etcd's database is and how many keys of ours are in it.
func (m *EtcdMember) holds() (dbBytes, keys int64, err error) {
	var size struct {
		DBSize string `json:"dbSize"`
	}
	if err := m.gateway("/v3/maintenance/status", struct{}{}, &size); err != nil {
		return 0, 0, err
	}
	var count struct {
		Count string `json:"count"`
	}
	from, to := base64.StdEncoding.EncodeToString([]byte("/mooncake-go/")), base64.StdEncoding.EncodeToString([]byte("/mooncake-go0"))
	if err := m.gateway("/v3/kv/range", map[string]any{"key": from, "range_end": to, "count_only": true}, &count); err != nil {
		return 0, 0, err
	}
	dbBytes, err = strconv.ParseInt(size.DBSize, 10, 64)
	if err == nil && count.Count != "" {
		keys, err = strconv.ParseInt(count.Count, 10, 64)
	}
	return dbBytes, keys, err
}

// What is promised of the room that the log takes in etcd.
const (
	promisedDBBytes = 64 * mib
	promisedKeys    = 1000
)

// watchSize asks all members for their sizes until what it watches is over, and answers with the largest.
func watchSize(t *testing.T, members []*EtcdMember, during func()) (dbBytes, keys int64) {
	t.Helper()
	over := make(chan struct{})
	go func() { defer close(over); during() }()
	for last := false; !last; {
		select {
		case <-over:
			last = true
		case <-time.After(200 * time.Millisecond):
		}
		for _, m := range members {
			db, n, err := m.holds()
			if err != nil {
				t.Error(err)
				<-over
				return dbBytes, keys
			}
			dbBytes, keys = max(dbBytes, db), max(keys, n)
		}
	}
	return dbBytes, keys
}

// TestSizeInEtcd writes and removes objects, in batches on eight connections and then one by one on one, and looks at what
// that leaves in etcd. Another master takes over at the end with what is left.
func TestSizeInEtcd(t *testing.T) {
	r := newRig(t)
	members, etcd := startEtcds(t, r)
	m := joinMasters(t, r, etcd)
	l := startLoad(t, m.RPC)
	const lanes, batch = 8, 100
	phases := []struct {
		name string
		run  func()
	}{
		{"batches", func() {
			var left atomic.Int64
			left.Store(int64(repeat(100_000, 1_000_000) / batch))
			var all sync.WaitGroup
			for lane := range lanes {
				all.Go(func() { l.pairs(lane, batch, 10_000/lanes-batch, func() bool { return left.Add(-1) >= 0 }) })
			}
			all.Wait()
		}},
		{"one writer", func() {
			until := time.Now().Add(time.Duration(repeat(4, 300)) * time.Second)
			l.pairs(lanes, 1, 100, func() bool { return time.Now().Before(until) })
		}},
	}
	for _, p := range phases {
		began, before := time.Now(), metric(t, m, "master_ha_log_records")
		db, keys := watchSize(t, members, p.run)
		took := time.Since(began)
		t.Logf("%s, %v: %.0f records, at most %.1f MiB and %d keys in etcd", p.name, took.Round(time.Second), metric(t, m, "master_ha_log_records")-before,
			float64(db)/mib, keys)
		if db == 0 || keys == 0 || db >= promisedDBBytes || keys >= promisedKeys {
			t.Errorf("%s: %d bytes and %d keys in etcd, promised are fewer than %d and %d", p.name, db, keys, promisedDBBytes, promisedKeys)
		}
	}
	want := metric(t, m, "master_key_count")
	next := joinMasters(t, r, etcd)
	l.stop()
	if err := m.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, startLimit, "the other to lead", func() bool { return page(next, "/role") == "leader" && status(next, "/readyz") == http.StatusOK })
	if got := metric(t, next, "master_key_count"); got != want || want != lanes*batch+1 {
		t.Errorf("%v objects at the new leader, there were %v", got, want)
	}
}
