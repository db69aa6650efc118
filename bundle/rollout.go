package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// A Rollout is a batch of samples in columns, as trainers hand it over.
type Rollout struct {
	Namespace string // only told in meta and handle; empty is "default"
	Partition string // part of the keys; empty is "default"
	Rows      int
	Fields    []Field
	MetaInfo  map[string]any // rides in the handle, and is not stored
}

const (
	section       = "non_tensor_batch"
	batchSection  = "batch"
	defaultName   = "default"
	handleType    = "mooncake_dataproto_ref"
	handleKind    = "bundle_stages"
	handleVersion = 1
)

// named is the namespace or partition that a text means.
func named(text string) string {
	if text == "" {
		return defaultName
	}
	return text
}

// Check refuses a rollout that readers could not make sense of.
func (r *Rollout) Check() error {
	if strings.Contains(r.Partition, "/") {
		return fmt.Errorf("partition %q has a slash", r.Partition)
	}
	if len(r.Fields) == 0 {
		return fmt.Errorf("a rollout without fields has nothing to store")
	}
	seen := map[string]bool{}
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case f.Name == "" || strings.Contains(f.Name, "/") || seen[f.Name]:
			return fmt.Errorf("%q is no name of a field, or comes twice", f.Name)
		case f.Rows != r.Rows:
			return fmt.Errorf("field %s has %d rows, want %d", f.Name, f.Rows, r.Rows)
		case len(f.Members) == 0:
			return fmt.Errorf("field %s is empty", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// MemberName is what a piece of a field is called in the manifest.
func MemberName(field, part string) string { return section + "." + field + "." + part }

// A MemberSpec is what the meta says of a member.
type MemberSpec struct {
	Encoding string `json:"encoding"` // ndarray, bytes or torch_tensor
	DType    string `json:"dtype,omitempty"`
	Shape    []int  `json:"shape,omitempty"`
}

// metaText is a meta as JSON has it.
type metaText struct {
	Layout    string                `json:"layout"`
	DataProto dataProto             `json:"dataproto"`
	Fields    map[string]MemberSpec `json:"__mooncake_structured_fields__"`
}

type dataProto struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
	Partition string `json:"partition"`
	Stage     string `json:"stage"`
	BatchSize int    `json:"batch_size"`
}

// Meta writes the meta object of the rollout.
func (r *Rollout) Meta() ([]byte, error) {
	m := metaText{
		Layout:    "dataproto_stage",
		DataProto: dataProto{1, named(r.Namespace), named(r.Partition), defaultName, r.Rows},
		Fields:    map[string]MemberSpec{},
	}
	for i := range r.Fields {
		for _, p := range r.Fields[i].Members {
			spec := MemberSpec{Encoding: "bytes"}
			if p.DType != "" {
				spec = MemberSpec{Encoding: "ndarray", DType: p.DType, Shape: p.Shape}
			}
			m.Fields[MemberName(r.Fields[i].Name, p.Part)] = spec
		}
	}
	return json.Marshal(&m)
}

// ParseMeta reads a meta object: what its members are.
func ParseMeta(text []byte) (map[string]MemberSpec, error) {
	if len(text) > limits.ManifestBytes {
		return nil, fmt.Errorf("a meta of %d bytes, at most %d", len(text), limits.ManifestBytes)
	}
	var m metaText
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	return m.Fields, nil
}

// A Handle is what a producer hands to consumers: where a rollout lies and how to read it. Its JSON is that of the published
// clients.
type Handle struct {
	Type          string                   `json:"type"`
	Version       int                      `json:"version"`
	Kind          string                   `json:"kind"`
	BatchSize     int                      `json:"batch_size"`
	Namespace     string                   `json:"namespace"`
	Partition     string                   `json:"partition"`
	GlobalIndexes json.RawMessage          `json:"global_indexes"`
	Stages        map[string]StageRef      `json:"stage_refs"`
	Fields        map[string]FieldLocation `json:"field_index"`
	MetaInfo      map[string]any           `json:"meta_info"`
	Encoded       map[string]EncodedField  `json:"encoded_non_tensor"`
	Group         string                   `json:"storage_group_id,omitempty"`
}

// A StageRef names the manifest of a stage.
type StageRef struct {
	ManifestKey string `json:"manifest_key"`
}

// A FieldLocation says where a field is.
type FieldLocation struct {
	Stage   string `json:"stage"`
	Member  string `json:"member"`
	Section string `json:"section"`
}

// An EncodedField says how a field was written.
type EncodedField struct {
	Codec    string            `json:"codec"`
	Rows     int               `json:"rows"`
	Metadata json.RawMessage   `json:"metadata"`
	Members  map[string]string `json:"payload_members"`
}

// codecMetadata is what handles say of fields of numbers.
type codecMetadata struct {
	DType          string `json:"dtype,omitempty"`
	Shape          []int  `json:"shape,omitempty"`
	MaxDims        *int   `json:"max_ndim,omitempty"`
	ShapePolicy    string `json:"shape_policy,omitempty"`
	RowFormat      string `json:"row_format,omitempty"`
	PhysicalLayout string `json:"physical_layout,omitempty"`
}

// HandleFor makes the handle of a rollout whose manifest lies under a key. Group is that of its objects, or empty.
func (r *Rollout) HandleFor(manifestKey, group string) (*Handle, error) {
	h := &Handle{
		Type: handleType, Version: handleVersion, Kind: handleKind, BatchSize: r.Rows, Namespace: named(r.Namespace), Partition: named(r.Partition),
		GlobalIndexes: json.RawMessage("null"), Stages: map[string]StageRef{defaultName: {manifestKey}}, Fields: map[string]FieldLocation{},
		MetaInfo: r.MetaInfo, Encoded: map[string]EncodedField{}, Group: group,
	}
	if h.MetaInfo == nil {
		h.MetaInfo = map[string]any{}
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		m := codecMetadata{DType: f.DType}
		switch f.Codec {
		case TypedRagged:
			m.MaxDims, m.ShapePolicy, m.RowFormat, m.PhysicalLayout = &f.MaxDims, "ragged", "ndarray", "contiguous_flat"
		case NDArray:
			m.Shape = []int{f.Rows}
		}
		text, err := json.Marshal(&m)
		if err != nil {
			return nil, err
		}
		e := EncodedField{Codec: f.Codec, Rows: f.Rows, Metadata: text, Members: map[string]string{}}
		for _, p := range f.Members {
			e.Members[p.Part] = MemberName(f.Name, p.Part)
		}
		h.Fields[f.Name] = FieldLocation{defaultName, section + "." + f.Name, section}
		h.Encoded[f.Name] = e
	}
	return h, nil
}

// Encode writes the handle.
func (h *Handle) Encode() ([]byte, error) { return json.Marshal(h) }

// ParseHandle reads a handle and checks that its parts fit each other.
func ParseHandle(text []byte) (*Handle, error) {
	if len(text) > limits.ManifestBytes {
		return nil, fmt.Errorf("a handle of %d bytes, at most %d", len(text), limits.ManifestBytes)
	}
	h := &Handle{}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(h); err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	if h.Type != handleType || h.Kind != handleKind || h.Version != 1 && h.Version != 2 {
		return nil, fmt.Errorf("handle of type %q, kind %q, version %d is not known", h.Type, h.Kind, h.Version)
	}
	for stage, ref := range h.Stages {
		if _, part := Parse(ref.ManifestKey); part != Manifest {
			return nil, fmt.Errorf("handle: stage %q: %.200q is no key of a manifest", stage, ref.ManifestKey)
		}
	}
	for name, at := range h.Fields {
		if _, known := h.Stages[at.Stage]; !known || at.Member == "" || at.Section != section && at.Section != batchSection {
			return nil, fmt.Errorf("handle: field %q is nowhere: stage %q, member %q, section %q", name, at.Stage, at.Member, at.Section)
		}
	}
	for name, e := range h.Encoded {
		if _, known := h.Fields[name]; !known || e.Rows < 0 {
			return nil, fmt.Errorf("handle: %q is encoded and no field, or has %d rows", name, e.Rows)
		}
	}
	return h, nil
}

// FieldNames lists the fields in the order of their names.
func (h *Handle) FieldNames() []string {
	names := make([]string, 0, len(h.Fields))
	for name := range h.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// FieldMembers lists the members of a stage's manifest that a field needs, by part. A field that was stored as it is has one,
// without a name.
func (h *Handle) FieldMembers(name string) (map[string]string, error) {
	at, known := h.Fields[name]
	if !known {
		return nil, fmt.Errorf("the rollout has no field %q", name)
	}
	if e, encoded := h.Encoded[name]; encoded {
		return e.Members, nil
	}
	return map[string]string{"": at.Member}, nil
}

// Field puts a field together from its members' bytes. Members that are not among them are empty.
func (h *Handle) Field(name string, specs map[string]MemberSpec, data map[string][]byte) (Field, error) {
	members, err := h.FieldMembers(name)
	if err != nil {
		return Field{}, err
	}
	f := Field{Name: name, Rows: h.BatchSize}
	if e, encoded := h.Encoded[name]; encoded {
		var m codecMetadata
		if err := json.Unmarshal(e.Metadata, &m); err != nil {
			return f, fmt.Errorf("handle: field %q: %w", name, err)
		}
		f.Codec, f.Rows, f.DType = e.Codec, e.Rows, m.DType
		if m.MaxDims != nil {
			f.MaxDims = *m.MaxDims
		}
	}
	for _, part := range partOrder(members) {
		member := members[part]
		spec := specs[member]
		if spec.Encoding == "bytes" {
			spec.DType, spec.Shape = "", nil
		}
		f.Members = append(f.Members, Member{Part: part, DType: spec.DType, Shape: spec.Shape, Data: data[member]})
	}
	return f, nil
}

// partOrder lists parts in the order in which fields are written, others behind.
func partOrder(members map[string]string) (parts []string) {
	known := []string{"data", "offsets", "shapes", "ndims", "nulls"}
	for _, part := range known {
		if _, ok := members[part]; ok {
			parts = append(parts, part)
		}
	}
	var others []string
	for part := range members {
		if !slices.Contains(known, part) {
			others = append(others, part)
		}
	}
	slices.Sort(others)
	return append(parts, others...)
}
