package segment

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCapturedRequests sends what was sent to store processes of three releases: status and content type are the same, and short
// bodies too. What differs is listed in docs/segment-daemon.md, and nothing else is.
func TestCapturedRequests(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	m.wait(t, "Ping")
	h := d.httpHandler()
	differ := map[string]string{}
	captures := 0
	for _, release := range []string{"v12", "v13", "v14"} {
		text, err := os.ReadFile(filepath.Join("testdata/golden", release+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for i, entry := range regexp.MustCompile(`(?m)^== `).Split(string(text), -1) {
			if i == 0 {
				continue
			}
			captures++
			lines := strings.SplitN(strings.TrimSuffix(entry, "\n"), "\n", 4)
			request := strings.Fields(lines[1])
			want := lines[2] + "\n" + lines[3]
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(request[1], request[2], nil))
			kind := w.Header().Get("Content-Type")
			if kind == "" {
				kind = "-"
			}
			got := strings.TrimSuffix(fmt.Sprintf("%d %s\n%s", w.Code, kind, w.Body), "\n")
			if strings.HasPrefix(request[2], "/metrics") && w.Code == 200 { // figures have tests of their own
				got, want = fmt.Sprintf("%d %s", w.Code, kind), lines[2]
				if w.Body.Len() == 0 {
					t.Errorf("%s: nothing", request[2])
				}
			}
			display := regexp.MustCompile(`"display_version":"[^"]*"`)
			got, want = display.ReplaceAllString(got, "V"), display.ReplaceAllString(want, "V")
			if got != want {
				differ[release+"/"+lines[0]] = fmt.Sprintf(" got %s\nwant %s", got, want)
			}
		}
	}
	if captures < 20 {
		t.Fatal(captures)
	}
	page, err := os.ReadFile("../docs/segment-daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`(v1[234]/[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		if _, ok := differ[name[1]]; !ok {
			t.Errorf("docs/segment-daemon.md says that %s differs, and it does not", name[1])
		}
		delete(differ, name[1])
	}
	for name, text := range differ {
		t.Errorf("%s differs, and docs/segment-daemon.md does not say why:\n%s", name, text)
	}
}

// TestMetricsSwitchedOff leaves the other pages as they are.
func TestMetricsSwitchedOff(t *testing.T) {
	t.Setenv(metricsSwitch, "0")
	d := &Daemon{}
	d.health.mounted()
	h := d.httpHandler()
	for target, want := range map[string]string{
		"/metrics": "503 metrics not available", "/metrics/summary": "503 metrics not available", "/health": `200 {"status":"healthy","code":0}`,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	for _, method := range []string{"HEAD", "POST", "PUT", "DELETE"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/health", nil))
		if w.Code != 404 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}
