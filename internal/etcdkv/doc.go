// Package etcdkv is the only door to etcd: plain get, put and delete of single keys.
//
// It owns the client library, the deadline of each call and the spelling of endpoint lists. It refuses to know what the
// keys mean. Values carry no lease: descriptors in etcd stay until their owner deletes them, as the original leaves them.
//
// Invariants: every call ends within limits.EtcdCallMs, whatever etcd does; Close ends the library's goroutines.
//
//	endpoints, err := etcdkv.ParseEndpoints("etcd://10.0.0.1:2379;10.0.0.2:2379")
//	client, err := etcdkv.Open(endpoints)
//	value, found, err := client.Get(ctx, "mooncake/ram/node-7")
package etcdkv
