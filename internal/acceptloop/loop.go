package acceptloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"mooncake/internal/access"
	"mooncake/internal/limits"
)

// Loop says what to do with the connections of one listener.
type Loop struct {
	// Max is the largest number of handlers at a time; it must be positive.
	Max int
	// Handle serves one connection and closes it.
	Handle func(net.Conn)
	// Overflow, when set, receives connections that find Max handlers at work.
	Overflow func(net.Conn)
	// Admit, when set, says which addresses may connect; the connections of others are closed before a byte is read.
	Admit func(netip.Addr) bool
	// PeerMax, when positive, is the largest number of handlers for one address. A connection beyond it is handed to
	// Overflow, or closed without one.
	PeerMax int
	// Trouble, when set, hears of failed accepts that are waited out, such as a shortage of descriptors.
	Trouble func(error)
}

// Run accepts until the context ends or the listener fails for good, closes the listener, waits for all handlers and
// returns nil in the first case and the failure in the second.
func (l *Loop) Run(ctx context.Context, ln net.Listener) error {
	stopClosing := context.AfterFunc(ctx, func() { ln.Close() })
	defer ln.Close()
	defer stopClosing()

	var handlers sync.WaitGroup
	defer handlers.Wait()
	slots := make(chan struct{}, l.Max)
	var peers access.Peers
	for {
		held := l.waitForSlot(ctx, slots)
		conn, err := l.accept(ctx, ln)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %v: %w", ln.Addr(), err)
		}
		peer, welcome := l.welcome(&peers, conn)
		if !welcome || !held && !takeSlot(slots) {
			if peer != nil {
				peers.Leave(peer)
				l.Overflow(conn)
			}
			if held {
				<-slots
			}
			continue
		}
		handlers.Go(func() {
			defer func() { <-slots }()
			defer peers.Leave(peer)
			l.Handle(conn)
		})
	}
}

// welcome tells whether a connection may stay, and ends it otherwise.
func (l *Loop) welcome(peers *access.Peers, conn net.Conn) (*access.Peer, bool) {
	addr := remoteAddr(conn)
	if l.Admit != nil && !l.Admit(addr) {
		conn.Close()
		return nil, false
	}
	most := l.PeerMax
	if most <= 0 {
		most = l.Max
	}
	if peer := peers.Enter(addr, most); peer != nil {
		return peer, true
	}
	if l.Overflow != nil {
		l.Overflow(conn)
	} else {
		conn.Close()
	}
	return nil, false
}

func remoteAddr(conn net.Conn) netip.Addr {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// waitForSlot holds back the next accept while all handlers are busy. With Overflow nothing is held back: that
// connection must be accepted to be turned away.
func (l *Loop) waitForSlot(ctx context.Context, slots chan struct{}) (held bool) {
	if l.Overflow != nil {
		return false
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done(): // the accept that follows fails, and no handler starts
	}
	return true
}

func takeSlot(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// accept waits out what passes: connections reset before they were accepted, and shortages of descriptors or memory.
func (l *Loop) accept(ctx context.Context, ln net.Listener) (net.Conn, error) {
	pause := time.Duration(0)
	for {
		conn, err := ln.Accept()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil || !passes(err) {
			return nil, err
		}
		if l.Trouble != nil {
			l.Trouble(err)
		}
		pause = min(max(2*pause, limits.AcceptPauseMinMs*time.Millisecond), limits.AcceptPauseMaxMs*time.Millisecond)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func passes(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
