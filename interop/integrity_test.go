package interop

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// integrityPage is what the master tells about sums.
type integrityPage struct {
	Kept    uint64 `json:"sums_kept"`
	Right   uint64 `json:"copies_right"`
	Corrupt uint64 `json:"corrupt_copies"`
	Lost    uint64 `json:"corrupt_objects"`
	Ranges  []struct {
		Key    string `json:"key"`
		Offset uint64 `json:"offset"`
		Size   int64  `json:"size"`
	} `json:"corrupt_ranges"`
	Daemons []struct {
		Waiting int    `json:"waiting_copies"`
		Rounds  uint64 `json:"scrub_rounds"`
	} `json:"daemons"`
}

func integrityOf(t *testing.T, m *Master) (p integrityPage) {
	t.Helper()
	body, err := m.Page("/api/v1/integrity")
	if err == nil {
		err = json.Unmarshal([]byte(body), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// flipByte changes one bit in the memory of a daemon, behind everybody's back, in the middle of a copy.
func flipByte(t *testing.T, arenaDir string, at Location) (offset uint64) {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(arenaDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	arena := ""
	for _, name := range states { // a daemon that has grown has one for each region
		text, err := os.ReadFile(name)
		var state struct {
			Base uint64 `json:"base"`
			Size uint64 `json:"size"`
		}
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil {
			t.Fatal(err)
		}
		if at.Address >= state.Base && at.Address-state.Base < state.Size {
			arena, offset = strings.TrimSuffix(name, ".json")+".arena", at.Address-state.Base
		}
	}
	if arena == "" {
		t.Fatalf("no region of %v has %+v", states, at)
	}
	f, err := os.OpenFile(arena, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	where := int64(offset) + at.Size/2
	if _, err := f.ReadAt(b[:], where); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], where); err != nil {
		t.Fatal(err)
	}
	return offset
}

// scrubbedPool is a master that keeps sums, and daemons on hosts of their own.
type scrubbedPool struct {
	*Master
	t      *testing.T
	arenas map[string]string // by host
}

func startScrubbed(t *testing.T, r *Rig, hosts int, bytes int64, flags ...string) *scrubbedPool {
	t.Helper()
	m := startMaster(t, r, MasterOptions{Flags: append([]string{"--checksum"}, flags...)})
	p := &scrubbedPool{Master: m, t: t, arenas: map[string]string{}}
	for i := range hosts {
		host := net.IPv4(127, 0, 0, byte(1+i)).String()
		dir, err := os.MkdirTemp(r.memory, "segment-")
		if err != nil {
			t.Fatal(err)
		}
		p.arenas[host] = dir
		startSegment(t, r, m, i+1, SegmentOptions{Host: host, ArenaDir: p.arenas[host], SizeBytes: bytes})
	}
	eventually(t, 60*time.Second, "the daemons find sums", func() bool { return len(integrityOf(t, m).Daemons) == hosts })
	return p
}

// spoil flips a byte of one copy and returns where that lies.
func (p *scrubbedPool) spoil(at Location) (host string, offset uint64) {
	p.t.Helper()
	host, _, err := net.SplitHostPort(at.Endpoint)
	if err != nil {
		p.t.Fatal(err)
	}
	return host, flipByte(p.t, p.arenas[host], at)
}

// TestScrub flips one byte of one copy in the memory of a daemon. The scrub finds it: that copy is never handed out again, its
// range is kept from use, after a restart of the master too, and another copy is made. Where there is no other copy the object
// is gone for a real client, and no read ever brings other bytes.
func TestScrub(t *testing.T) {
	beside(t, works)
	size, count := int64(3*mib+77), 10
	if *soak {
		size, count = 64*mib, 16 // 1 GiB in all
	}
	r := newRig(t)
	data := "--data_dir=" + t.TempDir()
	p := startScrubbed(t, r, 3, size*int64(count)+64*mib, "--scrub_bandwidth=1073741824", data)
	wheel := startStore(t, r, R13, StoreOptions{Master: p.RPC, BufferBytes: 256 * mib})
	items := itemsOf("kept/", count, func(int) int64 { return size })
	alone := Item{Key: "alone", Size: size, Seed: 99}
	for _, i := range items {
		if code, err := wheel.Put(i, Config{"replica_num": 2}); code != codeOK || err != nil {
			t.Fatal(code, err)
		}
	}
	if code, err := wheel.Put(alone, nil); code != codeOK || err != nil {
		t.Fatal(code, err)
	}
	eventually(t, 120*time.Second, "all sums are kept", func() bool { return integrityOf(t, p.Master).Kept == uint64(count)+1 })

	victim := items[count/2]
	_, offset := p.spoil(replicas(t, wheel, victim.Key)[0])
	spoilt := time.Now()
	if _, err := p.Request("POST", "/api/v1/integrity/scrub", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, 120*time.Second, "the copy is found", func() bool { return integrityOf(t, p.Master).Corrupt == 1 })
	found := time.Since(spoilt)
	eventually(t, 120*time.Second, "another copy is made", func() bool { return len(replicas(t, wheel, victim.Key)) == 2 })
	t.Logf("one byte of %d MiB: found after %v, healed after %v", size*int64(count)>>20, found.Round(time.Millisecond), time.Since(spoilt).Round(time.Millisecond))
	if good := goodReads(t, wheel, items); good != count {
		t.Fatalf("%d of %d reads are right", good, count)
	}
	page := integrityOf(t, p.Master)
	if len(page.Ranges) != 1 || page.Ranges[0].Key != string(victim.Key) || page.Ranges[0].Offset != offset || page.Ranges[0].Size != size || page.Lost != 0 {
		t.Fatalf("%+v", page)
	}
	p.spoil(replicas(t, wheel, alone.Key)[0])
	if _, err := p.Request("POST", "/api/v1/integrity/scrub", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, 120*time.Second, "the only copy is found", func() bool { return integrityOf(t, p.Master).Lost == 1 })
	if got, err := wheel.Get(alone); err != nil || got.Same || got.Size > 0 {
		t.Fatalf("a read of what is lost: %+v, %v", got, err)
	}
	if code, err := wheel.Put(alone, nil); code != codeOK || err != nil {
		t.Fatal("put anew", code, err)
	}
	if good := goodReads(t, wheel, []Item{alone}); good != 1 {
		t.Fatal("the new value is not read")
	}
	if metric(t, p.Master, "mooncake_go_corrupt_bytes") != float64(2*size) {
		t.Fatalf("%v bytes are kept from use", metric(t, p.Master, "mooncake_go_corrupt_bytes"))
	}
	p.Kill()
	again := startMaster(t, r, MasterOptions{Flags: []string{"--checksum", data}})
	page = integrityOf(t, again)
	if len(page.Ranges) != 2 || page.Ranges[0].Size != size || page.Ranges[1].Size != size {
		t.Fatalf("after a restart: %+v", page)
	}
}
