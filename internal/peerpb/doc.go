// Package peerpb is the protocol between masters of one cluster, as generated from peer.proto. It owns nothing but the
// messages; package replication serves and calls it.
package peerpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative peer.proto
