package master

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/access"
	"mooncake/internal/peerpb"
)

// TestGRPCLevels wants a level for every call there is: what looks, what changes, what destroys.
func TestGRPCLevels(t *testing.T) {
	special := map[string]access.Level{
		"/mooncake.v1.Objects/Start": access.Operate, "/mooncake.v1.Objects/Remove": access.Admin, "/mooncake.v1.Objects/Placements": access.Read,
		"/mooncake.v1.Bundles/Reclaim": access.Admin, "/mooncake.v1.Bundles/Open": access.Read, "/mooncake.v1.Bundles/Collect": access.Operate,
		"/mooncake.v1.Workloads/Delete": access.Admin, "/mooncake.v1.Segments/Drain": access.Operate, "/mooncake.v1.Segments/ListDrains": access.Read,
		"/mooncake.v1.Segments/List": access.Read, "/mooncake.v1.Admin/Status": access.Read, "/mooncake.v1.Objects/Watch": access.Read,
		"/grpc.health.v1.Health/Check": access.Nobody, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": access.Nobody,
		"/mooncake.peer.v1.Peer/Status": access.Nobody, "/mooncake.v1.Later/Unheard": access.Operate, "": access.Operate,
	}
	for method, want := range special {
		if got := neededFor(method); got != want {
			t.Errorf("%s needs %s, want %s", method, got, want)
		}
	}
	for _, d := range []grpc.ServiceDesc{mooncakev1.Objects_ServiceDesc, mooncakev1.Bundles_ServiceDesc, mooncakev1.Workloads_ServiceDesc, mooncakev1.Segments_ServiceDesc, mooncakev1.Admin_ServiceDesc} {
		for _, m := range d.Methods {
			if neededFor("/"+d.ServiceName+"/"+m.MethodName) == access.Nobody {
				t.Errorf("%s/%s needs no token", d.ServiceName, m.MethodName)
			}
		}
	}
	if got := neededFor("/" + peerpb.Peer_ServiceDesc.ServiceName + "/MakeSnapshot"); got != access.Nobody {
		t.Errorf("other masters need a token of level %s", got)
	}
}

// TestGRPCTokens asks with tokens of all levels, calls and streams, and reloads the file.
func TestGRPCTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("operate 0123456789abcdef-o\nadmin 0123456789abcdef-a\n")
	b := newBed(t, withGRPC, func(c *Config) { c.GRPCTokens = file })
	g, ctx := b.grpc(), soon(t)
	with := func(token string) (exists, start, remove codes.Code) {
		ctx := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		_, err := g.objects.Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"k"}})
		exists = status.Code(err)
		_, err = g.objects.Start(ctx, &mooncakev1.StartRequest{Client: g.id})
		start = status.Code(err)
		_, err = g.objects.Remove(ctx, &mooncakev1.RemoveRequest{Keys: []string{"k"}})
		return exists, start, status.Code(err)
	}
	check := func(token string, wantExists, wantStart, wantRemove codes.Code) {
		t.Helper()
		if e, s, r := with(token); e != wantExists || s != wantStart && s != codes.InvalidArgument || r != wantRemove {
			t.Errorf("with %q: %v %v %v, want %v %v %v", token, e, s, r, wantExists, wantStart, wantRemove)
		}
	}
	check("none", codes.OK, codes.Unauthenticated, codes.Unauthenticated)
	check("0123456789abcdef-o", codes.OK, codes.OK, codes.PermissionDenied)
	check("0123456789abcdef-a", codes.OK, codes.OK, codes.OK)
	got[*grpc_health_v1.HealthCheckResponse](t, "health")(grpc_health_v1.NewHealthClient(g).Check(ctx, &grpc_health_v1.HealthCheckRequest{}))

	write("read 0123456789abcdef-r\n")
	next := b.cfg
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	check("none", codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated)
	check("0123456789abcdef-a", codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated)
	check("0123456789abcdef-r", codes.OK, codes.PermissionDenied, codes.PermissionDenied)
	watch := got[grpc.ServerStreamingClient[mooncakev1.WatchReply]](t, "watch")(g.objects.Watch(ctx, &mooncakev1.WatchRequest{}))
	_, err := watch.Recv()
	refusedAs(t, "a stream", err, codes.Unauthenticated)
	write("nonsense\n")
	if err := b.Reload(&next); err == nil {
		t.Error("a broken file was taken")
	}
	check("0123456789abcdef-r", codes.OK, codes.PermissionDenied, codes.PermissionDenied)
}

// TestGRPCAllowFrom closes connections from elsewhere, and takes them after a reload.
func TestGRPCAllowFrom(t *testing.T) {
	b := newBed(t, withGRPC, func(c *Config) { c.GRPCAllowFrom = "127.0.0.2" })
	ctx := soon(t)
	from := func(ip string) error {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		conn, err := grpc.NewClient("passthrough:///127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = mooncakev1.NewAdminClient(conn).Status(ctx, &mooncakev1.StatusRequest{})
		return err
	}
	if err := from("127.0.0.2"); err != nil {
		t.Error(err)
	}
	refusedAs(t, "from elsewhere", from("127.0.0.3"), codes.Unavailable)
	if b.doors.grpcNetworks.Refused() == 0 {
		t.Error("nothing was refused")
	}
	next := b.cfg
	next.GRPCAllowFrom = "127.0.0.0/8"
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	if err := from("127.0.0.3"); err != nil {
		t.Error(err)
	}
}
