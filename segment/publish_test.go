package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mooncake/descriptor"
)

// metadataServer is an http metadata server with the published master's rule about locations.
type metadataServer struct {
	*httptest.Server
	mu   sync.Mutex
	keys map[string]string
}

func newMetadataServer(t *testing.T) *metadataServer {
	t.Helper()
	s := &metadataServer{keys: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *metadataServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.URL.Query().Get("key")
	old, found := s.keys[key]
	switch {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if found && strings.Contains(key, "rpc_meta") && old != string(body) {
			http.Error(w, "Duplicate rpc_meta key not allowed", http.StatusBadRequest)
			return
		}
		s.keys[key] = string(body)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(s.keys, key)
	default:
		io.WriteString(w, old)
	}
}

func (s *metadataServer) get(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

func (s *metadataServer) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = value
}

func TestKeysComeAndGoWithTheSegment(t *testing.T) {
	m, meta := newFakeMaster(t), newMetadataServer(t)
	c := daemonConfig(t, m)
	c.MetadataServer = meta.URL + "/metadata"
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	name := d.state.Name
	if name != d.state.Endpoint {
		t.Errorf("name %q and endpoint %q differ", name, d.state.Endpoint)
	}
	ram, rpc := meta.get(descriptor.RAMKey(name)), meta.get(descriptor.RPCMetaKey(name))
	if want := fmt.Sprintf(`{"ip_or_host_name":"127.0.0.1","rpc_port":%d}`, d.Ports().TE); strings.TrimSpace(rpc) != want {
		t.Errorf("location %s, want %s", rpc, want)
	}
	seg, err := descriptor.Parse([]byte(ram))
	if err != nil {
		t.Fatal(err)
	}
	if int(seg.TCPDataPort) != d.Ports().Data || seg.TCPProtoVersion != 2 || seg.TCPDataHost != "127.0.0.1" || seg.Name != name ||
		len(seg.Buffers) != 1 || seg.Buffers[0].Addr != d.state.Base || seg.Buffers[0].Length != c.SegmentBytes {
		t.Errorf("descriptor %s", ram)
	}

	// A master that forgot the client may have had its keys removed.
	for _, k := range []string{descriptor.RAMKey(name), descriptor.RPCMetaKey(name)} {
		meta.mu.Lock()
		delete(meta.keys, k)
		meta.mu.Unlock()
	}
	for meta.get(descriptor.RAMKey(name)) == "" || meta.get(descriptor.RPCMetaKey(name)) == "" {
		m.lock(func() { m.known[d.clientID] = false })
		m.wait(t, "ReMountSegment") // one may have been under way before the keys went
	}

	d.end(t, ErrStay)
	if meta.get(descriptor.RAMKey(name)) == "" {
		t.Error("a daemon that stays took its keys away")
	}
	again := run(t, c)
	m.wait(t, "MountSegment")
	again.end(t, errors.New("leave"))
	meta.mu.Lock()
	defer meta.mu.Unlock()
	if len(meta.keys) != 0 {
		t.Errorf("keys left: %v", meta.keys)
	}
}

func TestNameOfADeadProcessIsTakenOver(t *testing.T) {
	m, meta := newFakeMaster(t), newMetadataServer(t)
	meta.set(descriptor.RPCMetaKey("node-1"), `{"ip_or_host_name":"127.0.0.1","rpc_port":1}`)
	c := daemonConfig(t, m)
	c.MetadataServer, c.SegmentName = meta.URL+"/metadata", "node-1"
	d := run(t, c)
	m.wait(t, "MountSegment")
	if got := meta.get(descriptor.RPCMetaKey("node-1")); !strings.Contains(got, fmt.Sprint(d.Ports().TE)) {
		t.Errorf("location %s", got)
	}
}

func TestNameOfALivingProcessIsLeftAlone(t *testing.T) {
	m, meta := newFakeMaster(t), newMetadataServer(t)
	c := daemonConfig(t, m)
	c.MetadataServer, c.SegmentName = meta.URL+"/metadata", "node-1"
	first := run(t, c)
	m.wait(t, "MountSegment")
	was := meta.get(descriptor.RPCMetaKey("node-1"))
	other := daemonConfig(t, m) // in another directory, as on another host
	other.MetadataServer, other.SegmentName = c.MetadataServer, c.SegmentName
	second := run(t, other)
	waitLog(t, second, "not mounted yet, trying on")
	line := second.log.FilterMessage("not mounted yet, trying on").All()[0]
	if text := fmt.Sprint(line.ContextMap()["error"]); !strings.Contains(text, "--segment_name") || !strings.Contains(text, "node-1") {
		t.Errorf("line %q", text)
	}
	if got := meta.get(descriptor.RPCMetaKey("node-1")); got != was {
		t.Errorf("location became %s", got)
	}
	first.end(t, errors.New("leave"))
	m.wait(t, "UnmountSegment")
	m.wait(t, "MountSegment") // the name is free now
}

// heldStore is a metadata server whose puts wait.
type heldStore struct {
	descriptor.Store
	puts chan context.Context
	on   chan struct{}
}

func (s *heldStore) Put(ctx context.Context, _ string, _ []byte) error {
	s.puts <- ctx
	<-s.on
	return ctx.Err()
}

// TestLeavingLetsAPublicationEnd has a daemon leave while it publishes: what is on its way to the server is not cut off, or it
// could arrive behind the request that removes it. One that begins later is not made at all.
func TestLeavingLetsAPublicationEnd(t *testing.T) {
	held := &heldStore{puts: make(chan context.Context), on: make(chan struct{}, 2)}
	cfg := DefaultConfig()
	d := &Daemon{store: held, cfg: cfg, state: &State{Name: "n", Endpoint: "127.0.0.1:1"}, published: "n"}
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.publish(ctx) }()
	put := <-held.puts
	leave()
	if err := put.Err(); err != nil {
		t.Errorf("a put under way is cut off: %v", err)
	}
	held.on <- struct{}{}
	if err := (<-held.puts).Err(); err != nil {
		t.Errorf("the put behind it is cut off: %v", err)
	}
	held.on <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := d.publish(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a publication after the end: %v", err)
	}
	// A server that does not answer is not waited for.
	d.cfg.LeaveTimeout = 1
	ctx, leave = context.WithCancel(context.Background())
	go func() { done <- d.publish(ctx) }()
	put = <-held.puts
	leave()
	<-put.Done()
	held.on <- struct{}{}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a server that is silent: %v", err)
	}
}
