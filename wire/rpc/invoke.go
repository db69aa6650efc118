package rpc

import (
	"context"
	"fmt"

	"mooncake/wire"
)

// Invoke makes one typed call: req is written and rep read in dialect d. An error reply comes back as *CallError.
//
//	var rep wire.PingReply
//	err := rpc.Invoke(ctx, client, wire.Ping, wire.V14, &req, &rep)
func Invoke[Req, Rep any](ctx context.Context, c *Client, call *wire.Call[Req, Rep], d wire.Dialect, req *Req, rep *Rep) error {
	body := call.AppendRequest(nil, d, req)
	code, answer, err := c.Call(ctx, call.ID.FunctionID(), body)
	if err != nil {
		return fmt.Errorf("%s: %w", call.ID.Name(), err)
	}
	if code != CodeOK {
		return &CallError{Call: call.ID.Name(), Code: code, Text: ErrorText(answer)}
	}
	return call.DecodeReply(answer, d, rep)
}
