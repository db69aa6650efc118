package tcp

import (
	"bytes"
	"net"
	"testing"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// TestHolderBelowTheMark reads from a holder that sends the status and less than the low-water mark, and the rest only when it is taken
// for silent: what came is looked at before, and the reading goes on.
func TestHolderBelowTheMark(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		const progress = time.Second
		for _, first := range []int{0, 1, statusBytes + 100<<10} {
			body := pattern(limits.DataRcvLowatFromBytes*2, 3)
			answer := append(append([]byte{}, statusFrameOK...), body...)
			ln := listen(t, "127.0.0.1:0")
			served := make(chan error, 1)
			go func() {
				conn, err := ln.Accept()
				if err != nil {
					served <- err
					return
				}
				defer conn.Close()
				if _, err = conn.Read(make([]byte, requestBytes)); err == nil {
					_, err = conn.Write(answer[:first])
				}
				if first >= statusBytes { // less is no status, and then it is too late
					<-time.After(progress + limits.DataGlanceMs*time.Millisecond/2)
				}
				if err == nil {
					_, err = conn.Write(answer[first:])
				}
				served <- err
			}()
			d := startDialer(t, DialerConfig{Options: o, Progress: progress})
			got := make([]byte, len(body))
			target := targetFor(ln.Addr().(*net.TCPAddr).Port, descriptor.TCPAcknowledged)
			if err := d.Read(t.Context(), target, testBase, got); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes first: %v", first, err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			ln.Close()
		}
	})
}
