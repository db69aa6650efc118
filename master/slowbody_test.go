package master

import (
	"io"
	"net"
	"testing"
	"time"

	"mooncake/internal/limits"
)

// A body that is announced and never comes must not hold a connection for ever, whether the page wants it or not.
func TestBodyThatNeverComes(t *testing.T) {
	for name, request := range map[string]string{
		"wanted":           "PUT /metadata?key=k HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nab",
		"wanted, in parts": "PUT /metadata?key=k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"unwanted":         "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n",
		"unknown page":     "PUT /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMetadataServer("")
			srv := newHTTPServer(m)
			if srv.ReadTimeout != limits.HTTPReadMs*time.Millisecond {
				t.Fatalf("a request may take %v", srv.ReadTimeout)
			}
			srv.ReadTimeout = 50 * time.Millisecond
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = srv.Serve(ln) // its end is our Close
			}()
			defer func() { srv.Close(); <-served }()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Fatalf("the connection was not ended: %v", err)
			}
			if m.Len() != 0 {
				t.Fatal("half a value was stored")
			}
		})
	}
}
