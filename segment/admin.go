package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// NoSocket is the value of Config.AdminSocket for none.
const NoSocket = "none"

// SocketSuffix ends the names of admin sockets; they begin like the arena's.
const SocketSuffix = ".sock"

// checkAdminSocket refuses a path that no socket can have.
func (c *Config) checkAdminSocket() error {
	path := c.AdminSocket
	if path == "" || path == NoSocket {
		return nil
	}
	if len(path) > limits.SegmentSocketPathBytes {
		return fmt.Errorf("--admin_socket=%s has %d characters, at most %d are possible", path, len(path), limits.SegmentSocketPathBytes)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("--admin_socket=%s: %s is no folder", path, filepath.Dir(path))
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("--admin_socket: %s is there and no socket", path)
	}
	return nil
}

// listenAdmin opens the socket by which the size is changed. It lies beside the state file, and only the daemon's own user and
// root are let in: there is no other word for who may change what a host gives away. The lock of the arena is held, so what an
// earlier run left there is nobody's.
func (d *Daemon) listenAdmin(cl *claim) error {
	path, own := d.cfg.AdminSocket, true
	switch path {
	case NoSocket:
		return nil
	case "":
		path, own = filepath.Join(d.cfg.stateDir(), arenaPrefix+cl.name+SocketSuffix), false
	}
	if len(path) > limits.SegmentSocketPathBytes {
		d.log.Warn("no admin socket: its path would be too long; give one (--admin_socket)", zap.String("path", path))
		return nil
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return fmt.Errorf("--admin_socket: %s is there and no socket", path)
		}
		if own { // without a path of its own the daemon has a lock
			if conn, err := net.Dial("unix", path); err == nil {
				_ = conn.Close() // nothing was asked
				return fmt.Errorf("--admin_socket: another process answers at %s", path)
			}
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("--admin_socket: %w", err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("--admin_socket: %w", err)
	}
	d.listeners.admin = &ownersOnly{ln}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("--admin_socket: %w", err)
	}
	return nil
}

// ownersOnly closes connections of other users.
type ownersOnly struct{ net.Listener }

// Accept waits for a connection of the daemon's own user or of root.
func (l *ownersOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUser(conn); err == nil && (uid == 0 || int(uid) == os.Geteuid()) {
			return conn, nil
		}
		_ = conn.Close() // a stranger needs no reason
	}
}

func peerUser(conn net.Conn) (uid uint32, err error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("no socket of this host")
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// adminHandler has the pages of the HTTP port, and POST /resize.
func (d *Daemon) adminHandler() http.Handler {
	pages := d.httpHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/resize" && r.Method == http.MethodPost {
			d.serveResize(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// serveResize takes an order and answers with GET /memory, or with the reason why not.
func (d *Daemon) serveResize(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Bytes    uint64 `json:"bytes"`
		WithinMs uint64 `json:"within_ms"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, limits.SegmentOrderBytes))
	dec.DisallowUnknownFields()
	err := dec.Decode(&order)
	if err == nil && dec.More() {
		err = errors.New("something follows it")
	}
	if err != nil {
		writeText(w, http.StatusBadRequest, "text/plain", "the order cannot be read: "+err.Error())
		return
	}
	within := time.Duration(min(order.WithinMs, limits.SegmentDrainMaxMs+1)) * time.Millisecond
	err = d.askResize(resizeOrder{order.Bytes, within})
	switch {
	case errors.Is(err, errBusy):
		writeText(w, http.StatusConflict, "text/plain", err.Error())
	case err != nil:
		writeText(w, http.StatusUnprocessableEntity, "text/plain", err.Error())
	default:
		writeJSON(w, http.StatusAccepted, d.memoryPage())
	}
}
