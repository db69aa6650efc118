package segment

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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
	said := codes.OK // why there was none
	for {
		master, reign, err := d.leader.now()
		pause := limits.AttachRetryMs * time.Millisecond
		if err == nil && d.health.isMounted() {
			before := d.attachments.Load()
			if err = d.attachTo(ctx, reign, hostport.Join(hostOnly(master), d.cfg.MasterGRPCPort)); ctx.Err() != nil {
				return
			}
			code := status.Code(err)
			switch {
			case d.attachments.Load() > before: // it was there, and most often is again at once
				said = codes.OK
				d.log.Debug("the stream to the master has ended", zap.String("master", master), zap.Error(err))
			case reign.Err() == nil && code != said:
				said = code
				d.log.Info("no stream to the master: tasks are fetched at intervals", zap.String("master", master), zap.Error(err), zap.String("hint", d.hintFor(code)))
			}
			if d.settled(code) {
				pause = limits.AttachAbsentMs * time.Millisecond
			}
		}
		if !sleepOver(ctx, reign, pause) {
			return
		}
	}
}

// attachTo keeps a stream to a master, or to the one that it names as its leader.
func (d *Daemon) attachTo(ctx, reign context.Context, address string) error {
	err := d.attach(ctx, reign, address)
	for _, detail := range status.Convert(err).Details() {
		if to, ok := detail.(*mooncakev1.Redirect); ok && to.GetGrpcAddress() != "" && to.GetGrpcAddress() != address {
			return d.attach(ctx, reign, to.GetGrpcAddress())
		}
	}
	return err
}

// settled tells whether what ended a stream is unlikely to pass soon: a published master, or one that wants something else.
func (d *Daemon) settled(code codes.Code) bool {
	switch code {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		return true
	}
	return code == codes.Unavailable && d.attachments.Load() == 0
}

// hintFor says what may help.
func (d *Daemon) hintFor(code codes.Code) string {
	switch {
	case code == codes.Unauthenticated:
		return "the master wants a token: --master_grpc_token_file"
	case code == codes.Unavailable && d.cfg.MasterGRPC.CA == "":
		return "if the master speaks TLS there: --master_grpc_ca; if it offers no stream: --master_grpc_port=-1"
	case code == codes.Unavailable:
		return "does the master speak TLS there, with a certificate for this name of it?"
	}
	return ""
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
	var summing sync.WaitGroup
	defer summing.Wait()
	defer cancel()
	defer context.AfterFunc(reign, cancel)()
	transport, err := d.cfg.MasterGRPC.transport()
	if err != nil {
		return err
	}
	if ctx, err = d.cfg.MasterGRPC.shown(ctx); err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.AttachReadBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: limits.AttachPingMs * time.Millisecond, Timeout: limits.PeerDialMs * time.Millisecond}))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer d.keeper.CompareAndSwap(conn, nil)
	attached, err := mooncakev1.NewSegmentsClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	stream, sums := &stream{Segments_AttachClient: attached}, make(chan *mooncakev1.SumRequest, 1)
	summing.Go(func() { d.findSums(ctx, stream, sums) })
	hello := &mooncakev1.Hello{Client: &mooncakev1.Uuid{High: d.clientID.Hi, Low: d.clientID.Lo}, Sums: true}
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
			d.welcomed(what.Welcome, conn, address)
		case *mooncakev1.AttachReply_TasksWait:
			d.fetchSoon()
		case *mooncakev1.AttachReply_Read:
			answer := d.readFor(what.Read)
			if err := stream.answer(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Read{Read: answer}}); err != nil {
				return err
			}
		case *mooncakev1.AttachReply_Sum:
			select {
			case sums <- what.Sum:
			default:
				if err := stream.answerSums(&mooncakev1.SumReply{Number: what.Sum.GetNumber(), Failure: errSumsBusy.Error()}); err != nil {
					return err
				}
			}
		}
	}
}

// readFor copies bytes out of our memory. Somebody may be writing there: the master checks what it gets.
func (d *Daemon) readFor(q *mooncakev1.ReadRequest) *mooncakev1.ReadReply {
	reply := &mooncakev1.ReadReply{Number: q.GetNumber()}
	if q.GetSize() <= limits.AttachReadBytes {
		if bytes, done := d.held(q.GetAddress(), q.GetSize()); bytes != nil {
			reply.Data = append([]byte(nil), bytes...)
			done()
			return reply
		}
	}
	reply.Failure = errOutside.Error()
	return reply
}

var errOutside = errors.New("not within the segment, or more than " + strconv.Itoa(limits.AttachReadBytes) + " bytes")
