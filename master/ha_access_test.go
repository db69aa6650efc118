package master

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/wire"
)

// TestGuardedEtcd has two masters at an etcd that asks for TLS, a certificate and a password. Tokens run out under them,
// and one takes over from the other.
func TestGuardedEtcd(t *testing.T) {
	dir := t.TempDir()
	authority, err := etcdfake.NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Server("etcd", true)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdfake.StartGuarded(etcdfake.Options{TLS: config, Users: map[string]string{"masters": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	access := etcdkv.Access{CACert: authority.File, User: "masters", Password: "secret"}
	if access.Cert, access.Key, err = authority.Issue("master"); err != nil {
		t.Fatal(err)
	}
	guarded := func(c *Config) { c.Etcd = access }
	first := newMember(t, etcd, guarded)
	first.awaitState("serving")
	second := newMember(t, etcd, guarded)
	second.awaitState("standby")
	p := first.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	etcd.ForgetTokens()
	p.put("l", mib)
	etcd.ForgetTokens()
	first.stop()
	second.awaitState("serving")
	for _, key := range []string{"k", "l"} {
		if !second.client(wire.V13).exists(key) {
			t.Errorf("%s is lost", key)
		}
	}

	wrong := filepath.Join(dir, "password")
	if err := os.WriteFile(wrong, []byte("guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := first.cfg
	cfg.Etcd.PasswordFile = wrong
	if _, err := Listen(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "--etcd_password_file") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a wrong password: %v", err)
	}
	cfg.Etcd = access
	cfg.Etcd.CACert = filepath.Join(dir, "nonesuch.pem")
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "--etcd_cacert") {
		t.Errorf("a missing file: %v", err)
	}
	if text := cfg.String(); strings.Contains(text, "secret") || !strings.Contains(text, "etcd_user=masters") {
		t.Errorf("the settings are told as %s", text)
	}
}
