package replication

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"sync"

	"mooncake/internal/etcdkv"
)

// SecretBytes is how long a Secret is: nobody guesses it.
const SecretBytes = 16

// A Secret is what a member is told by others that have read it in etcd: so it knows them from strangers on its call port.
// It is drawn anew by each process.
type Secret [SecretBytes]byte

func drawSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // it never fails
	return s
}

func (s Secret) text() string { return hex.EncodeToString(s[:]) }

func parseSecret(text string) (s Secret, err error) {
	if len(text) != 2*SecretBytes {
		return s, ErrNoSecret
	}
	_, err = hex.Decode(s[:], []byte(text))
	return s, err
}

// ErrNoSecret says that a leader has told none: it is of an older version, or has not come to it yet.
var ErrNoSecret = errors.New("the leader tells no secret")

// secrets remembers that of the leader.
type secrets struct {
	mu   sync.Mutex
	of   View
	last Secret
}

// SecretOf gives the secret of the leader of a view.
func (m *Member) SecretOf(ctx context.Context, v View) (Secret, error) {
	m.secrets.mu.Lock()
	known, s := m.secrets.of == v, m.secrets.last
	m.secrets.mu.Unlock()
	if known {
		return s, nil
	}
	key := m.shelf.keys.member(v.Address)
	kvs, _, _, err := m.shelf.etcd.Range(ctx, key, key+"\x00", etcdkv.Page{})
	if err != nil {
		return Secret{}, err
	}
	if len(kvs) == 0 {
		return Secret{}, ErrNoSecret
	}
	p, err := parsePresence(v.Address, kvs[0].Value)
	if err != nil {
		return Secret{}, err
	}
	if s, err = parseSecret(p.Secret); err == nil {
		m.secrets.mu.Lock()
		m.secrets.of, m.secrets.last = v, s
		m.secrets.mu.Unlock()
	}
	return s, err
}

// ForgetSecret says that the leader of a view does not know its secret: what was read was that of a process before.
func (m *Member) ForgetSecret(v View) {
	m.secrets.mu.Lock()
	defer m.secrets.mu.Unlock()
	if m.secrets.of == v {
		m.secrets.of = View{}
	}
}

// Knows tells whether a secret is the one of this member.
func (t *Term) Knows(s Secret) bool { return subtle.ConstantTimeCompare(s[:], t.secret[:]) == 1 }
