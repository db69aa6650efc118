// Package descriptor is how processes of Transfer Engine learn where each other's memory can be reached.
//
// It owns: the segment descriptor (a JSON text: name, protocol, ranges, data port), the handshake port's frames and both
// ends of it, the keys and values in a metadata server (http or etcd), and the look-up of an endpoint with its cache. It
// refuses to know what is inside the memory, how bytes are moved, and what a master is.
//
// Three ways to find a descriptor, chosen by the metadata server's name:
//
//	P2PHANDSHAKE      ask the process itself: the endpoint is its handshake port
//	http://…          GET of the key mooncake/ram/<name>; where to dial is under mooncake/rpc_meta/<name>
//	etcd://a;b        the same two keys
//
// Invariants:
//   - A descriptor that Parse returned has a name, a protocol, and only ranges that are named, not empty and do not wrap.
//   - The handshake server answers each connection once, in a bounded time, whatever its neighbours do; nothing is
//     allocated for bytes that were only announced.
//   - The look-up cache is bounded; an entry lives until Forget or Refresh, because real processes cache for ever and a
//     daemon therefore keeps its ports.
//
// Locks: Resolver.mu guards the cache only and is never held while something is asked.
//
//	server := descriptor.NewServer(descriptor.ServerConfig{Describe: own})
//	go server.Serve(ctx, listener)
//	target, err := descriptor.NewResolver(store, nil).Lookup(ctx, "10.0.0.7:16001")
package descriptor
