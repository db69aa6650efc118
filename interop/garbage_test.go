package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestGarbage talks nonsense to every port while a client works; the client does not notice, and nothing stays open.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{HTTPMetadata: true})
	s := startSegment(t, r, m, 1, SegmentOptions{})
	st := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	items := itemsOf("quiet/", 20, func(i int) int64 { return int64(1000 * (i + 1)) })
	for _, i := range items {
		put(t, st, i, nil)
	}
	handshake := segments(t, m, 1)[0].Endpoint
	metadata := strings.TrimSuffix(strings.TrimPrefix(m.MetadataURL, "http://"), "/metadata")
	ports := []string{m.RPC, m.Admin, metadata, handshake, dataPort(t, handshake), s.HTTP}
	beforeMaster, beforeSegment := descriptors(t, m.Pid()), descriptors(t, s.Pid())
	var wg sync.WaitGroup
	for n, addr := range ports {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(n), 1))
			for _, message := range nonsense(dice, repeat(15, 500)) {
				if err := say(addr, message, dice.IntN(2) == 0); err != nil {
					t.Errorf("%s: %v", addr, err)
				}
			}
		})
	}
	reads, err := st.ReadMany(items, repeat(500, 10_000), 4, 1)
	wg.Wait()
	if err != nil || reads.Failed != 0 {
		t.Errorf("%d of %d reads failed meanwhile: %q, %v", reads.Failed, reads.Reads, reads.First, err)
	}
	for _, i := range items {
		get(t, st, i)
	}
	eventually(t, 60*time.Second, fmt.Sprintf("back to %d and %d descriptors (+16)", beforeMaster, beforeSegment), func() bool {
		return descriptors(t, m.Pid()) <= beforeMaster+16 && descriptors(t, s.Pid()) <= beforeSegment+16
	})
}

// nonsense is a set of messages none of which means anything, or means too much.
func nonsense(dice *rand.Rand, random int) [][]byte {
	le := binary.LittleEndian
	frame := func(function, body uint32) []byte {
		h := []byte{21, 0, 0, 0, 1, 0, 0, 0}
		return le.AppendUint32(le.AppendUint32(le.AppendUint32(h, function), body), 0)
	}
	out := [][]byte{
		nil,
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), // the beginning of a TLS handshake
		frame(0xdeadbeef, 0),                         // no such call
		append(frame(0x7b81bb56, 4), 1, 2, 3, 4),     // a call with a hash nobody knows
		frame(0x7b81bb56, 1<<31),                     // a body of 2 GiB announced
		frame(0x7b81bb56, 100),                       // half a frame
		le.AppendUint64(nil, 1<<40),                  // a handshake of 1 TiB
		append(le.AppendUint64(nil, 3), 9, '{', '}'), // a handshake of no known type
		append(le.AppendUint64(nil, 3), 1, '{', 'x'), // a handshake that is no JSON
		readHeader(0, 16),                            // an address outside the arena
		readHeader(^uint64(0)-8, 64),                 // a range that wraps
		readHeader(1<<32, 1<<40),                     // a length of 1 TiB
		readHeader(1<<32, 0),                         // nothing at all
		bytes.Repeat([]byte{0xff}, 4096),
		bytes.Repeat([]byte{0}, 4096),
	}
	for range random {
		message := make([]byte, 1+dice.IntN(300))
		for i := range message {
			message[i] = byte(dice.IntN(256))
		}
		out = append(out, message)
	}
	return out
}

// say sends a message and hangs up, in good order or not.
func say(addr string, message []byte, abrupt bool) error {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(message); err != nil {
		return nil // the daemon has had enough already
	}
	if abrupt {
		return conn.(*net.TCPConn).SetLinger(0)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, conn) // whatever the answer is
	return nil
}
