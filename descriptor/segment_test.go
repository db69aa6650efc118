package descriptor

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// recordedDescriptors are the texts of all recorded descriptors, of real processes and of others, tcp and rdma.
func recordedDescriptors(t testing.TB) map[string][]byte {
	texts := map[string][]byte{}
	for _, glob := range []string{"testdata/*/handshake-type1-*.bin", "testdata/*/initiator-metadata-*.bin"} {
		for _, file := range recordings(t, glob) {
			frame, err := ReadFrame(bytes.NewReader(content(t, file)), 1<<20)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			texts[file] = frame.Text
		}
	}
	return texts
}

// What was parsed and written again says the same as the original. Keys that only say "nothing" may be missing.
func TestRecordedDescriptorsSurvive(t *testing.T) {
	rdma := 0
	for file, text := range recordedDescriptors(t) {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if s.Protocol == ProtocolRDMA {
			rdma++
			if len(s.Devices) == 0 || len(s.PriorityMatrix) == 0 || len(s.Buffers[0].LKey) != len(s.Devices) {
				t.Errorf("%s: devices, priority matrix or keys are missing: %+v", file, s)
			}
		}
		want, got := generic(t, text), generic(t, s.Encode())
		for _, key := range []string{"rdma_server_name", "metadata_version"} {
			if v := want[key]; v == "" || v == json.Number("0") {
				delete(want, key)
			}
		}
		if _, said := want["tcp_proto_version"]; !said {
			want["tcp_proto_version"] = json.Number("1")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: recorded (-), written again (+):\n%s", file, diff)
		}
	}
	if rdma == 0 {
		t.Error("no rdma descriptor among the recordings")
	}
}

