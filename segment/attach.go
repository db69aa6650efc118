package segment

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// stayAttached keeps a stream to the master for hints, wherever one offers it: tasks are fetched at once, and the bytes of small
// objects are given when they are asked for. Without one nothing is missing but haste.
func (d *Daemon) stayAttached(ctx context.Context) {
	if d.cfg.MasterGRPCPort < 0 {
		return
	}
	for {
		master, reign, err := d.leader.now()
		pause := limits.AttachRetryMs * time.Millisecond
		if err == nil && d.health.isMounted() {
			address := hostport.Join(hostOnly(master), d.cfg.MasterGRPCPort)
			err = d.attach(ctx, reign, address)
			var to *mooncakev1.Redirect
			for _, detail := range status.Convert(err).Details() {
				if r, ok := detail.(*mooncakev1.Redirect); ok && r.GetGrpcAddress() != "" && r.GetGrpcAddress() != address {
					to = r
				}
			}
			if to != nil {
				err = d.attach(ctx, reign, to.GetGrpcAddress())
			}
			if code := status.Code(err); code == codes.Unimplemented || code == codes.Unavailable && d.attachments.Load() == 0 {
				pause = limits.AttachAbsentMs * time.Millisecond
			}
			d.log.Debug("no stream to the master", zap.String("master", master), zap.Error(err))
		}
		if !sleepOver(ctx, reign, pause) {
			return
		}
	}
}

// hostOnly is the host of a host:port.
func hostOnly(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// attach keeps one stream until it ends.
func (d *Daemon) attach(ctx, reign context.Context, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(reign, cancel)()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.AttachReadBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: limits.AttachPingMs * time.Millisecond, Timeout: limits.PeerDialMs * time.Millisecond}))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := mooncakev1.NewSegmentsClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	hello := &mooncakev1.Hello{Client: &mooncakev1.Uuid{High: d.clientID.Hi, Low: d.clientID.Lo}}
	if err := stream.Send(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Hello{Hello: hello}}); err != nil {
		_, err = stream.Recv() // that has the reason
		return err
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		switch what := reply.GetWhat().(type) {
		case *mooncakev1.AttachReply_Welcome:
			d.attachments.Add(1)
			d.log.Info("attached to the master", zap.String("address", address))
		case *mooncakev1.AttachReply_TasksWait:
			select {
			case d.tasksWait <- struct{}{}:
			default: // they are about to be fetched
			}
		case *mooncakev1.AttachReply_Read:
			answer := d.readFor(what.Read)
			if err := stream.Send(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Read{Read: answer}}); err != nil {
				return err
			}
		}
	}
}

// readFor copies bytes out of the arena. Somebody may be writing there: the master checks what it gets.
func (d *Daemon) readFor(q *mooncakev1.ReadRequest) *mooncakev1.ReadReply {
	reply := &mooncakev1.ReadReply{Number: q.GetNumber()}
	arena, at, size := d.arena.Bytes(), q.GetAddress()-d.state.Base, q.GetSize()
	if q.GetAddress() < d.state.Base || size > limits.AttachReadBytes || at > uint64(len(arena)) || size > uint64(len(arena))-at {
		reply.Failure = errOutside.Error()
		return reply
	}
	reply.Data = append([]byte(nil), arena[at:at+size]...)
	return reply
}

var errOutside = errors.New("not within the segment, or more than " + strconv.Itoa(limits.AttachReadBytes) + " bytes")
