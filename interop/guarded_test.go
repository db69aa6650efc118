package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startGuardedEtcd runs Debian's etcd with TLS and client certificates, and lets in only its root and the user masters,
// whose role has the keys of our masters and nothing else.
func startGuardedEtcd(t *testing.T, r *Rig, c *Certificates) (address string) {
	t.Helper()
	ports, err := r.TakePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	client, peer := "https://"+local(ports[0]), "http://"+local(ports[1])
	p, err := r.Start("etcd", exec.Command("etcd", "--data-dir", filepath.Join(r.Dir, "etcd-guarded"), "--name", "one",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer,
		"--cert-file", c.Cert, "--key-file", c.Key, "--client-cert-auth", "--trusted-ca-file", c.Authority))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.waitListening(r.slow(startLimit), local(ports[0])); err != nil {
		t.Fatal(err)
	}
	transport, err := c.transport()
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: transport}
	defer web.CloseIdleConnections()
	ask := func(path string, body map[string]any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client+"/v3/"+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		resp, err := web.Do(q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("etcd %s: %s %s", path, resp.Status, answer)
		}
		return err
	}
	eventually(t, startLimit, "etcd to have a leader", func() bool { return ask("kv/range", map[string]any{"key": []byte("k")}) == nil })
	may := func(prefix, end string) map[string]any {
		return map[string]any{"name": "mooncake", "perm": map[string]any{"permType": "READWRITE", "key": []byte(prefix), "range_end": []byte(end)}}
	}
	const view = "mooncake-store/mooncake_cluster/master_view"
	for _, step := range []struct {
		path string
		body map[string]any
	}{
		{"auth/user/add", map[string]any{"name": "root", "password": "root's"}},
		{"auth/user/grant", map[string]any{"user": "root", "role": "root"}},
		{"auth/role/add", map[string]any{"name": "mooncake"}},
		{"auth/role/grant", may("/mooncake-go/mooncake_cluster/", "/mooncake-go/mooncake_cluster0")},
		{"auth/role/grant", map[string]any{"name": "mooncake", "perm": map[string]any{"permType": "READWRITE", "key": []byte(view)}}},
		{"auth/user/add", map[string]any{"name": "masters", "password": "secret"}},
		{"auth/user/grant", map[string]any{"user": "masters", "role": "mooncake"}},
		{"auth/enable", map[string]any{}},
	} {
		err := ask(step.path, step.body)
		if err != nil && strings.Contains(err.Error(), "role name not found") { // this version wants the role first
			if err = ask("auth/role/add", map[string]any{"name": "root"}); err == nil {
				err = ask(step.path, step.body)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return local(ports[0])
}

// TestGuardedEtcd has two masters and a segment daemon at an etcd that asks for TLS, a certificate and a password, with no
// more rights than they need. The leader is killed; a client that knows one master's address goes on. Then a master starts
// with each thing wrong, and ends with one line.
func TestGuardedEtcd(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	certs, err := NewCertificates(r.Dir, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := NewCertificates(r.Dir, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	password, wrong := filepath.Join(r.Dir, "password"), filepath.Join(r.Dir, "wrong")
	for path, text := range map[string]string{password: "secret\n", wrong: "guess\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	etcd := startGuardedEtcd(t, r, certs)
	access := []string{
		"--etcd_cacert=" + certs.Authority, "--etcd_cert=" + certs.Cert, "--etcd_key=" + certs.Key, "--etcd_user=masters", "--etcd_password_file=" + password,
	}
	join := func() *Master {
		m := startMaster(t, r, MasterOptions{Flags: append([]string{"--enable_ha", "--ha_backend_connstring=" + etcd, "--grpc_port=0"}, access...)})
		eventually(t, startLimit, "a master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
		return m
	}
	first, second := join(), join()
	daemon, err := r.StartSegment(SegmentOptions{Master: "etcd://" + etcd, SizeBytes: 64 * mib, Flags: access})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, startLimit, "the daemon to be in the pool", func() bool { return healthy(daemon) })
	store := startStore(t, r, R13, StoreOptions{Master: second.RPC}) // published clients know no passwords of etcd
	items := itemsOf("guarded/", 10, func(i int) int64 { return int64(1 + i*100_000) })
	for _, i := range items {
		put(t, store, i, nil)
	}
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the standby to lead", func() bool { return strings.Contains(page(second, "/health"), `"service_ready":true`) })
	eventually(t, 60*time.Second, "the daemon to be with it", func() bool { return healthy(daemon) })
	eventually(t, 60*time.Second, "the client to read", func() bool {
		got, err := store.Get(items[0])
		return err == nil && got.Same
	})
	for _, i := range items {
		get(t, store, i)
	}
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"another authority": {[]string{"--etcd_cacert=" + strangers.Authority}, "--etcd_cacert"},
		"a missing file":    {[]string{"--etcd_cacert=" + filepath.Join(r.Dir, "nonesuch.pem")}, "nonesuch.pem"},
		"a wrong password":  {[]string{"--etcd_password_file=" + wrong}, "its password is wrong"},
		"other rights":      {[]string{"--cluster_id=theirs"}, "denies"},
	} {
		args := append([]string{"--rpc_address=127.0.0.1", "--rpc_port=0", "--metrics_port=0", "--metrics_host=127.0.0.1", "--grpc_port=0", "--enable_ha", "--ha_backend_connstring=" + etcd}, access...)
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		out, err := exec.CommandContext(ctx, filepath.Join(r.Binaries, "mooncake-master"), append(args, c.flags...)...).CombinedOutput()
		cancel()
		if text := strings.TrimSpace(string(out)); err == nil || strings.Contains(text, "\n") || !strings.HasPrefix(text, "ERROR: ") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}
