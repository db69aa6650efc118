package master

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/replication"
	"mooncake/wire/rpc"
)

// guest is what the master to which a client has connected knows of it. It tells that to the leader in front of the client's
// first request, since the leader sees no more than this master's address.
type guest struct {
	addr  netip.Addr
	fam   family // familyUnknown: nothing was seen
	fixed bool   // the port decides
	first uint32 // what the first request of the connection was, if it was answered already
}

// introduction is the function id of the call that tells the leader who a guest is. No published release has it.
const introduction = 0x4d6f6f6e

// Layout of its body: secret of the leader, family, whether that is fixed, first request, address.
const introductionBytes = replication.SecretBytes + 3 + 16

func (g *guest) append(dst []byte, secret replication.Secret) []byte {
	dst = append(dst, secret[:]...)
	fixed := byte(0)
	if g.fixed {
		fixed = 1
	}
	dst = append(dst, byte(g.fam), fixed, byte(g.first))
	addr := g.addr.As16()
	return append(dst, addr[:]...)
}

// parseGuest reads an introduction.
func parseGuest(body []byte) (secret replication.Secret, g guest, ok bool) {
	if len(body) != introductionBytes {
		return secret, g, false
	}
	rest := body[copy(secret[:], body):]
	g = guest{fam: family(rest[0]), fixed: rest[1] == 1, first: uint32(rest[2]), addr: netip.AddrFrom16([16]byte(rest[3:])).Unmap()}
	ok = g.fam <= family14 && rest[1] <= 1 && g.first <= firstOther && (g.fam != familyUnknown || !g.fixed)
	return secret, g, ok
}

// guestOf tells who is behind a connection that this master has served so far.
func (r *familyRegistry) guestOf(c *peerConn) guest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return guest{c.peer, family(c.fam.Load()), c.fixed, c.first.Load()}
}

// introduced takes the word of another master for who is behind a connection on which nothing was asked yet. Only one who
// could read the secret in etcd is believed.
func (p *port) introduced(c *peerConn, body []byte) bool {
	secret, g, ok := parseGuest(body)
	if !ok || p.history.term == nil || !p.history.term.Knows(secret) || c.first.Load() != firstNone {
		return false
	}
	p.families.introduce(c, &g)
	return true
}

// introduce makes the connection that of a guest.
func (r *familyRegistry) introduce(c *peerConn, g *guest) {
	r.mu.Lock()
	c.peer = g.addr
	r.mu.Unlock()
	c.first.Store(g.first)
	switch {
	case c.fixed || g.fam == familyUnknown:
	case g.fixed:
		r.mu.Lock()
		c.fixed = true
		c.fam.Store(uint32(g.fam))
		r.mu.Unlock()
	default:
		r.learn(c, g.fam)
	}
}

// hostOf is the guest behind a connection of which this master knows no more than where it came from.
func (g *gate) hostOf(c *net.TCPConn) guest {
	addr, _ := c.RemoteAddr().(*net.TCPAddr)
	if addr == nil {
		return guest{} // it is gone already
	}
	return guest{addr: addr.AddrPort().Addr().Unmap(), fam: g.fixed, fixed: g.fixed != familyUnknown}
}

// reach connects to the leader and tells it who the guest is. A leader that gives nobody a secret, or is of a version without
// introductions, is told nothing.
func (g *gate) reach(view replication.View, who *guest) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(g.ctx, limits.GateDialMs*time.Millisecond)
	defer cancel()
	secret, err := g.secret(ctx, view)
	if err == nil {
		var leader *net.TCPConn
		if leader, err = dialLeader(ctx, view.Address); err != nil {
			return nil, err
		}
		if err = present(ctx, leader, secret, who); err == nil {
			return leader, nil
		}
		_ = leader.Close() // another one is made
		g.forget(view)
	}
	if g.ctx.Err() == nil && g.mute.Swap(view.Created) != view.Created {
		g.log.Warn("clients are passed on to the leader unnamed", zap.String("action", "guest_unnamed"), zap.String("leader", view.Address), zap.Error(err))
	}
	plain, cancelPlain := context.WithTimeout(g.ctx, limits.GateDialMs*time.Millisecond)
	defer cancelPlain()
	return dialLeader(plain, view.Address)
}

func dialLeader(ctx context.Context, address string) (*net.TCPConn, error) {
	up, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return up.(*net.TCPConn), nil
}

var errNotIntroduced = errors.New("the leader does not accept the introduction")

// present makes the call.
func present(ctx context.Context, leader *net.TCPConn, secret replication.Secret, who *guest) error {
	if end, ok := ctx.Deadline(); ok {
		if err := leader.SetDeadline(end); err != nil {
			return err
		}
	}
	if _, err := leader.Write(who.append(rpc.AppendRequestHeader(nil, 0, introduction, introductionBytes), secret)); err != nil {
		return err
	}
	var head [rpc.ReplyHeaderBytes]byte
	if _, err := io.ReadFull(leader, head[:]); err != nil {
		return err
	}
	if code, bytes := head[2], binary.LittleEndian.Uint32(head[8:]); code != rpc.CodeOK || bytes != 0 {
		return errNotIntroduced
	}
	return leader.SetDeadline(time.Time{})
}
