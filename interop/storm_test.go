package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestConnectionStorm opens and closes many short connections on the data port, each reading a few bytes, and looks that the
// daemon holds no more descriptors afterwards than before.
func TestConnectionStorm(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	s := startSegment(t, r, m, 1, SegmentOptions{})
	st := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	i := Item{Key: "storm", Size: 4096, Seed: 1}
	put(t, st, i, nil)
	at := replicas(t, st, i.Key)[0]
	port := dataPort(t, at.Endpoint)
	before := descriptors(t, s.Pid())
	total, workers := repeat(3000, 20_000), 16
	var failed atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for n := w; n < total; n += workers {
				if err := shortRead(port, at.Address, uint64(at.Size), n); err != nil {
					failed.Add(1)
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d connections in %v", total, time.Since(start).Round(time.Millisecond))
	if failed.Load() != 0 {
		t.Errorf("%d of %d connections failed, first: %v", failed.Load(), total, first)
	}
	eventually(t, 60*time.Second, fmt.Sprintf("back to %d descriptors (+16)", before), func() bool {
		return descriptors(t, s.Pid()) <= before+16
	})
	get(t, st, i)
}

// Opcode of a read in the header of a data connection.
const opRead = 0

// shortRead asks for an object over a new data connection and hangs up: some politely, some without reading the answer.
func shortRead(addr string, address, size uint64, n int) error {
	conn, err := net.DialTimeout("tcp", addr, 60*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return err
	}
	if n%16 == 15 {
		return nil // comes and goes
	}
	if _, err := conn.Write(readHeader(address, size)); err != nil {
		return err
	}
	if n%16 == 14 {
		return conn.(*net.TCPConn).SetLinger(0) // reset in the middle of the answer
	}
	_, err = io.ReadFull(conn, make([]byte, size))
	return err
}

// readHeader is the plain (first) framing of a request: size, address, opcode, 24 bytes in all.
func readHeader(address, size uint64) []byte {
	h := make([]byte, 24)
	binary.LittleEndian.PutUint64(h, size)
	binary.LittleEndian.PutUint64(h[8:], address)
	h[16] = opRead
	return h
}

// descriptors counts the open files of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// dataPort asks the handshake port of a segment for its descriptor and answers with host:port of the data port.
func dataPort(t *testing.T, endpoint string) string {
	t.Helper()
	body, err := askDescriptor(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Port int    `json:"tcp_data_port"`
		Host string `json:"tcp_data_host"`
	}
	if err := json.Unmarshal(body, &d); err != nil || d.Port == 0 {
		t.Fatalf("descriptor %s: %v", body, err)
	}
	return local(d.Port)
}

// askDescriptor speaks the handshake: u64 length of what follows, u8 type (1 asks for the descriptor), JSON; both ways.
func askDescriptor(endpoint string) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", endpoint, 60*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return nil, err
	}
	request := append(binary.LittleEndian.AppendUint64(nil, 3), 1, '{', '}')
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) < 9 || answer[8] != 1 {
		return nil, fmt.Errorf("answer of %d bytes: %w", len(answer), err)
	}
	return answer[9:], nil
}
