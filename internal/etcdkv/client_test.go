package etcdkv

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooncake/internal/etcdkv/etcdfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, endpoints ...string) *Client {
	t.Helper()
	client, err := Open(endpoints, Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestKeys(t *testing.T) {
	fake, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	client, ctx := open(t, fake.Address()), context.Background()

	if value, found, err := client.Get(ctx, "k"); err != nil || found {
		t.Fatalf("Get of an absent key = %q, %v, %v", value, found, err)
	}
	if err := client.Put(ctx, "k", []byte("v\x00\n")); err != nil {
		t.Fatal(err)
	}
	if value, found, err := client.Get(ctx, "k"); err != nil || !found || string(value) != "v\x00\n" {
		t.Fatalf("Get = %q, %v, %v", value, found, err)
	}
	if existed, err := client.Delete(ctx, "k"); err != nil || !existed {
		t.Fatalf("Delete = %v, %v", existed, err)
	}
	if existed, err := client.Delete(ctx, "k"); err != nil || existed {
		t.Fatalf("second Delete = %v, %v", existed, err)
	}
	if fake.Leases() != 0 {
		t.Fatal("a put named a lease")
	}
}

func TestSecondEndpointServesWhenTheFirstIsGone(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	fake, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	client := open(t, gone.Addr().String(), fake.Address())
	if err := client.Put(context.Background(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
}

// A server that accepts and never speaks must not hold a caller beyond the deadline of the call.
func TestSilentServerIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := open(t, silent.Addr().String())
	client.call = 50 * time.Millisecond
	_, _, err = client.Get(context.Background(), "k")
	if err == nil || !strings.Contains(err.Error(), "no answer to get") || !strings.Contains(err.Error(), silent.Addr().String()) {
		t.Fatalf("Get = %v, want an error that names the silent server", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := client.Put(ctx, "k", nil); err == nil {
		t.Fatal("Put with a cancelled context succeeded")
	}
	if _, err := client.Delete(ctx, "k"); err == nil {
		t.Fatal("Delete with a cancelled context succeeded")
	}
}

func TestParseEndpoints(t *testing.T) {
	for text, want := range map[string][]string{
		"etcd://127.0.0.1:2379":        {"127.0.0.1:2379"},
		"127.0.0.1":                    {"127.0.0.1:2379"},
		"etcd://a:1;b:2;":              {"a:1", "b:2"},
		"a:1, [::1]:3":                 {"a:1", "[::1]:3"},
		"etcd://10.0.0.1;10.0.0.2,::1": {"10.0.0.1:2379", "10.0.0.2:2379", "[::1]:2379"},
	} {
		if got, err := ParseEndpoints(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseEndpoints(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "etcd://", ";,", "etcd://a:b", "a:0", "http://a:1", strings.Repeat("h;", 100)} {
		if got, err := ParseEndpoints(text); err == nil {
			t.Errorf("ParseEndpoints(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzParseEndpoints(f *testing.F) {
	f.Add("etcd://127.0.0.1:2379;10.0.0.2:2379")
	f.Add("::1,a")
	f.Fuzz(func(t *testing.T, text string) {
		endpoints, err := ParseEndpoints(text)
		if err == nil && len(endpoints) == 0 {
			t.Fatalf("ParseEndpoints(%q) named nothing and refused nothing", text)
		}
	})
}
