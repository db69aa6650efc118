package interop

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// markup is a name that does harm where a page takes it for markup: both parts would set a title.
const markup = `<script>document.title="gotcha"</script><img src=x onerror='document.title="gotcha"'>`

// pictures is where the pictures of the page are kept, to be looked at.
var pictures = flag.String("pictures", "", "folder in which to leave pictures of the page for people")

// TestPage opens the page for people in a browser while clients of a release write and read. It shows what there is and what
// comes while it is open, in both dresses, and names that are markup do nothing.
func TestPage(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 256 * mib})
	if _, err := m.Request("PUT", "/api/v1/workloads/rollouts", `{"prefixes":["miles-object-store/"],"reserved_bytes":67108864}`); err != nil {
		t.Fatal(err)
	}
	store := startStore(t, r, R13, StoreOptions{Master: m.RPC, BufferBytes: 128 * mib})
	first := Bundle{Rows: 64, Seed: 1}
	h := putBundle(t, store, first)
	getBundle(t, store, h, first)
	for seed := 2; seed < 5; seed++ {
		putBundle(t, store, Bundle{Rows: 64 * seed, Seed: seed})
	}
	cleanBundle(t, store, putBundle(t, store, Bundle{Rows: 16, Seed: 9}))
	put(t, store, Item{Key: "kv-cache/0001", Size: 24 * mib, Seed: 1}, nil)

	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := StartBrowser(dir, "http://"+m.Admin+"/ui")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	shows := func(what, expression, want string) {
		t.Helper()
		last := ""
		eventually(t, browserLimit, what, func() bool {
			last, err = b.Value(expression)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(last, want)
		})
	}
	const text = `document.body ? document.body.innerText : ""`
	shows("the page to be fed", `document.getElementById("live") && document.getElementById("live").textContent`, "live")
	shows("the master's role", text, "leader")
	shows("the segment and its size", `document.getElementById("segments") && document.getElementById("segments").innerText`, "256 MiB")
	shows("the bundle", `document.getElementById("bundles").innerText`, "miles-object-store/default/")
	shows("its workload", `document.getElementById("workloads").innerText`, "rollouts")
	shows("what happened to it", `document.getElementById("events").innerText`, "bundle published")

	dressed(t, b)

	// What comes from now on shows without a reload.
	for _, rest := range []string{"/meta", "/buffer/batch.x", "/manifest"} {
		put(t, store, Item{Key: Key(markup + "/" + markup + "/0123456789abcdef0123456789abcdef" + rest), Size: 4096, Seed: 1}, nil)
	}
	mountMarkup(t, m)
	shows("the segment with markup in its name", `document.getElementById("segments").innerText`, markup)
	shows("the bundle with markup in its name", `document.getElementById("bundles").innerText`, markup)
	for expression, want := range map[string]string{
		`document.title`: "mooncake-master " + m.RPC,
		`/null|undefined|NaN|\[object/.test(document.body.innerText)`:   "false",
		`document.querySelectorAll("main script, main img").length`:     "0",
		`document.querySelectorAll("link, script, img, iframe").length`: "3", // its own
	} {
		if got, err := b.Value(expression); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", expression, got, want, err)
		}
	}
}

// dressed looks at the page in light and dark.
func dressed(t *testing.T, b *Browser) {
	t.Helper()
	papers := map[string]bool{}
	for _, dress := range []string{"light", "dark"} {
		if err := b.Dress(dress); err != nil {
			t.Fatal(err)
		}
		paper, err := b.Value(`getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color`)
		if err != nil || papers[paper] {
			t.Errorf("%s: %s, like the other (%v)", dress, paper, err)
		}
		papers[paper] = true
		picture, err := b.Picture()
		if err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(bytes.NewReader(picture)); err != nil || image.Bounds().Dx() < 1000 {
			t.Errorf("%s: no picture: %v", dress, err)
		}
		if *pictures != "" {
			if err := os.WriteFile(filepath.Join(*pictures, dress+".png"), picture, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// mountMarkup gives the master a segment with markup for a name and a host. Nobody writes to it: it is too small.
func mountMarkup(t *testing.T, m *Master) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit*slowness)
	defer cancel()
	c, err := rpc.Dial(ctx, m.RPC, rpc.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	q := wire.MountSegmentRequest{ClientID: wire.UUID{Hi: 1, Lo: 2}, Segment: wire.Segment{
		ID: wire.UUID{Hi: 3, Lo: 4}, Name: markup, Base: 1 << 32, Size: 4096, TeEndpoint: markup + ":" + strconv.Itoa(1), Protocol: "tcp",
	}}
	var reply wire.MountSegmentReply
	if err := rpc.Invoke(ctx, c, &wire.MountSegment, wire.V13, &q, &reply); err != nil || reply.Err != 0 {
		t.Fatalf("mount: %v, %v", err, reply.Err)
	}
}
