package interop

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// codeLeaseOver is what published clients answer when a transfer took longer than its lease.
const codeLeaseOver = -707

// throttled puts a valve before the data port of the only segment, for everybody who asks the metadata server where it is.
func throttled(t *testing.T, m *Master) *Valve {
	t.Helper()
	segments, err := m.SegmentsDetail()
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	at := m.MetadataURL + "?key=" + url.QueryEscape("mooncake/ram/"+segments[0].Endpoint)
	ask := func(method, body string) string {
		t.Helper()
		req, err := http.NewRequest(method, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s %s %v", method, at, resp.Status, text, err)
		}
		return string(text)
	}
	descriptor := map[string]any{}
	if err := json.Unmarshal([]byte(ask(http.MethodGet, "")), &descriptor); err != nil {
		t.Fatal(err)
	}
	port, ok := descriptor["tcp_data_port"].(float64)
	if !ok {
		t.Fatalf("%v", descriptor)
	}
	v, err := StartValve("127.0.0.1:0", local(int(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	_, own, err := net.SplitHostPort(v.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if descriptor["tcp_data_port"], err = strconv.Atoi(own); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	ask(http.MethodPut, string(text))
	return v
}

// TestSlowReader reads objects of 4 MiB at 1 MiB/s under leases of half a second, while another client writes so much that what
// is read is evicted and its room used again. A read ends with the right bytes, or with the error that says that the lease is
// over, never with other bytes; and no range is given away while a lease on it lasts.
func TestSlowReader(t *testing.T) {
	beside(t, works)
	const batch, size = 4, 4 * mib
	rounds := batch
	if *soak {
		rounds = 200
	}
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{HTTPMetadata: true, LeaseMs: 500})
	startSegment(t, r, m, 1, SegmentOptions{Metadata: m.MetadataURL, SizeBytes: 48 * mib})
	valve := throttled(t, m)
	options := StoreOptions{Master: m.RPC, Metadata: m.MetadataURL, BufferBytes: 64 * mib}
	writer, reader := startStore(t, r, R13, options), startStore(t, r, R13, options)
	valve.Throttle(1 * mib)
	fillers := itemsOf("filler/", 64, func(int) int64 { return size })
	right, late := 0, 0
	for round := 0; round < rounds; round += batch {
		items := itemsOf("read/"+strconv.Itoa(round)+"/", batch, func(int) int64 { return size })
		for n := range items {
			items[n].Seed = int64(round + n + 1000)
			eventually(t, 60*time.Second, "the object is put", func() bool {
				code, err := writer.Put(items[n], nil)
				if err != nil {
					t.Fatal(err)
				}
				return code == codeOK
			})
		}
		stop, flooded := make(chan struct{}), make(chan error, 1)
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					flooded <- nil
					return
				default:
				}
				if _, err := writer.Upsert(fillers[n%len(fillers)]); err != nil { // there may be no room while leases last
					flooded <- err
					return
				}
			}
		}()
		got, _, err := reader.GetInto(items)
		close(stop)
		if ferr := <-flooded; err != nil || ferr != nil {
			t.Fatal(err, ferr)
		}
		for n, g := range got {
			switch {
			case g.Size == size && g.Same:
				right++
			case g.Size == size:
				t.Errorf("round %d: other bytes", round+n)
			case g.Size == codeLeaseOver:
				late++
			case g.Size == codeNotFound: // evicted before it was asked for
			default:
				t.Errorf("round %d: code %d", round+n, g.Size)
			}
		}
	}
	t.Logf("%d reads: %d right, %d too late, %.0f keys evicted", rounds, right, late, metric(t, m, "master_evicted_key_count"))
	eventually(t, 60*time.Second, "something is evicted", func() bool {
		if _, err := writer.Upsert(fillers[int(time.Now().UnixNano()%int64(len(fillers)))]); err != nil {
			t.Fatal(err)
		}
		return metric(t, m, "master_evicted_key_count") > 0
	})
	if n := metric(t, m, "mooncake_go_hand_out_reuses_total"); n != 0 {
		t.Errorf("%.0f ranges were given away under a lease", n)
	}
}
