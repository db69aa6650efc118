package master

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// SoftPin implements PinSource: the recorded master had one object of those that were asked about.
func (f *fakeMaster) SoftPin(_ string, keys []string, _ int64) ([]wire.ErrorCode, error) {
	codes := make([]wire.ErrorCode, len(keys))
	for i, key := range keys {
		if key != "s0" {
			codes[i] = wire.ErrObjectNotFound
		}
	}
	return codes, nil
}

// TestRecordedPinPages answers as the recorded master did. What it says of a body that is no JSON is its parser's.
func TestRecordedPinPages(t *testing.T) {
	h := admin(recordedMaster())
	for _, name := range []string{"soft_pin_get", "soft_pin_key", "soft_pin_ok", "soft_unpin_again", "soft_unpin_empty", "soft_unpin_ok"} {
		readExchange(t, name).compare(t, name, h)
	}
	e := readExchange(t, "soft_pin_empty")
	status, answer := ask(h, e.method, e.target, e.body)
	const start = `{"success":false,"error_code":-600,"error_message":"Invalid JSON body: `
	if status != e.status || !strings.HasPrefix(answer, start) || !strings.HasPrefix(e.answer, start) {
		t.Errorf("no body: %d %s, recorded %d %s", status, answer, e.status, e.answer)
	}
}

// TestSoftPinOverHTTP pins and unpins what clients stored.
func TestSoftPinOverHTTP(t *testing.T) {
	b := newBed(t, func(c *Config) { c.SoftPinTTL, c.MaxSoftPinTTL = time.Minute, time.Minute })
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	p.put("a", 100)
	p.put("b", 100)
	p.putStart("half", 100)
	step := func(method, body string, status int, answer string, pinned uint64) {
		t.Helper()
		gotStatus, got := ask(b.admin, http.MethodPost, "/api/v1/"+method, body)
		if gotStatus != status || !strings.Contains(got, answer) {
			t.Errorf("%s %.80s: %d %.200s, want %d %s", method, body, gotStatus, got, status, answer)
		}
		expect(t, "pinned after "+method, b.service.cat.Stats().SoftPinnedKeys, pinned)
	}
	step("soft_pin", `{"keys":["a","none","half","b","a"],"ttl_ms":60000}`, http.StatusOK,
		`{"results":[{"key":"a","error_code":0},{"key":"none","error_code":-704},{"key":"half","error_code":-703},{"key":"b","error_code":0},{"key":"a","error_code":0}]}`, 2)
	step("soft_unpin", `{"keys":["a"]}`, http.StatusOK, `{"results":[{"key":"a","error_code":0}]}`, 1)
	step("soft_unpin", `{"keys":["a"]}`, http.StatusOK, `{"results":[{"key":"a","error_code":0}]}`, 1)
	step("soft_pin", `{"keys":["a"],"ttl_ms":60001}`, http.StatusOK, `{"results":[{"key":"a","error_code":-600}]}`, 1)
	step("soft_pin", `{"keys":["a"],"ttl_ms":18446744073709551615}`, http.StatusOK, `{"results":[{"key":"a","error_code":-600}]}`, 1)
	const expected = `"error_code":-600,"error_message":"Expected 1..4096 keys`
	for method, bodies := range map[string][]string{
		"soft_pin":   {`{"keys":["a"]}`, `{"keys":[],"ttl_ms":1}`, `{"keys":["a"],"ttl_ms":1,"tenant_id":"_x"}`, `{"keys":["a"],"ttl_ms":null}`},
		"soft_unpin": {`{"keys":["a"],"ttl_ms":1}`, `{}`},
	} {
		for _, body := range bodies {
			step(method, body, http.StatusBadRequest, expected, 1)
		}
	}
	many := `{"keys":["a"` + strings.Repeat(`,"a"`, limits.AdminPinKeys) + `],"ttl_ms":1}`
	step("soft_pin", many, http.StatusBadRequest, expected, 1)
	for _, body := range []string{``, `{"keys":["a"],"ttl_ms":-1}`, `{"keys":["a"],"ttl_ms":"1"}`, `{"keys":"a","ttl_ms":1}`, `{"keys":["a"],`} {
		step("soft_pin", body, http.StatusBadRequest, "Invalid JSON body: ", 1)
	}
}

// TestSoftPinsOutliveARestart pins over HTTP and starts the master again on its journal.
func TestSoftPinsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	onDisk := func(c *Config) { c.DataDir = dir }
	b := newBed(t, onDisk)
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	p.put("a", 100)
	p.put("b", 100)
	if status, answer := ask(b.admin, http.MethodPost, "/api/v1/soft_pin", `{"keys":["a","b"],"ttl_ms":600000}`); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	if status, answer := ask(b.admin, http.MethodPost, "/api/v1/soft_unpin", `{"keys":["b"]}`); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	b.stop()
	expect(t, "pinned after the restart", newBed(t, onDisk).service.cat.Stats().SoftPinnedKeys, 1)
}
