package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/bundle"
	"mooncake/internal/limits"
	"mooncake/master"
)

func randomBytes(seed uint64, n int) []byte {
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestUnknownCongestionControl(t *testing.T) {
	_, err := New(Config{Masters: []string{"127.0.0.1:1"}, CongestionControl: "nonesuch"})
	if err == nil || !strings.Contains(err.Error(), `"nonesuch"`) {
		t.Errorf("an algorithm that no kernel has: %v", err)
	}
}

func TestObjects(t *testing.T) { objectsBy(t, Config{}) }

func objectsBy(t *testing.T, cfg Config) {
	t.Helper()
	p := newPool(t, 2)
	c, ctx := p.client(cfg), soon(t)
	for i, n := range []int{1, 1000, limits.ClientPieceBytes - 1, limits.ClientPieceBytes + 1, 3*limits.ClientPieceBytes + 7} {
		key, data := fmt.Sprint("k", i), randomBytes(uint64(i), n)
		if err := c.Put(ctx, key, data, PutOptions{Copies: 1 + i%2}); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(ctx, key); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
		}
		from, length := uint64(n/3), uint64(n/2)
		if got, err := c.GetRange(ctx, key, from, length); err != nil || !bytes.Equal(got, data[from:from+length]) {
			t.Errorf("range of %d bytes: %d came back, %v", length, len(got), err)
		}
		if got, err := c.GetRange(ctx, key, 1, uint64(n)); err == nil {
			t.Errorf("a range beyond the object: %d bytes", len(got))
		}
		memory := make([]byte, n+1)
		if got, err := c.GetInto(ctx, key, memory); got != n || err != nil || !bytes.Equal(memory[:n], data) || memory[n] != 0 {
			t.Errorf("into memory: %d bytes, %v", got, err)
		}
		if got, err := c.GetInto(ctx, key, memory[:n-1]); err == nil {
			t.Errorf("into too little memory: %d bytes", got)
		}
		if err := c.Put(ctx, key, data, PutOptions{}); !errors.Is(err, ErrExists) {
			t.Errorf("put over it: %v", err)
		}
	}
	if err := c.Put(ctx, "k0", []byte("new"), PutOptions{Upsert: true}); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "k0"); string(got) != "new" || err != nil {
		t.Errorf("after an upsert: %q %v", got, err)
	}
	if err := c.Remove(ctx, "k0", false); !errors.Is(err, ErrLeased) {
		t.Errorf("remove of what is read: %v", err)
	}
	if err := c.Remove(ctx, "k0", true); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "k0"); !errors.Is(err, ErrNotFound) || got != nil {
		t.Errorf("get of what is gone: %q %v", got, err)
	}
	if err := c.Remove(ctx, "k0", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("remove of what is gone: %v", err)
	}
	var keys []string
	for o, err := range c.List(ctx, "k") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fmt.Sprint(o.Key, " ", o.Size))
	}
	if want := []string{"k1 1000", "k2 4194303", "k3 4194305", "k4 12582919"}; !cmp.Equal(keys, want) {
		t.Errorf("list %q", keys)
	}
	if here, err := c.Exists(ctx, "k1", "k0"); err != nil || !cmp.Equal(here, []bool{true, false}) {
		t.Errorf("exist %v %v", here, err)
	}
}

// TestBatch counts the calls of a batch and looks at its items one by one.
func TestBatch(t *testing.T) { batchBy(t, Config{}) }

func batchBy(t *testing.T, cfg Config) {
	t.Helper()
	p := newPool(t, 1)
	c, ctx := p.client(cfg), soon(t)
	items := []Item{{"a", randomBytes(1, 10)}, {"", []byte("x")}, {"b", randomBytes(2, mib)}, {"c", nil}, {"d", make([]byte, 80*mib)}}
	errs := c.PutBatch(ctx, items, PutOptions{})
	for i, want := range []error{nil, errors.New("bad key"), nil, errors.New("no bytes"), ErrNoSpace} {
		if (errs[i] == nil) != (want == nil) || want == ErrNoSpace && !errors.Is(errs[i], want) {
			t.Errorf("item %d: %v, want %v", i, errs[i], want)
		}
	}
	put := c.Stats()
	if put.MasterCalls > 2+4*put.Retries {
		t.Errorf("a batch put took %d calls: %+v", put.MasterCalls, put)
	}
	data, errs := c.GetBatch(ctx, []string{"b", "none", "a"})
	if !bytes.Equal(data[0], items[2].Data) || !errors.Is(errs[1], ErrNotFound) || data[1] != nil || !bytes.Equal(data[2], items[0].Data) {
		t.Errorf("batch get: %v", errs)
	}
	if s := c.Stats(); s.MasterCalls-put.MasterCalls > 1+s.Retries-put.Retries {
		t.Errorf("a batch get took %d calls: %+v", s.MasterCalls-put.MasterCalls, s)
	}
}

