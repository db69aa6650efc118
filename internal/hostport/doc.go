// Package hostport is the only reader of network addresses written by people and peers.
//
// It owns one grammar, the one Transfer Engine endpoints use, for flags, environment variables and endpoint strings
// alike:
//
//	host            10.0.0.7          the caller's default port
//	host:port       node-7:50051
//	[v6]            [::1]             the caller's default port
//	[v6]:port       [fd00::7]:50051
//	v6              fd00::7           the whole text is the address: it has no place for a port
//
// It refuses to know what an address is for, and it never asks a resolver: a name is only checked for characters that
// no name can have.
//
//	host, port, err := hostport.Parse("[::1]:50051", 12001)
package hostport
