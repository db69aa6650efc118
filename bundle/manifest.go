package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// A Chunk is one object that holds a piece of a payload.
type Chunk struct {
	Key   string `json:"key"`
	Bytes uint64 `json:"bytes"`
}

// A Payload is a member, or the meta of a bundle, with the objects that hold it. What is empty has none.
type Payload struct {
	Name   string  `json:"-"`
	Key    string  `json:"key"`
	Bytes  uint64  `json:"bytes"`
	Chunks []Chunk `json:"chunks"`
	// Kind is "tensor" for what was written as a whole tensor object; its bytes begin with MetadataBytes of its description.
	Kind          string `json:"kind,omitempty"`
	MetadataBytes uint64 `json:"metadata_bytes,omitempty"`
}

// A Listing is what a manifest says: all objects of a bundle.
type Listing struct {
	ObjectID string    // PARTITION/UUID
	Meta     Payload   // what the members are
	Members  []Payload // in the order of the manifest
	// BufferIDs are the bundles to which the members' objects belong, when that is not this one alone; CleanupKeys are what
	// goes with the bundle beside its members. A bundle made by an append has both.
	BufferIDs   []string
	CleanupKeys []string
}

// Keys lists all chunks, those of the meta first.
func (l *Listing) Keys() (keys []Chunk) {
	keys = append(keys, l.Meta.Chunks...)
	for i := range l.Members {
		keys = append(keys, l.Members[i].Chunks...)
	}
	return keys
}

// Member finds a member by its name; nil when there is none.
func (l *Listing) Member(name string) *Payload {
	for i := range l.Members {
		if l.Members[i].Name == name {
			return &l.Members[i]
		}
	}
	return nil
}

// manifestText is a manifest as JSON has it.
type manifestText struct {
	Version     int             `json:"version"`
	Layout      string          `json:"layout"`
	ObjectID    string          `json:"object_id"`
	Meta        Payload         `json:"meta"`
	Buffers     json.RawMessage `json:"buffers"`
	BufferIDs   []string        `json:"buffer_object_ids,omitempty"`
	CleanupKeys []string        `json:"cleanup_keys,omitempty"`
}

const (
	manifestVersion = 1
	manifestLayout  = "bundle"
)

// Encode writes the manifest.
func (l *Listing) Encode() ([]byte, error) {
	var buffers bytes.Buffer
	buffers.WriteByte('{')
	for i := range l.Members {
		name, err := json.Marshal(l.Members[i].Name)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(&l.Members[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			buffers.WriteByte(',')
		}
		buffers.Write(name)
		buffers.WriteByte(':')
		buffers.Write(body)
	}
	buffers.WriteByte('}')
	return json.Marshal(&manifestText{manifestVersion, manifestLayout, l.ObjectID, l.Meta, buffers.Bytes(), l.BufferIDs, l.CleanupKeys})
}

// ParseManifest reads the manifest that lies under a key, and checks what its readers rely on: every key lies under a bundle
// that it names, no chunk comes twice, and sizes add up.
func ParseManifest(key string, text []byte) (*Listing, error) {
	if len(text) > limits.ManifestBytes {
		return nil, fmt.Errorf("a manifest of %d bytes, at most %d", len(text), limits.ManifestBytes)
	}
	var m manifestText
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Version != manifestVersion || m.Layout != manifestLayout {
		return nil, fmt.Errorf("manifest of version %d and layout %q, want %d and %q", m.Version, m.Layout, manifestVersion, manifestLayout)
	}
	prefix, ok := strings.CutSuffix(key, m.ObjectID+"/manifest")
	if !ok || m.ObjectID == "" {
		return nil, fmt.Errorf("manifest of %q lies under %q", m.ObjectID, key)
	}
	l := &Listing{ObjectID: m.ObjectID, Meta: m.Meta, BufferIDs: m.BufferIDs, CleanupKeys: m.CleanupKeys}
	own := []string{prefix + m.ObjectID + "/"}
	bases := own
	if len(m.BufferIDs) > 0 {
		bases = nil
		for _, id := range m.BufferIDs {
			bases = append(bases, prefix+id+"/")
		}
	}
	seen := map[string]bool{}
	if err := l.Meta.check(own, seen); err != nil {
		return nil, fmt.Errorf("manifest: meta: %w", err)
	}
	names := map[string]bool{}
	err := eachMember(m.Buffers, func(name string, p Payload) error {
		if p.Name = name; name == "" || strings.Contains(name, "/") || names[name] {
			return fmt.Errorf("%.100q is no name of a member, or comes twice", name)
		}
		names[name] = true
		if err := p.check(bases, seen); err != nil {
			return fmt.Errorf("%.100q: %w", name, err)
		}
		l.Members = append(l.Members, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return l, nil
}

// eachMember reads an object of payloads in the order of the text.
func eachMember(text []byte, do func(name string, p Payload) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("buffers is no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var p Payload
		if err := d.Decode(&p); err != nil {
			return err
		}
		if err := do(name.(string), p); err != nil { // keys of an object are texts
			return err
		}
	}
	return nil
}

func (p *Payload) check(bases []string, seen map[string]bool) error {
	under := func(key string) bool {
		return slices.ContainsFunc(bases, func(base string) bool { return strings.HasPrefix(key, base) })
	}
	if !under(p.Key) {
		return fmt.Errorf("key %.200q lies outside the bundle", p.Key)
	}
	sum := uint64(0)
	for _, c := range p.Chunks {
		switch {
		case !under(c.Key):
			return fmt.Errorf("chunk %.200q lies outside the bundle", c.Key)
		case seen[c.Key]:
			return fmt.Errorf("chunk %.200q comes twice", c.Key)
		case c.Bytes == 0 || c.Bytes > p.Bytes-sum:
			return fmt.Errorf("chunks do not add up to %d bytes", p.Bytes)
		}
		seen[c.Key] = true
		sum += c.Bytes
	}
	if sum != p.Bytes {
		return fmt.Errorf("chunks of %d bytes, want %d", sum, p.Bytes)
	}
	return nil
}
