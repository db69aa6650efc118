package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"mooncake/bench/blocking"
	"mooncake/internal/limits"
)

// A bare request is what to do, where, and how many bytes; the answer is eight bytes, and for a read the bytes after them.
const (
	rawPut       = 1
	rawGet       = 2
	rawHeadBytes = 1 + 8 + 8
	rawDoneBytes = 8
)

// memory is anonymous memory in large pages where the system has them, touched once.
func memory(bytes int64) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", bytes, err)
	}
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // a kernel without them has small ones
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
	return m, nil
}

// ServeRaw lets its memory be read and written over bare connections, one thread for each, until the context ends. It calls ready when
// the memory is there.
func ServeRaw(ctx context.Context, ln net.Listener, bytes int64, ready func()) error {
	m, err := memory(bytes)
	if err != nil {
		return err
	}
	ready()
	defer func() { _ = unix.Munmap(m) }()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		nc, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			c, err := blocking.New(ctx, nc.(*net.TCPConn))
			if err != nil {
				return err
			}
			defer c.Close()
			serveRaw(c, m)
			return nil
		})
	}
}

// serveRaw serves one connection until it ends or asks for what is not there.
func serveRaw(c *blocking.Conn, m []byte) {
	var head [rawHeadBytes]byte
	var done [rawDoneBytes]byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		at, size := binary.LittleEndian.Uint64(head[1:]), binary.LittleEndian.Uint64(head[9:])
		if at > uint64(len(m)) || size > uint64(len(m))-at {
			return
		}
		body := m[at : at+size]
		if head[0] == rawPut {
			if _, err := io.ReadFull(c, body); err != nil {
				return
			}
		}
		if _, err := c.Write(done[:]); err != nil {
			return
		}
		if head[0] == rawGet {
			if _, err := c.Write(body); err != nil {
				return
			}
		}
	}
}

// stream is one connection, that moves a part of every object.
type stream struct {
	conn *blocking.Conn
	part []byte
	skip uint64 // where in the object the part begins
	jobs chan job
	done chan error
}

type job struct {
	op byte
	at uint64
}

func (s *stream) move(j job) error {
	var head [rawHeadBytes]byte
	head[0] = j.op
	binary.LittleEndian.PutUint64(head[1:], j.at+s.skip)
	binary.LittleEndian.PutUint64(head[9:], uint64(len(s.part)))
	if _, err := s.conn.Write(head[:]); err != nil {
		return err
	}
	if j.op == rawPut {
		if _, err := s.conn.Write(s.part); err != nil {
			return err
		}
	}
	var done [rawDoneBytes]byte
	if _, err := io.ReadFull(s.conn, done[:]); err != nil || j.op == rawPut {
		return err
	}
	_, err := io.ReadFull(s.conn, s.part)
	return err
}

// RawClients move objects over bare connections, all at the same time.
type RawClients struct {
	Address string
	Clients int
	Streams int   // connections of each client, over which an object is divided
	Bytes   int64 // of the server's memory
}

// Fill has nothing to do: the memory is there.
func (RawClients) Fill(context.Context, Phase) error { return nil }

// Clear has nothing to do.
func (RawClients) Clear(context.Context, Phase) error { return nil }

// Move runs a phase.
func (r RawClients) Move(ctx context.Context, p Phase) ([]Moved, error) {
	out := make([]Moved, r.Clients)
	group, ctx := errgroup.WithContext(ctx)
	for i := range out {
		group.Go(func() (err error) {
			out[i], err = r.one(ctx, i, p)
			return err
		})
	}
	return out, group.Wait()
}

// one is one client.
func (r RawClients) one(ctx context.Context, number int, p Phase) (Moved, error) {
	buffer, err := memory(p.Size)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	streams, end, err := r.open(ctx, buffer)
	if err != nil {
		return Moved{}, err
	}
	times, err := r.loop(streams, number, p)
	return settled(times, p.Size), errors.Join(err, end())
}

// settled makes figures of times.
func settled(times []time.Duration, size int64) Moved {
	m := Moved{Count: len(times), Bytes: size * int64(len(times))}
	if len(times) == 0 {
		return m
	}
	slices.Sort(times)
	for _, d := range times {
		m.Seconds += d.Seconds()
	}
	m.P50, m.P99 = times[len(times)/2].Seconds(), times[min(len(times)-1, len(times)*99/100)].Seconds()
	return m
}

// open connects the streams of a client; all but the first have a goroutine, which end ends.
func (r RawClients) open(ctx context.Context, buffer []byte) (streams []*stream, end func() error, err error) {
	var group errgroup.Group
	end = func() error {
		for _, s := range streams {
			close(s.jobs)
		}
		err := group.Wait()
		for _, s := range streams {
			err = errors.Join(err, s.conn.Close())
		}
		return err
	}
	each := len(buffer) / r.Streams
	for i := range r.Streams {
		dialer := net.Dialer{Timeout: limits.BenchAnswerMs * time.Millisecond}
		nc, err := dialer.DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		conn, err := blocking.New(ctx, nc.(*net.TCPConn))
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		s := &stream{conn: conn, part: buffer[each*i : each*(i+1)], skip: uint64(each * i), jobs: make(chan job), done: make(chan error)}
		if i == r.Streams-1 {
			s.part = buffer[each*i:]
		}
		streams = append(streams, s)
		if i > 0 {
			group.Go(func() error {
				for j := range s.jobs {
					s.done <- s.move(j)
				}
				return nil
			})
		}
	}
	return streams, end, nil
}

func (r RawClients) loop(streams []*stream, number int, p Phase) (times []time.Duration, err error) {
	span := max(r.Bytes/int64(r.Clients), p.Size)
	slots := max(1, span/p.Size)
	op := byte(rawGet)
	if p.What == put {
		op = rawPut
	}
	until := time.Now().Add(time.Duration(p.Seconds * float64(time.Second)))
	for n := int64(0); len(times) < 3 || time.Now().Before(until); n++ {
		j := job{op, uint64(int64(number)*span + n%slots*p.Size)}
		began := time.Now()
		for _, s := range streams[1:] {
			s.jobs <- j
		}
		err = streams[0].move(j)
		for _, s := range streams[1:] {
			err = errors.Join(err, <-s.done)
		}
		if err != nil {
			return times, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}