func generic(t *testing.T, text []byte) (v map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEncodeIsCompactAndSorted(t *testing.T) {
	s := sample()
	s.Name = "a<b&c>é"
	const want = `{"buffers":[{"addr":9223372036854775809,"length":4611686018427387905,"name":"127.0.0.1:16005"}],"name":"a<b&c>é",` +
		`"protocol":"tcp","tcp_data_host":"127.0.0.1","tcp_data_port":16006,"tcp_proto_version":2,"timestamp":"2026-11-29 15:12:52.345935"}` + "\n"
	if got := string(s.Encode()); got != want {
		t.Errorf("Encode:\n got %s want %s", got, want)
	}
	if got := string((&Segment{}).Encode()); !strings.HasPrefix(got, `{"buffers":[],`) {
		t.Errorf("a descriptor without buffers has no empty list: %s", got)
	}
}

func TestParseReadsWhatOthersWrite(t *testing.T) {
	s, err := Parse([]byte(` {"name":"n","Name":"other","protocol":"tcp","tcp_data_port":1,"unknown":{"deep":[1,2]},"metadata_version":1795965437200684,
		"buffers":[{"name":"n","addr":18446744073709551615,"length":1,"shm_name":"x"}], "priority_matrix":null, "devices":null}  `))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "n" || s.TCPProtoVersion != TCPUnacknowledged || s.Buffers[0].Addr != math.MaxUint64 || s.MetadataVersion != 1795965437200684 {
		t.Errorf("parsed %+v", s)
	}
}

func TestParseRefuses(t *testing.T) {
	with := func(change string) string {
		return `{"name":"n","protocol":"tcp","tcp_data_port":1,"buffers":[{"name":"n","addr":8,"length":8}]` + change + `}`
	}
	gid := "00:00:00:00:00:00:00:00:00:00:ff:ff:c6:33:64:0a"
	rdma := `{"name":"n","protocol":"rdma","devices":[{"name":"d","gid":"` + gid + `"}],"buffers":[{"name":"cpu:0","addr":8,"length":8,"lkey":[1],"rkey":[1]}]`
	if _, err := Parse([]byte(rdma + "}")); err != nil {
		t.Fatalf("the sound rdma descriptor: %v", err)
	}
	for text, reason := range map[string]string{
		``:                                "descriptor",
		`[]`:                              "descriptor",
		`null`:                            "null",
		`{"name":`:                        "descriptor",
		`{}`:                              "no name",
		`{"name":"n"}`:                    "no protocol",
		`{"name":"n","protocol":"tcp"}`:   "tcp_data_port",
		`{"name":7}`:                      "descriptor.name: number does not fit string",
		`{"name":"n","protocol":["tcp"]}`: "descriptor.protocol",
		with(`,"tcp_data_port":65536`):    "65536 is larger",
		with(`,"tcp_data_port":-1`):       "descriptor.tcp_data_port",
		with(`,"tcp_data_port":"80"`):     "descriptor.tcp_data_port",
		with(`,"tcp_proto_version":0`):    "tcp_proto_version is 0",
		with(`,"buffers":{}`):             "descriptor.buffers",
		with(`,"buffers":[7]`):            "descriptor.buffers[0]",
		with(`,"buffers":[null]`):         "buffers[0]: null",
		with(`,"buffers":[{"addr":8,"length":8}]`):                                           "buffers[0]: no name",
		with(`,"buffers":[{"name":"n","length":8}]`):                                         "buffers[0]: addr is 0",
		with(`,"buffers":[{"name":"n","addr":8}]`):                                           "buffers[0]: length is 0",
		with(`,"buffers":[{"name":"n","addr":8,"length":18446744073709551616}]`):             "descriptor.buffers[0].length",
		with(`,"buffers":[{"name":"n","addr":1.5,"length":8}]`):                              "descriptor.buffers[0].addr",
		with(`,"buffers":[{"name":"n","addr":18446744073709551615,"length":2}]`):             "beyond the end",
		with(`,"buffers":[{"name":"n","addr":8,"length":8,"rkey":[-1]}]`):                    "descriptor.buffers[0].rkey",
		with(`,"priority_matrix":{"cpu:0":"x"}`):                                             "descriptor.priority_matrix",
		rdma + `,"devices":[]}`:                                                              "1 rkeys and 1 lkeys for 0 devices",
		rdma + `,"devices":[{"name":"","gid":"` + gid + `"}]}`:                               "devices[0]: no name",
		rdma + `,"devices":[{"name":"d","gid":"fe80::1"}]}`:                                  `gid "fe80::1"`,
		rdma + `,"devices":[{"name":"d","gid":"` + gid[:45] + `zz"}]}`:                       "two hexadecimal digits",
		rdma + `,"buffers":[{"name":"*","addr":8,"length":8,"rkey":[1,2]}]}`:                 "2 rkeys",
		rdma + `,"devices":[{"name":"d","lid":65536,"gid":"` + gid + `"}]}`:                  "65536 is larger",
		with(`,"buffers":[` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `]`): "descriptor",
	} {
		_, err := Parse([]byte(text))
		if err == nil {
			t.Errorf("%.100s is accepted", text)
			continue
		}
		mustContain(t, err, reason)
	}
}

// Whatever a sound descriptor says survives being written and read.
func TestDescriptorsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é]{1,20}`)
		s := &Segment{
			Name: text.Draw(t, "name"), Protocol: ProtocolTCP, TCPDataHost: text.Draw(t, "host"), RDMAServerName: text.Draw(t, "server"),
			TCPDataPort: uint16(rapid.IntRange(1, 65535).Draw(t, "port")), TCPProtoVersion: rapid.IntRange(1, 3).Draw(t, "version"),
			MetadataVersion: rapid.Uint64().Draw(t, "metadata version"), Timestamp: text.Draw(t, "timestamp"), Buffers: []Buffer{},
		}
		for range rapid.IntRange(0, 5).Draw(t, "buffers") {
			addr := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "addr")
			s.Buffers = append(s.Buffers, Buffer{
				Name: text.Draw(t, "buffer"), Addr: addr, Length: rapid.Uint64Range(1, max(1, -addr)).Draw(t, "length"),
				RKey: rapid.SliceOfN(rapid.Uint32(), 1, 3).Draw(t, "rkey"),
			})
		}
		back, err := Parse(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range recordedDescriptors(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("parsed and then found unsound: %v", err)
		}
		back, err := Parse(s.Encode())
		if err != nil {
			t.Fatalf("written and not read again: %v", err)
		}
		if !bytes.Equal(back.Encode(), s.Encode()) {
			t.Fatalf("%s\nis not\n%s", back.Encode(), s.Encode())
		}
	})
}

func FuzzParseLocation(f *testing.F) {
	f.Add([]byte(`{"ip_or_host_name":"127.0.0.1","rpc_port":16796}`))
	f.Add([]byte(`{"ip_or_host_name":"127.0.0.1","metadata_version":1795965437070768,"rpc_port":16146}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLocation(text)
		if err != nil {
			return
		}
		if back, err := ParseLocation(l.Encode()); err != nil || back != l {
			t.Fatalf("%+v, written and read again %+v, %v", l, back, err)
		}
	})
}