func TestStreams(t *testing.T) {
	p := newPool(t, 1)
	c, ctx := p.client(Config{}), soon(t)
	data := randomBytes(3, 40*mib+5)
	var told []uint64
	progress := func(done, total uint64) {
		if total != uint64(len(data)) {
			t.Errorf("total %d", total)
		}
		told = append(told, done)
	}
	if err := c.PutStream(ctx, "s", uint64(len(data)), bytes.NewReader(data), PutOptions{}, progress); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if n, err := c.GetStream(ctx, "s", &got, progress); err != nil || n != uint64(len(data)) || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes: %v", n, err)
	}
	if len(told) != 11+2 || told[10] != uint64(len(data)) || told[12] != uint64(len(data)) {
		t.Errorf("progress %d", told)
	}
	// A reader that gives too little leaves nothing behind.
	if err := c.PutStream(ctx, "short", 100, bytes.NewReader(make([]byte, 50)), PutOptions{}, nil); err == nil {
		t.Error("half an object was written")
	}
	if err := c.Put(ctx, "short", []byte("x"), PutOptions{}); err != nil {
		t.Errorf("its key is taken: %v", err)
	}
}

// miles is a rollout with the fields that Miles stores.
func miles(t testing.TB, n int) *bundle.Rollout {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 7))
	tokens, masks, probs := make([][]int32, n), make([][]int32, n), make([][]float32, n)
	lengths, truncated, partition := make([]int64, n), make([]int64, n), make([]int64, n)
	rewards := make([]float32, n)
	prompts := make([]any, n)
	for i := range n {
		k := 16 + r.IntN(600)
		tokens[i], masks[i], probs[i] = make([]int32, k+r.IntN(100)), make([]int32, k), make([]float32, k)
		for j := range tokens[i] {
			tokens[i][j] = r.Int32N(151936)
		}
		for j := range k {
			masks[i][j], probs[i][j] = r.Int32N(2), -5*r.Float32()
		}
		lengths[i], truncated[i], partition[i], rewards[i] = int64(k), r.Int64N(2), int64(i), r.Float32()
		prompts[i] = bundle.Map{{Key: "text", Value: fmt.Sprintf("q%d 数学?", i)}, {Key: "w", Value: 0.25}, {Key: "n", Value: nil}}
	}
	prompt, err := bundle.Values("prompt", prompts)
	if err != nil {
		t.Fatal(err)
	}
	return &bundle.Rollout{
		Namespace: "miles", Rows: n, MetaInfo: map[string]any{"step": 3.0},
		Fields: []bundle.Field{
			bundle.Ragged("tokens", tokens), bundle.Ragged("loss_masks", masks), bundle.Ragged("rollout_log_probs", probs),
			bundle.Scalars("response_lengths", lengths), bundle.Scalars("rewards", rewards), bundle.Scalars("truncated", truncated), bundle.Scalars("partition", partition), prompt,
		},
	}
}

// sameFields compares fields byte by byte.
func sameFields(t testing.TB, got, want []bundle.Field) {
	t.Helper()
	byName := map[string]bundle.Field{}
	for _, f := range got {
		byName[f.Name] = f
	}
	if len(byName) != len(want) {
		t.Errorf("%d fields, want %d", len(byName), len(want))
	}
	for _, w := range want {
		if diff := cmp.Diff(byName[w.Name], w); diff != "" {
			t.Errorf("field %s: %.400s", w.Name, diff)
		}
	}
}

// TestRollout counts the calls that a bundle of 26 members or more takes.
func TestRollout(t *testing.T) { rolloutBy(t, Config{}) }

func rolloutBy(t *testing.T, cfg Config) {
	t.Helper()
	p := newPool(t, 2)
	ctx := soon(t)
	for _, n := range []int{1, 40} {
		for _, chunk := range []int{0, 4096} {
			r := miles(t, n)
			producer, consumer := p.client(cfg), p.client(cfg)
			h, err := producer.PutRollout(ctx, r, BundleOptions{ChunkBytes: chunk, Put: PutOptions{Copies: 2}})
			if err != nil {
				t.Fatal(err)
			}
			if s := producer.Stats(); s.MasterCalls > 3+4*s.Retries {
				t.Errorf("a put took %d calls to the master, at most 3: %+v", s.MasterCalls, s)
			}
			text, err := h.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if h, err = bundle.ParseHandle(text); err != nil {
				t.Fatal(err)
			}
			got, err := consumer.GetRollout(ctx, h)
			if err != nil {
				t.Fatal(err)
			}
			if s := consumer.Stats(); s.MasterCalls > 1+s.Retries {
				t.Errorf("a get took %d calls to the master, want 1: %+v", s.MasterCalls, s)
			}
			sameFields(t, got.Fields, r.Fields)
			if got.Rows != n || got.Namespace != "miles" || !cmp.Equal(got.MetaInfo, r.MetaInfo) {
				t.Errorf("rollout %d %s %v", got.Rows, got.Namespace, got.MetaInfo)
			}
			one, err := consumer.GetRollout(ctx, h, "rewards")
			if err != nil {
				t.Fatal(err)
			}
			sameFields(t, one.Fields, r.Fields[4:5])
			for range 2 {
				if err := consumer.RemoveRollout(ctx, h); err != nil {
					t.Error(err)
				}
			}
			if _, err := consumer.GetRollout(ctx, h); !errors.Is(err, ErrNotFound) {
				t.Errorf("get of what was reclaimed: %v", err)
			}
		}
	}
}

