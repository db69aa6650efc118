package master

import (
	"net/http"
	"testing"
)

// TestMetadataOverARestart ends a master with a journal and starts another: the entries are there, byte for byte, versions of
// 0.3.14 included, and what was deleted is not.
func TestMetadataOverARestart(t *testing.T) {
	dir := t.TempDir()
	durable := func(c *Config) { c.DataDir, c.JournalSync, c.MetadataServer = dir, "never", true }
	location := `{"ip_or_host_name":"127.0.0.1","rpc_port":16796,"metadata_version":1795966334190123}`
	b := newBed(t, durable)
	for key, value := range map[string]string{
		"mooncake%2Frpc_meta%2Fh%3A1": location, "mooncake%2Fram%2Fh%3A1": `{ "buffers" : [] }`, "mooncake%2Fram%2Fgone": "{}",
	} {
		if status, text := ask(b.metadata, http.MethodPut, "/metadata?key="+key, value); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	if status, _ := ask(b.metadata, http.MethodDelete, "/metadata?key=mooncake%2Fram%2Fgone", ""); status != http.StatusOK {
		t.Fatal(status)
	}
	b.stop()
	b = newBed(t, durable)
	for target, want := range map[string]string{
		"/metadata?key=mooncake/rpc_meta/h:1":         location,
		"/metadata?key=mooncake%2Frpc_meta%2Fh%3A1":   location,
		"/metadata?key=mooncake%2Fram%2Fh%3A1":        `{ "buffers" : [] }`,
		"/metadata?key=mooncake%2Fram%2Fgone":         "metadata not found",
		"/metadata?key=mooncake%252Frpc_meta%252Fh:1": "metadata not found", // encoded twice is another key
	} {
		if _, text := ask(b.metadata, http.MethodGet, target, ""); text != want {
			t.Errorf("%s: %s, want %s", target, text, want)
		}
	}
	older := `{"ip_or_host_name":"127.0.0.1","rpc_port":16796,"metadata_version":1}`
	if status, text := ask(b.metadata, http.MethodPut, "/metadata?key=mooncake%2Frpc_meta%2Fh%3A1", older); status != http.StatusBadRequest {
		t.Errorf("another value for a name that is taken: %d %s", status, text)
	}
}
