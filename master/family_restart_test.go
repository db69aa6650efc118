package master

import (
	"testing"

	"mooncake/wire"
)

// TestReaderOf12AfterARestart has clients of two releases, on hosts of their own and on one, and lets the one of 0.3.12 only
// read when the master is back: its first read is right, before and after the other has shown itself.
func TestReaderOf12AfterARestart(t *testing.T) {
	for name, older := range map[string]string{"hosts of their own": "127.0.0.5", "one host": "127.0.0.6"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keeps := func(c *Config) { c.DataDir = dir }
			first := newBed(t, keeps)
			writer := first.peerFrom(older, wire.V12)
			writer.mount("pool", 1<<44, 64*mib)
			writer.put("k", mib)
			first.peerFrom("127.0.0.6", wire.V14).prove()
			first.stop()
			for range 2 {
				next := newBed(t, keeps)
				next.peerFrom("127.0.0.6", wire.V14).prove()
				reader := next.peerFrom(older, wire.V12)
				expect(t, "the first read", reader.get("k").Err, 0)
				expect(t, "the second read", reader.get("k").Err, 0)
				next.stop()
			}
		})
	}
}

// TestReaderOf12AfterAFailover is the same when another master leads.
func TestReaderOf12AfterAFailover(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	writer := first.peerFrom("127.0.0.5", wire.V12)
	writer.mount("pool", 1<<44, 64*mib)
	writer.put("k", mib)
	first.peerFrom("127.0.0.6", wire.V14).prove()
	first.stop()
	second.awaitState("serving")
	second.peerFrom("127.0.0.6", wire.V14).prove()
	expect(t, "the first read", second.peerFrom("127.0.0.5", wire.V12).get("k").Err, 0)
}
