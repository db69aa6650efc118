package replication

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
)

var (
	frozenEtcd = flag.String("etcd", "", "addresses of a real etcd for the stopped writers, instead of a fake one")
	frozenRuns = flag.Int("runs", 5, "how often a writer is stopped")
)

// The environment of a process that is a writer.
const (
	writerEtcd = "WRITER_ETCD" // addresses
	writerBare = "WRITER_BARE" // not empty: without the condition on the leader's key
)

// bareStore leaves the condition on the leader's key out of every transaction, and the end of the lease unnoticed: what
// that condition is for must show.
type bareStore struct{ *etcdkv.Cluster }

func (s bareStore) Txn(ctx context.Context, conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (etcdkv.Outcome, error) {
	var left []etcdkv.Condition
	for _, c := range conditions {
		if c.Key != keysOf("frozen").leader || c.Created == 0 {
			left = append(left, c)
		}
	}
	return s.Cluster.Txn(ctx, left, then, otherwise)
}

func (s bareStore) KeepAlive(context.Context, int64) error { return nil }

func frozenConfig(endpoints []string, address string) (MemberConfig, error) {
	etcd, err := etcdkv.OpenCluster(endpoints, etcdkv.Access{})
	return MemberConfig{
		Cluster: "frozen", Address: address, TTL: 2 * time.Second, Catalog: catalogConfig(), Log: zap.NewNop(), Store: etcd,
	}, err
}

// writeUntilDeposed is all that the process of a writer does. It does not watch who leads, so that nothing but the
// condition holds it back.
func writeUntilDeposed() error {
	cfg, err := frozenConfig(strings.Split(os.Getenv(writerEtcd), ";"), "writer:1")
	if err != nil {
		return err
	}
	if os.Getenv(writerBare) != "" {
		cfg.Store = bareStore{cfg.Store.(*etcdkv.Cluster)}
	}
	m, err := OpenMember(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	term, h, err := m.Lead(ctx)
	if err != nil {
		return err
	}
	defer h.Catalog.Close()
	for i := range 4 {
		go func() {
			for {
				n := term.AppendName(NameChange{Name: fmt.Sprint(i), Value: []byte("v")})
				if term.Wait(ctx, n) != nil {
					return
				}
			}
		}()
	}
	fmt.Println(term.Created())
	if err := term.Run(ctx); !errors.Is(err, ErrDeposed) {
		return fmt.Errorf("the writer ends with %v", err)
	}
	return nil
}

// TestFrozenWriter stops a leader's process while it writes, lets another lead and wakes it: nothing that it writes then
// is in the log. Without the condition on the leader's key it is: that is the control.
func TestFrozenWriter(t *testing.T) {
	for _, bare := range []bool{false, true} {
		late, before := 0, 0
		for range *frozenRuns {
			l, b := frozenRun(t, bare)
			late, before = late+l, before+b
		}
		t.Logf("%d runs, without the condition: %v; %d records before, %d late", *frozenRuns, bare, before, late)
		if (late > 0) != bare {
			t.Errorf("%d late records in %d runs, without the condition: %v", late, *frozenRuns, bare)
		}
	}
}

func frozenRun(t *testing.T, bare bool) (late, before int) {
	endpoints, expire := strings.Split(*frozenEtcd, ";"), func() {}
	if *frozenEtcd == "" {
		etcd, err := etcdfake.Start()
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Stop()
		endpoints, expire = []string{etcd.Address()}, etcd.Expire
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg, err := frozenConfig(endpoints, "next:1")
	if err != nil {
		t.Fatal(err)
	}
	next, err := OpenMember(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	writer, created := startWriter(t, endpoints, bare)
	logged := func() []etcdkv.KV {
		t.Helper()
		kvs, err := next.shelf.all(ctx, next.shelf.keys.logs())
		if err != nil {
			t.Fatal(err)
		}
		return kvs
	}
	waitFor(t, "some records", func() bool { return len(logged()) > 20 })
	if err := writer.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	expire()
	following, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { _ = next.Follow(following) }) // it ends without an error
	defer others.Wait()
	defer stop()
	term, h, err := next.Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Catalog.Close()
	defer next.Ended(term)
	if err := writer.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	count := func() (late, before int) {
		t.Helper()
		for _, kv := range logged() {
			err := records(kv.Key, kv.Value, func(head *header, _ []byte) error {
				switch {
				case head.identity != uint64(created):
				case kv.Modified > term.Created():
					late++
				default:
					before++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return late, before
	}
	if bare { // nothing else ends it
		waitFor(t, "late records", func() bool { late, _ := count(); return late > 0 })
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = writer.Wait() // it was killed
	} else if err := writer.Wait(); err != nil {
		t.Fatalf("the writer: %v", err)
	}
	late, before = count()
	if *frozenEtcd != "" { // the next run begins anew
		ops := []etcdkv.Op{etcdkv.DeleteRange(next.shelf.keys.prefix, end(next.shelf.keys.prefix))}
		if _, err := next.shelf.etcd.Txn(ctx, nil, ops, nil); err != nil {
			t.Fatal(err)
		}
		if err := term.Resign(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return late, before
}

// startWriter starts a process that leads and writes, and returns the revision of its leader's key.
func startWriter(t *testing.T, endpoints []string, bare bool) (writer *exec.Cmd, created int64) {
	t.Helper()
	writer = exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), writerEtcd+"="+strings.Join(endpoints, ";"))
	if bare {
		writer.Env = append(writer.Env, writerBare+"=yes")
	}
	writer.Stderr = os.Stderr
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Process.Kill() }) // it has ended, unless the test failed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		created, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	}
	if err != nil {
		t.Fatalf("the writer says %q: %v", line, err)
	}
	return writer, created
}
