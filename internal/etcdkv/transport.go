package etcdkv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transport secures the connections to one member and remembers what the last one failed for: the library tells callers
// only that their time is up.
type transport struct {
	credentials.TransportCredentials
	trouble *atomic.Pointer[error]
}

func newTransport(config *tls.Config) transport {
	t := transport{insecure.NewCredentials(), new(atomic.Pointer[error])}
	if config != nil {
		t.TransportCredentials = credentials.NewTLS(config)
	}
	return t
}

// ClientHandshake secures a connection.
func (t transport) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		t.note(err)
		return nil, nil, err
	}
	return &observed{Conn: conn, t: t, secure: t.Info().SecurityProtocol == "tls"}, info, nil
}

// Clone is part of the interface.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.trouble}
}

func (t transport) note(err error) {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var invalid *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &header):
		err = fmt.Errorf("%w: it does not speak TLS, and --etcd_cacert or --etcd_cert ask for it", ErrRefused)
	case errors.As(err, &invalid):
		err = fmt.Errorf("%w: its certificate does not come from --etcd_cacert or is not for this address: %w", ErrRefused, invalid.Err)
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		err = fmt.Errorf("%w: it does not take this process's certificate (--etcd_cert, --etcd_key): %w", ErrRefused, err)
	default:
		return // a broken connection may be whole the next time
	}
	t.trouble.Store(&err)
}

// observed is a connection whose first answer tells whether the member took it: with TLS 1.3 a certificate is refused
// after the handshake, and a member that wants TLS closes a connection without a word.
type observed struct {
	net.Conn
	t      transport
	secure bool
	heard  atomic.Bool
}

func (o *observed) Read(b []byte) (n int, err error) {
	if n, err = o.Conn.Read(b); n > 0 && !o.heard.Swap(true) {
		o.t.trouble.Store(nil)
	}
	o.look(err)
	return n, err
}

func (o *observed) Write(b []byte) (n int, err error) {
	n, err = o.Conn.Write(b)
	o.look(err)
	return n, err
}

// look notes why a connection failed on which nothing was heard. Where the member's last word did not arrive, that is a
// guess, and does not count as a refusal.
func (o *observed) look(err error) {
	if err == nil || o.heard.Load() {
		return
	}
	if o.secure {
		o.t.note(err)
	}
	if o.t.trouble.Load() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	hint := "if it speaks TLS, --etcd_cacert is missing"
	if o.secure {
		hint = "if it asks for certificates, look at --etcd_cert"
	}
	silent := fmt.Errorf("it closes the connection without a word: %w (%s)", err, hint)
	o.t.trouble.Store(&silent)
}

// reason gives what the last connection failed for, and else what the caller was told.
func (m *member) reason(told error) error {
	if p := m.transport.trouble.Load(); p != nil && elsewhere(told) {
		return *p
	}
	return told
}
