package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// identity proves to one member who calls, by a token that the member has given for user and password. The library would
// draw it while it opens the connection, and fail where etcd is away; this draws it when a call is refused for want of one.
type identity struct {
	user, password string

	renewing sync.Mutex // one at a time
	mu       sync.Mutex
	token    string
}

// GetRequestMetadata gives what goes with each call.
func (i *identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token := i.current(); token != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity is false: whether a password travels in the clear is the operator's to say.
func (i *identity) RequireTransportSecurity() bool { return false }

func (i *identity) current() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.token
}

// renew draws a new token, unless somebody did since the call that used the old one.
func (i *identity) renew(ctx context.Context, etcd *clientv3.Client, used string) error {
	i.renewing.Lock()
	defer i.renewing.Unlock()
	if i.current() != used {
		return nil
	}
	answer, err := etcd.Authenticate(ctx, i.user, i.password)
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserNotFound):
		return fmt.Errorf("%w: user %s does not exist or its password is wrong (--etcd_user, --etcd_password_file or %s)", ErrRefused, i.user, PasswordEnv)
	case err != nil:
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token = answer.Token
	return nil
}

// stale tells whether a call failed for want of a token that counts.
func stale(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// staleWatch tells it of a watch, of which older members say only that it is not permitted, in words.
func staleWatch(err error) bool {
	return err != nil && (stale(err) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Error(), "auth token") || strings.Contains(err.Error(), "user name is empty"))
}

// call makes a call at a member, twice when the token has run out.
func (m *member) call(ctx context.Context, do func(ctx context.Context, etcd *clientv3.Client) error) error {
	used := ""
	if m.identity != nil {
		used = m.identity.current()
	}
	err := do(ctx, m.etcd)
	// Without a token a member goes by the name in the certificate, and may find that this one has no rights.
	unnamed := m.identity != nil && used == "" && errors.Is(err, rpctypes.ErrPermissionDenied)
	switch {
	case err == nil || !stale(err) && !unnamed:
		return err
	case m.identity != nil:
		if err := m.identity.renew(ctx, m.etcd, used); err != nil {
			return err
		}
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: it wants a user (--etcd_user)", ErrRefused)
	}
	return do(ctx, m.etcd)
}