// TestRolloutRefused tells at once that there is no room, and leaves nothing.
func TestRolloutRefused(t *testing.T) {
	p := newPool(t, 1)
	c, ctx := p.client(Config{}), soon(t)
	big := &bundle.Rollout{Rows: 1, Fields: []bundle.Field{bundle.Ragged("x", [][]uint8{make([]uint8, 70*mib)})}}
	if _, err := c.PutRollout(ctx, big, BundleOptions{}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("more than there is room for: %v", err)
	}
	if _, err := c.PutRollout(ctx, miles(t, 3), BundleOptions{}); err != nil {
		t.Error(err)
	}
	for _, o := range []BundleOptions{{ChunkBytes: 1}, {Prefix: "/"}, {Put: PutOptions{Upsert: true}}} {
		if _, err := c.PutRollout(ctx, miles(t, 1), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := p.client(Config{WaitForRoom: true}).PutRollout(short, big, BundleOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for room: %v", err)
	}
}

func TestWatchBundles(t *testing.T) {
	p := newPool(t, 1)
	c, ctx := p.client(Config{}), soon(t)
	h, err := c.PutRollout(ctx, miles(t, 1), BundleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	err = p.client(Config{}).WatchBundles(ctx, MilesPrefix, func(id string, withdrawn bool) bool {
		seen = append(seen, fmt.Sprint(id+"/manifest" == h.Stages["default"].ManifestKey, withdrawn))
		if len(seen) == 1 {
			if err := c.RemoveRollout(ctx, h); err != nil {
				t.Error(err)
			}
		}
		return !withdrawn
	})
	if err != nil || len(seen) < 2 || seen[0] != "true false" || seen[len(seen)-1] != "true true" {
		t.Errorf("%v, seen %q", err, seen)
	}
}

// TestLeaseOver reads where no lease lasts: that is an error, not bytes.
func TestLeaseOver(t *testing.T) {
	p := newPool(t, 1, func(c *master.Config) { c.LeaseTTL = 0 })
	c, ctx := p.client(Config{}), soon(t)
	if err := c.Put(ctx, "k", []byte("x"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if got, err := c.Get(short, "k"); !errors.Is(err, context.DeadlineExceeded) || got != nil {
		t.Errorf("%q %v", got, err)
	}
}

// TestHolderGone reads what only a daemon had that is gone: an error when the time is over, and no bytes before.
func TestHolderGone(t *testing.T) {
	p := newPool(t, 0)
	stop := p.segment()
	c, ctx := p.client(Config{}), soon(t)
	if err := c.Put(ctx, "k", randomBytes(1, mib), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	stop()
	if got, err := c.Get(ctx, "k"); !errors.Is(err, ErrNotFound) || got != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// standby answers everything with a redirect, or only that it is busy.
type standby struct {
	mooncakev1.UnimplementedObjectsServer
	leader string
}

func (s *standby) Placements(context.Context, *mooncakev1.PlacementsRequest) (*mooncakev1.PlacementsReply, error) {
	st, err := status.New(codes.Unavailable, "this master stands by").WithDetails(&mooncakev1.Redirect{GrpcAddress: s.leader})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

func startStandby(t *testing.T, leader string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	mooncakev1.RegisterObjectsServer(srv, &standby{leader: leader})
	run(t, "a standby", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, srv.Stop)()
		return srv.Serve(ln)
	})
	return ln.Addr().String()
}

// TestFindsLeader begins with masters that are gone or stand by.
func TestFindsLeader(t *testing.T) {
	p := newPool(t, 1)
	ctx := soon(t)
	if err := p.client(Config{}).Put(ctx, "k", []byte("x"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, masters := range map[string][]string{
		"a standby":               {startStandby(t, p.grpc)},
		"nobody is there":         {closed.Addr().String(), p.grpc},
		"a standby knows no one":  {startStandby(t, ""), p.grpc},
		"a standby is mistaken":   {startStandby(t, closed.Addr().String()), p.grpc},
		"a standby names itself?": {startStandby(t, "127.0.0.1:1"), p.grpc},
	} {
		c := p.client(Config{Masters: masters})
		if got, err := c.Get(ctx, "k"); string(got) != "x" || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if c.Stats().Retries == 0 {
			t.Errorf("%s: nothing was tried again", name)
		}
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if got, err := p.client(Config{Masters: []string{closed.Addr().String()}}).Get(short, "k"); !errors.Is(err, context.DeadlineExceeded) || got != nil {
		t.Errorf("without any master: %q %v", got, err)
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Masters: []string{"x:1"}, Metadata: "ftp://x"}} {
		if c, err := New(cfg); err == nil {
			_ = c.Close()
			t.Errorf("%+v was taken", cfg)
		}
	}
	c, err := New(Config{Masters: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(soon(t), "k"); err == nil {
		t.Error("a closed client answers")
	}
}
