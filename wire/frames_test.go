package wire

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// anyCall is a call without its types, for tests that walk over all of them.
type anyCall interface {
	newRequest() any
	newReply() any
	decodeRequestAny(body []byte, d Dialect) (any, error)
	decodeReplyAny(body []byte, d Dialect) (any, error)
	appendRequestAny(dst []byte, d Dialect, x any) []byte
	appendReplyAny(dst []byte, d Dialect, x any) []byte
}

type typedCall[Req, Rep any] struct{ c *Call[Req, Rep] }

func callOf[Req, Rep any](c *Call[Req, Rep]) anyCall { return typedCall[Req, Rep]{c} }

func (t typedCall[Req, Rep]) newRequest() any { return new(Req) }

func (t typedCall[Req, Rep]) newReply() any { return new(Rep) }

func (t typedCall[Req, Rep]) decodeRequestAny(body []byte, d Dialect) (any, error) {
	x := new(Req)
	return x, t.c.DecodeRequest(body, d, x)
}

func (t typedCall[Req, Rep]) decodeReplyAny(body []byte, d Dialect) (any, error) {
	x := new(Rep)
	return x, t.c.DecodeReply(body, d, x)
}

func (t typedCall[Req, Rep]) appendRequestAny(dst []byte, d Dialect, x any) []byte {
	return t.c.AppendRequest(dst, d, x.(*Req))
}

func (t typedCall[Req, Rep]) appendReplyAny(dst []byte, d Dialect, x any) []byte {
	return t.c.AppendReply(dst, d, x.(*Rep))
}

// frame is one recorded message of a published wheel or master.
type frame struct {
	Version string
	Dir     string
	RPC     string
	Exact   bool `json:"reencode_exact"`
	Hex     string
	Decoded json.RawMessage
	// Only in errors.jsonl.
	Case       string
	RequestHex string `json:"request_hex"`
	Code       uint8

	file string
	line int
}

const (
	requestHead = 20
	replyHead   = 16
)

// dialect is the layout the frame is in.
func (f *frame) dialect(t testing.TB) Dialect {
	d, ok := map[string]Dialect{"0.3.12.post1": V12, "0.3.13.post1": V13, "0.3.14": V14}[f.Version]
	if !ok {
		t.Fatalf("%s:%d: unknown release %s", f.file, f.line, f.Version)
	}
	return d
}

// body cuts the frame's head off.
func (f *frame) body(t testing.TB) []byte {
	raw := unhex(t, f.Hex)
	if f.Dir == "req" {
		return raw[requestHead:]
	}
	return raw[replyHead:]
}

// call finds the frame's call: by name, and for requests by function id too.
func (f *frame) call(t testing.TB) CallID {
	for c := range CallID(NumCalls) {
		if c.Name() != f.RPC {
			continue
		}
		if f.Dir == "req" {
			id, ok := Lookup(binary.LittleEndian.Uint32(unhex(t, f.Hex)[8:]))
			if !ok || id != c {
				t.Fatalf("%s:%d: function id is of call %v", f.file, f.line, id)
			}
		}
		return c
	}
	t.Fatalf("%s:%d: unknown call %s", f.file, f.line, f.RPC)
	return 0
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readFrames reads the recorded frames whose file name matches.
func readFrames(t testing.TB, pattern string) []frame {
	names, err := filepath.Glob(filepath.Join("testdata", "golden", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	var out []frame
	for _, name := range names {
		out = append(out, readFrameFile(t, name)...)
	}
	return out
}

func readFrameFile(t testing.TB, name string) []frame {
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	var out []frame
	for n := 1; lines.Scan(); n++ {
		f := frame{file: filepath.Base(name), line: n}
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%s:%d: %v", name, n, err)
		}
		out = append(out, f)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
