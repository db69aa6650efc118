package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPageBytes bounds what is read of one HTTP answer.
const maxPageBytes = 64 << 20

// pageLimit is how long a page may take; in an emulated machine seconds are common.
const pageLimit = 60 * time.Second

// HTTPGet fetches a page of a daemon and answers with status and body.
func HTTPGet(host, path string) (status int, body string, err error) {
	client := http.Client{Timeout: pageLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + host + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPageBytes))
	return resp.StatusCode, string(text), err
}

// Request sends a request to the admin port that must succeed.
func (m *Master) Request(method, path, body string) (string, error) {
	client := http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "http://"+m.Admin+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPageBytes))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	return string(text), err
}

// BundleInfo is what the master tells about a bundle.
type BundleInfo struct {
	ID           string `json:"id"`
	State        string `json:"state"`
	Workload     string `json:"workload"`
	Keys         int    `json:"keys"`
	PayloadBytes int64  `json:"payload_bytes"`
	Allocated    int64  `json:"allocated_bytes"`
}

// Bundles lists the bundles that the master knows.
func (m *Master) Bundles(query string) ([]BundleInfo, error) {
	body, err := m.Page("/api/v1/bundles" + query)
	if err != nil {
		return nil, err
	}
	var page struct {
		Bundles []BundleInfo `json:"bundles"`
	}
	err = json.Unmarshal([]byte(body), &page)
	return page.Bundles, err
}

// Page fetches an admin page that must be there.
func (m *Master) Page(path string) (string, error) {
	status, body, err := HTTPGet(m.Admin, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", path, status, body)
	}
	return body, err
}

// Metrics reads the samples without labels.
func (m *Master) Metrics() (map[string]float64, error) {
	body, err := m.Page("/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" || strings.Contains(name, "{") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out, nil
}

// Metric adds up the samples of one name over all their labels; a series that is not printed counts as 0.
func (s *Segment) Metric(name string) (float64, error) {
	status, body, err := HTTPGet(s.HTTP, "/metrics")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("GET /metrics: status %d, %w", status, err)
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", series, err)
		}
		sum += v
	}
	return sum, nil
}

// Sample reads one sample by name and labels as they are printed; one that is not printed counts as 0.
func (m *Master) Sample(series string) (float64, error) {
	body, err := m.Page("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil
}

// Metric reads one sample; a series that is not printed counts as 0.
func (m *Master) Metric(name string) (float64, error) {
	all, err := m.Metrics()
	return all[name], err
}

// Keys lists the readable keys that begin with prefix, sorted.
func (m *Master) Keys(prefix string) ([]string, error) {
	lines, err := m.lines("/get_all_keys")
	lines = slices.DeleteFunc(lines, func(k string) bool { return !strings.HasPrefix(k, prefix) })
	slices.Sort(lines)
	return lines, err
}

// Segments lists the names of the mounted segments.
func (m *Master) Segments() ([]string, error) { return m.lines("/get_all_segments") }

func (m *Master) lines(path string) ([]string, error) {
	body, err := m.Page(path)
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(body, func(r rune) bool { return r == '\n' }), nil
}

// SegmentDetail is what the master tells about one segment.
type SegmentDetail struct {
	Name     string `json:"segment_name"`
	ID       string `json:"segment_id"`
	Client   string `json:"client_id"`
	Endpoint string `json:"te_endpoint"`
	Bytes    uint64 `json:"size_bytes"`
	Used     uint64 `json:"allocator_used_bytes"`
}

// SegmentsDetail lists the mounted segments.
func (m *Master) SegmentsDetail() ([]SegmentDetail, error) {
	body, err := m.Page("/get_segments_detail")
	if err != nil {
		return nil, err
	}
	var page struct {
		Segments []SegmentDetail `json:"segments"`
	}
	err = json.Unmarshal([]byte(body), &page)
	return page.Segments, err
}

// WaitSegments waits until exactly n segments are mounted and answers with them.
func (m *Master) WaitSegments(n int, limit time.Duration) ([]SegmentDetail, error) {
	deadline := time.Now().Add(limit)
	for {
		segments, err := m.SegmentsDetail()
		if err == nil && len(segments) == n {
			return segments, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d segments instead of %d after %v (last error: %v)", len(segments), n, limit, err)
		}
		select {
		case <-m.Done():
			return nil, m.failed("ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
