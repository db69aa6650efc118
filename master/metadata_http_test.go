package master

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"mooncake/internal/limits"
)

func ask(h http.Handler, method, target, body string) (status int, answer string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// TestRecordedDialogues replays whole lives of real clients over a real connection.
func TestRecordedDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/metadata/http-traffic-*.txt")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		m := NewMetadataServer("")
		server := httptest.NewServer(m)
		replayDialogue(t, file, server)
		server.Close()
		if n := m.Len(); n != 0 {
			t.Errorf("%s: %d entries left behind by clients that deleted theirs", file, n)
		}
		if m.bytes != 0 {
			t.Errorf("%s: %d bytes counted in an empty server", file, m.bytes)
		}
	}
}

func replayDialogue(t *testing.T, file string, server *httptest.Server) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	var request, body string
	n := 0
	for scan.Scan() {
		line := scan.Text()
		switch {
		case line != "" && line[0] != ' ':
			request, body = line, ""
		case strings.HasPrefix(line, "   body> "):
			body = strings.TrimPrefix(line, "   body> ")
		case strings.HasPrefix(line, "   -> "):
			n++
			method, target, _ := strings.Cut(request, " ")
			code, want, _ := strings.Cut(strings.TrimPrefix(line, "   -> "), " ")
			req, err := http.NewRequest(method, server.URL+target, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || strconv.Itoa(resp.StatusCode) != code || string(got) != want {
				t.Errorf("%s, request %d: %s\n got %d %s %v\nwant %s %s", file, n, request, resp.StatusCode, got, err, code, want)
			}
		}
	}
	if n < 10 {
		t.Fatalf("%s: only %d requests read", file, n)
	}
}

func TestRemoveSegment(t *testing.T) {
	const name = "127.0.0.1:13395"
	enc := url.QueryEscape
	for _, c := range []struct {
		cluster string
		keys    []string // as clients put them
		segment string
		left    int
		removed int
	}{
		{"", []string{enc("mooncake/ram/" + name), enc("mooncake/rpc_meta/" + name), "mooncake/ram/other"}, name, 1, 2},
		{"", []string{"mooncake/ram/" + name}, name, 0, 1},
		{"", nil, name, 0, 0},
		{"c1", []string{enc("mooncake/c1/ram/" + name), enc("mooncake/c1/rpc_meta/" + name), enc("mooncake/ram/" + name)}, name, 0, 3},
		{"c1/", []string{"mooncake/c1/ram/" + name, "mooncake/c2/ram/" + name}, name, 1, 1},
		{"", []string{enc("mooncake/a/b"), enc("mooncake/rpc_meta/a/b"), enc("mooncake/ram/a/b")}, "a/b", 1, 2},
	} {
		m := NewMetadataServer(c.cluster)
		for _, key := range c.keys {
			if status, text := ask(m, http.MethodPut, "/metadata?key="+key, "{}"); status != http.StatusOK {
				t.Fatal(status, text)
			}
		}
		if got := m.RemoveSegment(c.segment); got != c.removed || m.Len() != c.left {
			t.Errorf("%q %q: removed %d, left %d", c.cluster, c.keys, got, m.Len())
		}
		for range 2 { // the name is free again, for the same value and another
			if status, text := ask(m, http.MethodPut, "/metadata?key="+enc("mooncake/rpc_meta/"+name), "new"); status != http.StatusOK {
				t.Errorf("%q: %d %s", c.cluster, status, text)
			}
		}
	}
}

func TestMetadataLimits(t *testing.T) {
	m := NewMetadataServer("")
	put := func(key, body string) (int, string) { return ask(m, http.MethodPut, "/metadata?key="+key, body) }
	big := strings.Repeat("x", limits.MetadataServerValueBytes)
	for _, c := range []struct {
		key, body string
		status    int
		text      string
	}{
		{strings.Repeat("k", limits.MetadataServerKeyBytes), "", http.StatusOK, "metadata updated"},
		{strings.Repeat("k", limits.MetadataServerKeyBytes+1), "", http.StatusRequestEntityTooLarge, "metadata key of 4097 bytes is longer than 4096"},
		{"big", big, http.StatusOK, "metadata updated"},
		{"big", big + "x", http.StatusRequestEntityTooLarge, "metadata value is larger than 1048576 bytes"},
	} {
		if status, text := put(c.key, c.body); status != c.status || text != c.text {
			t.Errorf("%.10s: %d %s, want %d %s", c.key, status, text, c.status, c.text)
		}
	}
	if status, answer := ask(m, http.MethodGet, "/metadata?key=big", ""); status != http.StatusOK || answer != big {
		t.Error("a refused value replaced the old one")
	}

	m = NewMetadataServer("")
	m.bytes = limits.MetadataServerBytes - 4
	if status, text := put("abc", "de"); status != http.StatusInsufficientStorage || text != "metadata would exceed 268435456 bytes" {
		t.Error(status, text)
	}
	if status, _ := put("abc", "d"); status != http.StatusOK {
		t.Error("the last byte may not be used")
	}
	if status, _ := put("abc", "e"); status != http.StatusOK {
		t.Error("a full server may not replace a value by one of the same size")
	}

	m = NewMetadataServer("")
	for i := range limits.MetadataServerEntries {
		m.entries[strconv.Itoa(i)] = nil
	}
	if status, text := put("one-more", ""); status != http.StatusInsufficientStorage || text != "metadata holds 100000 entries, the most it may" {
		t.Error(status, text)
	}
	if status, _ := put("7", "x"); status != http.StatusOK {
		t.Error("a full server may not change an entry")
	}
}

