package client

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// changing is a master whose first answers are lost in a change of leaders. It notes what it was asked.
type changing struct {
	mooncakev1.UnimplementedObjectsServer
	mu    sync.Mutex
	asked []string
	lost  int // answers that are to be lost
}

func (m *changing) answer(call string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, call)
	if m.lost > 0 {
		m.lost--
		return status.Error(codes.Unavailable, "nobody leads")
	}
	return nil
}

func (m *changing) Start(context.Context, *mooncakev1.StartRequest) (*mooncakev1.StartReply, error) {
	if err := m.answer("start"); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.PermissionDenied, "that is the end of it")
}

func (m *changing) Revoke(_ context.Context, q *mooncakev1.RevokeRequest) (*mooncakev1.RevokeReply, error) {
	if err := m.answer("revoke"); err != nil {
		return nil, err
	}
	return &mooncakev1.RevokeReply{Outcomes: make([]*mooncakev1.Outcome, len(q.GetKeys()))}, nil
}

// TestBegunAnew loses answers to the start of a write and to its giving up: a master that leads since then knows of the write, and it
// is begun anew only when that was given up.
func TestBegunAnew(t *testing.T) {
	for lost := range 4 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv, m := grpc.NewServer(), &changing{lost: lost}
		mooncakev1.RegisterObjectsServer(srv, m)
		run(t, "the master", func(ctx context.Context) error {
			defer context.AfterFunc(ctx, srv.Stop)()
			return srv.Serve(ln)
		})
		c, err := New(Config{Masters: []string{ln.Addr().String()}, GRPCOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"start"}
		if lost > 0 {
			want = slices.Concat(want, slices.Repeat([]string{"revoke"}, lost), want)
		}
		stream := func() error { return c.PutStream(soon(t), "k", 1, strings.NewReader("x"), PutOptions{}, nil) }
		whole := func() error { return c.Put(soon(t), "k", []byte("x"), PutOptions{}) }
		for name, put := range map[string]func() error{"stream": stream, "whole": whole} {
			m.mu.Lock()
			m.asked, m.lost = nil, lost
			m.mu.Unlock()
			if err := put(); status.Code(err) != codes.PermissionDenied && !strings.Contains(err.Error(), "the end of it") {
				t.Errorf("%s, %d lost: %v", name, lost, err)
			}
			m.mu.Lock()
			asked := slices.Clone(m.asked)
			m.mu.Unlock()
			if len(asked) < len(want) || !slices.Equal(asked[:len(want)], want) {
				t.Errorf("%s, %d lost: %v, want %v", name, lost, asked, want)
			}
		}
		c.Close()
	}
}
