package master

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// TestStrangeArguments sends arguments as no release lays them out, from two addresses and on several connections: each
// request is answered with error 4 and counted, each address has one line for each call and hash.
func TestStrangeArguments(t *testing.T) {
	b := newBed(t)
	strange := binary.LittleEndian.AppendUint32(nil, 0x0badf00c|1) // the lowest bit is no part of the hash
	strange = append(strange, "\x04some literal\x00"...)
	exist := wire.ExistKey.AppendRequest(nil, wire.V13, &wire.ExistKeyRequest{Key: "k"})
	foreign := append([]byte(nil), exist...)
	foreign[7] ^= 1 // a known hash, and another literal than its own
	send := func(from string, id wire.CallID, bodies ...[]byte) {
		t.Helper()
		l := b.line(b.Ports().RPC, from)
		for _, body := range bodies {
			code, reply, err := l.Call(t.Context(), id.FunctionID(), body)
			if err != nil || code != rpc.CodeInvalidArgs || rpc.ErrorText(reply) != rpc.TextInvalidArgs {
				t.Fatalf("%s: code %d, %q, %v", id, code, rpc.ErrorText(reply), err)
			}
		}
		if code, _, err := l.Call(t.Context(), wire.CallExistKey.FunctionID(), exist); err != nil || code != rpc.CodeOK {
			t.Fatalf("the connection does not serve on: code %d, %v", code, err)
		}
	}
	send(addressA, wire.CallExistKey, strange, strange, strange[:4])
	send(addressA, wire.CallExistKey, strange) // the same client comes back
	send(addressA, wire.CallPutStart, strange, nil)
	send(addressB, wire.CallExistKey, strange, foreign)

	lines := map[string]int{}
	for _, e := range b.logs.FilterMessageSnippet("laid out").All() {
		f := e.ContextMap()
		lines[strings.Join([]string{f["peer"].(string), f["call"].(string), f["function_id"].(string), f["hash"].(string)}, " ")]++
	}
	hex := metrics.HexLabel
	existID, putID := hex(wire.CallExistKey.FunctionID()), hex(wire.CallPutStart.FunctionID())
	known := hex(binary.LittleEndian.Uint32(exist) &^ 1)
	for _, want := range []string{
		addressA + " ExistKey " + existID + " 0x0badf00c",
		addressA + " PutStart " + putID + " 0x0badf00c",
		addressA + " PutStart " + putID + " 0x00000000",
		addressB + " ExistKey " + existID + " 0x0badf00c",
		addressB + " ExistKey " + existID + " " + known,
	} {
		expect(t, "lines of "+want, lines[want], 1)
		delete(lines, want)
	}
	expect(t, "further lines", len(lines), 0)

	page := metricsPage(t, b)
	for _, want := range []string{
		`{function_id="` + existID + `",hash="0x0badf00c"} 5`,
		`{function_id="` + existID + `",hash="` + known + `"} 1`,
		`{function_id="` + putID + `",hash="0x0badf00c"} 1`,
		`{function_id="` + putID + `",hash="0x00000000"} 1`,
		`{function_id="other",hash="other"} 0`,
	} {
		if !strings.Contains(page, "\nmooncake_go_unknown_arguments_total"+want+"\n") {
			t.Errorf("not in /metrics: %s", want)
		}
	}
}

func metricsPage(t *testing.T, b *bed) string {
	t.Helper()
	r, err := http.Get("http://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStrangeArgumentsWithoutEnd has more peers and hashes than are remembered: the log says so once and is silent then,
// and every request is counted.
func TestStrangeArgumentsWithoutEnd(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	s := &Service{log: zap.New(core), calls: metrics.NewCalls()}
	const more = 10
	peer := netip.MustParseAddr("10.0.0.0")
	body := make([]byte, 4)
	for i := range uint32(limits.StrangeArgumentsTold + more) {
		binary.LittleEndian.PutUint32(body, i<<1)
		peer = peer.Next()
		s.strange(peer, wire.CallPing, body, rpc.ErrProtocol)
	}
	expect(t, "lines", logs.Len(), limits.StrangeArgumentsTold+1)
	expect(t, "lines that no more follow", logs.FilterMessageSnippet("only counted").Len(), 1)
	expect(t, "remembered", len(s.strangers.told), limits.StrangeArgumentsTold)
	counted, others := s.calls.Strange(metrics.Arguments{FunctionID: wire.CallPing.FunctionID(), Hash: 0})
	expect(t, "counted of the first", counted, uint64(1))
	expect(t, "counted together", others, uint64(limits.StrangeArgumentsTold+more-limits.MetricsStrangeArguments))
}
