package master

import (
	"net/http"

	"mooncake/internal/limits"
)

// limitRow is one bound as /limits shows it.
type limitRow struct {
	Name    string  `json:"name"`
	Limit   int64   `json:"limit,omitempty"`
	Unit    string  `json:"unit"`
	Per     string  `json:"per"`
	Now     *int64  `json:"now,omitempty"`
	Refused *uint64 `json:"refused,omitempty"`
}

// limitRows are the bounds on what others may do to this process, with what they hold now where that is known.
func (d *doors) limitRows() []limitRow {
	calls := d.calls()
	outside := d.networks.Refused()
	tokens := d.tokens.Load().Refused()
	outsideGRPC, tokensGRPC := d.grpcNetworks.Refused(), d.grpcTokens.Load().Refused()
	peerConns := int64(calls.PeerConns)
	return []limitRow{
		{"rpc_connections", limits.RPCConns, "connections", "call port", &calls.ConnsOpen, &calls.ConnsRefused},
		{"rpc_connections_of_one_address", limits.RPCPeerConns, "connections", "address", &peerConns, nil},
		{"rpc_connections_from_outside", 0, "connections", "process", nil, &outside},
		{"rpc_calls_of_one_address", limits.RPCPeerCalls, "unanswered calls", "address", &calls.PeerCalls, &calls.CallsRefused},
		{"rpc_frame", limits.RPCFrameBytes, "bytes", "call", nil, &calls.ProtocolErrors},
		{"rpc_large_frames", limits.RPCLargeBytes, "bytes", "call port", &calls.LargeBytes, &calls.BusyClosed},
		{"rpc_large_frames_of_one_address", limits.RPCPeerLargeBytes, "bytes", "address", nil, nil},
		{"rpc_half_frame", limits.RPCHalfFrameMs, "ms", "call", nil, &calls.HalfFrames},
		{"rpc_pending_replies", limits.RPCPendingBytes, "bytes", "connection", nil, &calls.SlowReaders},
		{"rpc_reply_stall", limits.RPCStallMs, "ms", "connection", nil, nil},
		{"rpc_key", limits.KeyBytesMax, "bytes", "key", nil, nil},
		{"grpc_connections", limits.GRPCConnections, "connections", "gRPC port", nil, nil},
		{"grpc_connections_from_outside", 0, "connections", "process", nil, &outsideGRPC},
		{"grpc_calls_without_token", 0, "calls", "process", nil, &tokensGRPC},
		{"grpc_frame", limits.GRPCMessageBytes, "bytes", "call in a frame", nil, nil},
		{"grpc_frame_connections", limits.GRPCConnections, "connections", "gRPC port", nil, nil},
		{"grpc_frame_pending_replies", limits.FramedPendingBytes, "bytes", "connection", nil, nil},
		{"http_connections", limits.HTTPConnections, "connections", "HTTP port", nil, nil},
		{"http_header", limits.HTTPHeaderBytes, "bytes", "request", nil, nil},
		{"http_header_time", limits.HTTPHeaderMs, "ms", "request", nil, nil},
		{"http_request_time", limits.HTTPReadMs, "ms", "request", nil, nil},
		{"http_requests_without_token", 0, "requests", "process", nil, &tokens},
	}
}

// limitRows are the bounds of the page, and of what daemons are asked over their streams.
func (p *livePage) limitRows() []limitRow {
	readers, refused := int64(len(p.streams)), p.refused.Load()
	return []limitRow{
		{"page_readers", limits.PageStreams, "streams", "process", &readers, &refused},
		{"page_write_time", limits.PageWriteMs, "ms", "message", nil, nil},
		{"attach_hello_time", limits.AttachHelloMs, "ms", "stream", nil, nil},
		{"attach_reads", limits.AttachReads, "unanswered reads", "daemon", nil, nil},
		{"attach_read", limits.AttachReadBytes, "bytes", "read", nil, nil},
		{"attach_read_time", limits.AttachReadMs, "ms", "read", nil, nil},
		{"verify_queue", limits.VerifyQueue, "manifests", "process", nil, nil},
	}
}

func (s *Server) serveLimits(w http.ResponseWriter) {
	replyJSON(w, http.StatusOK, struct {
		Limits []limitRow `json:"limits"`
	}{append(s.doors.limitRows(), s.page.limitRows()...)})
}
