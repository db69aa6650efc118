package conffile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"mooncake/internal/limits"
)

// Kind says what a value looked like in the file.
type Kind uint8

// Kinds of values. YAML tells none of them apart: there a value is text.
const (
	Text   Kind = iota // a string of JSON
	Number             // a number of JSON
	Bool               // true or false of JSON
	Plain              // a scalar of YAML
)

// Entry is one key with its value.
type Entry struct {
	Key   string
	Text  string
	Kind  Kind
	Where string // "line N", where the format tells
}

// Read reads the file that a path names. The error says what is wrong with the file, without its name.
func Read(path string) ([]Entry, error) {
	parse := map[string]func([]byte) ([]Entry, error){".json": parseJSON, ".yaml": parseYAML, ".yml": parseYAML}[filepath.Ext(path)]
	if parse == nil {
		return nil, errors.New("the name must end in .json, .yaml or .yml")
	}
	text, err := load(path)
	if err != nil {
		return nil, err
	}
	entries, err := parse(text)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Key] {
			return nil, fmt.Errorf("the key %q is there twice", e.Key)
		}
		seen[e.Key] = true
	}
	return entries, nil
}

func load(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limits.ConfigFileBytes+1))
	if err != nil {
		return nil, plain(err)
	}
	if len(text) > limits.ConfigFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", limits.ConfigFileBytes)
	}
	return text, nil
}

// plain leaves the reason of an error about a file: whoever reports it names the file.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func parseYAML(text []byte) ([]Entry, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
	if len(doc.Content) == 0 {
		return nil, nil // nothing but comments
	}
	var out []Entry
	return out, walkYAML(doc.Content[0], "", 0, &out)
}

func walkYAML(n *yaml.Node, key string, depth int, out *[]Entry) error {
	switch {
	case depth > limits.ConfigFileDepth:
		return fmt.Errorf("line %d: more than %d maps inside one another", n.Line, limits.ConfigFileDepth)
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := walkYAML(n.Content[i+1], joined(key, n.Content[i].Value), depth+1, out); err != nil {
				return err
			}
		}
	case n.Kind == yaml.ScalarNode && key == "":
		if n.Tag != "!!null" {
			return fmt.Errorf("line %d: want keys with values", n.Line)
		}
	case n.Kind == yaml.ScalarNode:
		if n.Tag != "!!null" {
			*out = append(*out, Entry{key, n.Value, Plain, fmt.Sprintf("line %d", n.Line)})
		}
	case n.Kind == yaml.SequenceNode:
		return fmt.Errorf("line %d: a list, and no setting is one", n.Line)
	default: // an alias: what it stands for may be large
		return fmt.Errorf("line %d: aliases are not read", n.Line)
	}
	return nil
}

func joined(above, key string) string {
	if above == "" {
		return key
	}
	return above + "." + key
}

func parseJSON(text []byte) ([]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(withoutComments(text)))
	d.UseNumber()
	var out []Entry
	token, err := d.Token()
	if err == nil && token != json.Delim('{') {
		err = errors.New("want an object: keys with values")
	}
	if err == nil {
		err = walkJSON(d, "", 1, &out)
	}
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the end")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	return out, err
}

// walkJSON reads the rest of an object.
func walkJSON(d *json.Decoder, above string, depth int, out *[]Entry) error {
	if depth > limits.ConfigFileDepth {
		return fmt.Errorf("more than %d objects inside one another", limits.ConfigFileDepth)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key := joined(above, name.(string)) // the decoder lets nothing else be a key
		value, err := d.Token()
		if err != nil {
			return err
		}
		switch v := value.(type) {
		case json.Delim:
			if v != '{' {
				return fmt.Errorf("%s is a list, and no setting is one", key)
			}
			if err := walkJSON(d, key, depth+1, out); err != nil {
				return err
			}
		case string:
			*out = append(*out, Entry{Key: key, Text: v, Kind: Text})
		case json.Number:
			*out = append(*out, Entry{Key: key, Text: v.String(), Kind: Number})
		case bool:
			*out = append(*out, Entry{Key: key, Text: fmt.Sprint(v), Kind: Bool})
		}
	}
	_, err := d.Token() // the brace
	return err
}

// withoutComments puts blanks in place of comments, so that positions stay.
func withoutComments(text []byte) []byte {
	out := bytes.Clone(text)
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(out[i:], []byte("//")):
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case bytes.HasPrefix(out[i:], []byte("/*")):
			end := bytes.Index(out[i+2:], []byte("*/"))
			if end < 0 {
				return out // the decoder complains of it
			}
			for end += i + 4; i < end; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
		}
	}
	return out
}
