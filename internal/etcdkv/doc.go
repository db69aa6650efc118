// Package etcdkv is the only door to etcd: plain get, put and delete of single keys (Client), and transactions, leases and
// watches that go on while members of the cluster fall silent (Cluster).
//
// It owns the client library, the deadline of each call, the choice of the member that is asked and the spelling of
// endpoint lists, and how members are told who calls (Access). It refuses to know what the keys mean. What a Client puts carries no lease: descriptors in etcd stay
// until their owner deletes them, as the original leaves them.
//
// Invariants: every call of a Client ends within limits.EtcdCallMs, every try of a Cluster at one member within
// limits.EtcdTryMs, whatever etcd does; a watch that nothing is heard of moves to another member; Close ends the library's
// goroutines.
//
//	endpoints, err := etcdkv.ParseEndpoints("etcd://10.0.0.1:2379;10.0.0.2:2379")
//	client, err := etcdkv.Open(endpoints, etcdkv.Access{})
//	value, found, err := client.Get(ctx, "mooncake/ram/node-7")
package etcdkv