func TestMetadataCutBody(t *testing.T) {
	m := NewMetadataServer("")
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/metadata?key=a", io.MultiReader(strings.NewReader("x"), brokenReader{})))
	if w.Code != http.StatusBadRequest || m.Len() != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestMetadataAgainstModel holds the server against a map, with keys spelled raw or encoded.
func TestMetadataAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := NewMetadataServer("c"), map[string]string{}
		keys := rapid.SampledFrom([]string{"mooncake/ram/a:1", "mooncake/rpc_meta/a:1", "mooncake/c/ram/b", "x+y", "ü %", "mooncake/c/rpc_meta/b"})
		size := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			spelled := url.PathEscape(key)
			if rapid.Bool().Draw(t, "encoded") {
				spelled = strings.ReplaceAll(url.QueryEscape(key), "+", "%20")
			}
			old, exists := model[key]
			switch rapid.SampledFrom([]string{"get", "put", "delete", "remove"}).Draw(t, "op") {
			case "get":
				status, answer := ask(m, http.MethodGet, "/metadata?key="+spelled, "")
				if exists != (status == http.StatusOK) || exists && answer != old {
					t.Fatalf("get %q: %d %s", key, status, answer)
				}
			case "put":
				value := rapid.SampledFrom([]string{"", "1", "22"}).Draw(t, "value")
				status, text := ask(m, http.MethodPut, "/metadata?x=1&key="+spelled, value)
				want := "metadata updated"
				if exists && strings.Contains(key, "rpc_meta") {
					want = "metadata unchanged"
					if value != old {
						want = "Duplicate rpc_meta key not allowed"
					}
				}
				if text != want || (status == http.StatusOK) != (want[0] == 'm') {
					t.Fatalf("put %q: %d %s, want %s", key, status, text, want)
				}
				if status == http.StatusOK {
					model[key] = value
				}
			case "delete":
				if status, _ := ask(m, http.MethodDelete, "/metadata?key="+spelled, ""); exists != (status == http.StatusOK) {
					t.Fatalf("delete %q: %d", key, status)
				}
				delete(model, key)
			case "remove":
				m.RemoveSegment("a:1")
				delete(model, "mooncake/ram/a:1")
				delete(model, "mooncake/rpc_meta/a:1")
			}
			size = 0
			for k, v := range model {
				size += len(k) + len(v)
			}
			if m.Len() != len(model) || m.bytes != size {
				t.Fatalf("%d entries of %d bytes, want %d of %d", m.Len(), m.bytes, len(model), size)
			}
		}
	})
}

func TestMetadataConcurrently(t *testing.T) {
	m := NewMetadataServer("")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprint("h:", i)
			for range 200 {
				ask(m, http.MethodPut, "/metadata?key=mooncake/rpc_meta/"+name, "1")
				ask(m, http.MethodPut, "/metadata?key=mooncake/ram/"+name, "1")
				ask(m, http.MethodGet, "/metadata?key=mooncake/ram/h:0", "")
				m.RemoveSegment(name)
			}
		})
	}
	wg.Wait()
	if m.Len() != 0 || m.bytes != 0 {
		t.Errorf("%d entries, %d bytes left", m.Len(), m.bytes)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("key=mooncake%2Fram%2F127.0.0.1%3A13395")
	f.Add("a=b&key=x%zz%4&key=y")
	f.Fuzz(func(t *testing.T, query string) {
		value, ok := queryValue(query, "key")
		if ok && !strings.Contains(query, "key") {
			t.Fatalf("%q found in %q", value, query)
		}
		decoded := percentDecoded(value)
		if len(decoded) > len(value) {
			t.Fatalf("%q grew to %q", value, decoded)
		}
		if again := percentDecoded(url.QueryEscape(value)); !strings.Contains(value, " ") && again != value {
			t.Fatalf("%q came back as %q", value, again)
		}
	})
}
