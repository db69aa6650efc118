package descriptor

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Parse reads a descriptor and refuses, with the reason, whatever a reader could not use: see Validate. Unknown keys are
// ignored, keys are case-sensitive, and numbers reach up to 2^64-1 without loss.
func Parse(text []byte) (*Segment, error) {
	s, err := parseLoosely(text)
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// parseLoosely reads the fields that are there and checks types only. An asker's own descriptor may be `{}`.
func parseLoosely(text []byte) (*Segment, error) {
	r := fieldReader{path: "descriptor"}
	o := r.object(text, "")
	s := &Segment{
		Name:            o.str("name"),
		Protocol:        o.str("protocol"),
		RDMAServerName:  o.str("rdma_server_name"),
		TCPDataHost:     o.str("tcp_data_host"),
		TCPDataPort:     uint16(o.number("tcp_data_port", 0, 1<<16-1)),
		TCPProtoVersion: int(o.number("tcp_proto_version", TCPUnacknowledged, 1<<31-1)),
		MetadataVersion: o.number("metadata_version", 0, 1<<64-1),
		Timestamp:       o.str("timestamp"),
		Buffers:         []Buffer{},
	}
	for i, item := range o.list("buffers") {
		b := r.object(item, fmt.Sprintf("buffers[%d]", i))
		s.Buffers = append(s.Buffers, Buffer{
			Name: b.str("name"), Addr: b.number("addr", 0, 1<<64-1), Length: b.number("length", 0, 1<<64-1),
			RKey: b.keys("rkey"), LKey: b.keys("lkey"),
		})
	}
	for i, item := range o.list("devices") {
		d := r.object(item, fmt.Sprintf("devices[%d]", i))
		s.Devices = append(s.Devices, Device{Name: d.str("name"), GID: d.str("gid"), LID: uint16(d.number("lid", 0, 1<<16-1))})
	}
	o.value("priority_matrix", &s.PriorityMatrix)
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// fieldReader keeps the first error, so that reading is a straight list. The standard decoder alone would take "Name" for
// "name", and a foreign key that differs only in case must not overwrite ours.
type fieldReader struct {
	path string
	err  error
}

type fields struct {
	r    *fieldReader
	at   string
	held map[string]json.RawMessage
}

func (r *fieldReader) fail(at, name string, err error) {
	if r.err != nil {
		return
	}
	where := r.path
	for _, part := range []string{at, name} {
		if part != "" {
			where += "." + part
		}
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		err = fmt.Errorf("%s does not fit %s", wrongType.Value, wrongType.Type)
	}
	r.err = fmt.Errorf("%s: %w", where, err)
}

func (r *fieldReader) object(text []byte, at string) fields {
	o := fields{r: r, at: at}
	if err := json.Unmarshal(text, &o.held); err != nil {
		r.fail(at, "", err)
	} else if o.held == nil {
		r.fail(at, "", errors.New("null where an object belongs"))
	}
	return o
}

// value reads one field into out. Absent and null leave out as it is.
func (o fields) value(name string, out any) {
	text, found := o.held[name]
	if !found || string(text) == "null" {
		return
	}
	if err := json.Unmarshal(text, out); err != nil {
		o.r.fail(o.at, name, err)
	}
}

func (o fields) str(name string) (text string) {
	o.value(name, &text)
	return text
}

func (o fields) number(name string, absent, most uint64) uint64 {
	value := absent
	o.value(name, &value)
	if value > most {
		o.r.fail(o.at, name, fmt.Errorf("%d is larger than %d", value, most))
	}
	return value
}

func (o fields) list(name string) (items []json.RawMessage) {
	o.value(name, &items)
	return items
}

func (o fields) keys(name string) (keys []uint32) {
	o.value(name, &keys)
	return keys
}
