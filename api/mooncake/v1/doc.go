// Package mooncakev1 is the gRPC interface of a master, as generated from the protos beside it: objects, bundles, workloads,
// segments and the master itself. It owns nothing but messages and service descriptions; package master serves them, package
// client calls them. docs/grpc.md tells how.
//
// The package's name carries its version: what is here changes only in ways that old callers do not notice.
package mooncakev1

//go:generate protoc -I ../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative mooncake/v1/types.proto mooncake/v1/objects.proto mooncake/v1/bundles.proto mooncake/v1/workloads.proto mooncake/v1/segments.proto mooncake/v1/admin.proto
