package data

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRaw moves objects over bare connections, whole and divided.
func TestRaw(t *testing.T) {
	const serverBytes = 1 << 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- ServeRaw(serving, ln, serverBytes, func() {}) }()
	for _, what := range []string{"put", "get"} {
		for _, streams := range []int{1, 3} {
			r := RawClients{Address: ln.Addr().String(), Clients: 2, Streams: streams, Bytes: serverBytes}
			all, err := r.Move(ctx, Phase{What: what, Size: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			rate, sum := Together(all)
			if rate <= 0 || sum.Count != 6 || sum.Bytes != 600_000 || sum.P50 <= 0 || sum.P99 < sum.P50 {
				t.Errorf("%s over %d: %v GB/s, %+v", what, streams, rate, sum)
			}
		}
	}
	outside := RawClients{Address: ln.Addr().String(), Clients: 1, Streams: 1, Bytes: serverBytes}
	if _, err := outside.Move(ctx, Phase{What: "get", Size: 2 * serverBytes}); err == nil {
		t.Error("more was read than there is")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTogether(t *testing.T) {
	rate, sum := Together([]Moved{
		{Count: 1, Bytes: 1e9, Seconds: 1, P50: 1, P99: 2, CPU: 1}, {Count: 3, Bytes: 2e9, Seconds: 4, P50: 3, P99: 4, Errors: 1},
	})
	if rate != 1.5 || sum.Count != 4 || sum.P50 != 2 || sum.P99 != 4 || sum.Errors != 1 || sum.CPU != 1 {
		t.Errorf("%v %+v", rate, sum)
	}
	if got := settled(nil, 7); got.Count != 0 || got.Seconds != 0 {
		t.Errorf("nothing moved is %+v", got)
	}
}
