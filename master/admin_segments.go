package master

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"mooncake/catalog"
	"mooncake/wire"
)

// serveSegmentNames lists the names of the mounted segments, one per line; a name stands as often as it is mounted.
func (a *Admin) serveSegmentNames(w http.ResponseWriter, _ *http.Request) {
	var out []byte
	for _, s := range a.source.SegmentStatuses() {
		out = append(appendEscaped(out, s.Name), '\n')
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	reply(w, http.StatusOK, typeMetrics, string(out))
}

// segmentDetail is one segment of /get_segments_detail.
type segmentDetail struct {
	Name         string  `json:"segment_name"`
	ID           string  `json:"segment_id"`
	Client       string  `json:"client_id"`
	Base         string  `json:"base_address"`
	SizeBytes    uint64  `json:"size_bytes"`
	SizeHuman    string  `json:"size_human"`
	Endpoint     string  `json:"te_endpoint"`
	Protocol     string  `json:"protocol"`
	Status       string  `json:"status"`
	UsedBytes    uint64  `json:"allocator_used_bytes"`
	Capacity     uint64  `json:"allocator_capacity_bytes"`
	UsagePercent percent `json:"allocator_usage_percent"`
}

func (a *Admin) serveSegments(w http.ResponseWriter, _ *http.Request) {
	mounted := a.source.SegmentStatuses()
	list := make([]segmentDetail, len(mounted))
	for i, s := range mounted {
		var used percent
		if s.Size > 0 {
			used = percent(float64(s.Used) / float64(s.Size) * 100)
		}
		list[i] = segmentDetail{
			Name: s.Name, ID: s.ID.String(), Client: s.Client.String(), Base: fmt.Sprintf("0x%x", s.Base),
			SizeBytes: s.Size, SizeHuman: strconv.FormatFloat(float64(s.Size)/(1<<30), 'g', 6, 64) + " GiB",
			Endpoint: s.Endpoint, Protocol: s.Protocol, Status: stateName(s.Status),
			UsedBytes: s.Used, Capacity: s.Size, UsagePercent: used,
		}
	}
	replyJSON(w, http.StatusOK, struct {
		Total    int             `json:"total_segments"`
		Segments []segmentDetail `json:"segments"`
	}{len(list), list})
}

// percent is printed as the published masters do: 2.5E1, 0E0.
type percent float64

// MarshalJSON implements json.Marshaler.
func (p percent) MarshalJSON() ([]byte, error) {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(float64(p), 'E', -1, 64), "E")
	n, err := strconv.Atoi(exponent)
	if err != nil { // not a number, or infinite
		return []byte("0E0"), nil
	}
	return fmt.Appendf(nil, "%sE%d", mantissa, n), nil
}

func stateName(status uint8) string { return wire.SegmentStatus(status).String() }

// named finds the mounted segments of a name; the query's value is taken as it stands and then decoded.
func (a *Admin) named(r *http.Request) (name string, found []catalog.SegmentStatus) {
	raw, _ := queryValue(r.URL.RawQuery, "segment")
	mounted := a.source.SegmentStatuses()
	for _, name = range [...]string{raw, percentDecoded(raw)} {
		for _, s := range mounted {
			if s.Name == name {
				found = append(found, s)
			}
		}
		if len(found) > 0 {
			return name, found
		}
	}
	return name, nil
}

// serveQuerySegment shows use and size of a segment; segments of one name are summed.
func (a *Admin) serveQuerySegment(w http.ResponseWriter, r *http.Request) {
	name, found := a.named(r)
	if name == "" || len(found) == 0 {
		reply(w, http.StatusInternalServerError, typeMetrics, "Failed to query segment")
		return
	}
	var used, size uint64
	for _, s := range found {
		used, size = used+s.Used, size+s.Size
	}
	reply(w, http.StatusOK, typeMetrics, fmt.Sprintf("%s\nUsed(bytes): %d\nCapacity(bytes) : %d\n", appendEscaped(nil, name), used, size))
}

// serveSegmentState shows the state of a segment as a number and a word.
func (a *Admin) serveSegmentState(w http.ResponseWriter, r *http.Request) {
	name, found := a.named(r)
	switch {
	case name == "":
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Missing segment query parameter")
		return
	case len(found) == 0:
		replyCode(w, catalog.ErrSegmentNotFound)
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Success bool   `json:"success"`
		Segment string `json:"segment"`
		Status  uint8  `json:"status"`
		Name    string `json:"status_name"`
		Code    int32  `json:"error_code"`
		Message string `json:"error_message"`
	}{true, name, found[0].Status, stateName(found[0].Status), 0, ""})
}
