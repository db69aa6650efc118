package master

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/internal/units"
	"mooncake/metrics"
)

// A document of rules is YAML, of which JSON is a part: the file of --workloads_file and the bodies that the admin port
// takes are read by the same decoder, and what the admin port prints reads back.

// ruleError is what is wrong with a rules document, and on which line.
type ruleError struct {
	line int
	text string
}

func (e *ruleError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

func complain(n *yaml.Node, format string, args ...any) error {
	return &ruleError{line: n.Line, text: fmt.Sprintf(format, args...)}
}

// decodeRules reads a document {workloads: [rule, …]} and checks the rules, each by itself and all together.
func decodeRules(text []byte) ([]catalog.Workload, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	var rules []catalog.Workload
	listed := false
	err = eachPair(root, "the document", func(key string, value *yaml.Node) error {
		if key != "workloads" {
			return complain(value, "unknown key %s; a document of rules has one key, workloads", quoted(key))
		}
		if value.Kind != yaml.SequenceNode {
			return complain(value, "workloads is not a list")
		}
		if len(value.Content) > limits.Workloads {
			return complain(value, "%d workloads, at most %d", len(value.Content), limits.Workloads)
		}
		listed = true
		for _, n := range value.Content {
			rule, err := decodeRule(n, "")
			if err != nil {
				return err
			}
			rules = append(rules, *rule)
		}
		return nil
	})
	if err == nil && !listed {
		err = complain(root, "no key workloads; no rules at all is written as an empty list")
	}
	if err == nil {
		err = checkRules(rules)
	}
	return rules, err
}

// checkRules looks at rules together, as the catalog will.
func checkRules(rules []catalog.Workload) error {
	if err := catalog.CheckWorkloads(rules); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), catalog.ErrInvalidParams.Error()+": "))
	}
	return nil
}

// decodeRuleNamed reads a document that is one rule. It may do without the name, but must not have another.
func decodeRuleNamed(text []byte, name string) (*catalog.Workload, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	rule, err := decodeRule(root, name)
	if err == nil && rule.Name != name {
		err = complain(root, "name %s in the rule of workload %s", quoted(rule.Name), quoted(name))
	}
	return rule, err
}

// document returns the root of a text that holds exactly one document.
func document(text []byte) (*yaml.Node, error) {
	if len(text) > limits.WorkloadRulesBytes {
		return nil, fmt.Errorf("%d bytes of rules, at most %d", len(text), limits.WorkloadRulesBytes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the document of rules is empty")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document of rules")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, errors.New("the document of rules is empty")
	}
	return doc.Content[0], nil
}

// eachPair visits the pairs of a map whose keys are plain texts, each once.
func eachPair(n *yaml.Node, what string, visit func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return complain(n, "%s is not a map of keys and values", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			return complain(key, "%s has the key %s twice, or a key that is no text", what, quoted(key.Value))
		}
		seen[key.Value] = true
		if err := visit(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

// scalar returns the text of a plain value.
func scalar(n *yaml.Node, key string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", complain(n, "%s is not a plain value", key)
	}
	return n.Value, nil
}

// quoted is a text of a document in a complaint about it.
func quoted(text string) string { return strconv.Quote(shortened(text)) }

// ruleFields reads the fields of a rule, by their keys.
var ruleFields = map[string]func(r *catalog.Workload, n *yaml.Node) error{
	"name":           func(r *catalog.Workload, n *yaml.Node) (err error) { r.Name, err = scalar(n, "name"); return err },
	"prefixes":       func(r *catalog.Workload, n *yaml.Node) error { return readTexts(&r.Prefixes, n, "prefixes") },
	"tenants":        func(r *catalog.Workload, n *yaml.Node) error { return readTexts(&r.Tenants, n, "tenants") },
	"soft_bytes":     func(r *catalog.Workload, n *yaml.Node) error { return readSize(&r.SoftBytes, n, "soft_bytes") },
	"hard_bytes":     func(r *catalog.Workload, n *yaml.Node) error { return readSize(&r.HardBytes, n, "hard_bytes") },
	"reserved_bytes": func(r *catalog.Workload, n *yaml.Node) error { return readSize(&r.ReservedBytes, n, "reserved_bytes") },
	"evict":          func(r *catalog.Workload, n *yaml.Node) error { return readWord(&r.Evict, n, "evict") },
	"unread":         func(r *catalog.Workload, n *yaml.Node) error { return readWord(&r.Unread, n, "unread") },
	"ttl_ms":         func(r *catalog.Workload, n *yaml.Node) error { return readTTL(&r.TTLMs, n) },
	"priority":       func(r *catalog.Workload, n *yaml.Node) error { return readPriority(&r.Priority, n) },
}

// decodeRule reads a rule and checks what the catalog does not.
func decodeRule(n *yaml.Node, name string) (*catalog.Workload, error) {
	r := &catalog.Workload{Name: name}
	err := eachPair(n, "a workload", func(key string, value *yaml.Node) error {
		read := ruleFields[key]
		if read == nil {
			return complain(value, "a workload has no key %s", quoted(key))
		}
		return read(r, value)
	})
	switch {
	case err != nil:
		return nil, err
	case !isRuleName(r.Name):
		return nil, complain(n, "name %s: a workload is called by 1 to %d of the characters a-z 0-9 _ - ., and not %s or %s",
			quoted(r.Name), limits.WorkloadNameBytes, metrics.NoWorkload, metrics.Watermark)
	case r.SoftBytes > 0 && r.ReservedBytes > r.SoftBytes:
		return nil, complain(n, "workload %s: reserved_bytes=%d is above soft_bytes=%d", r.Name, r.ReservedBytes, r.SoftBytes)
	}
	return r, nil
}

func readTexts(to *[]string, n *yaml.Node, key string) error {
	if n.Kind != yaml.SequenceNode {
		return complain(n, "%s is not a list", key)
	}
	if len(n.Content) > limits.WorkloadNames {
		return complain(n, "%d %s, at most %d", len(n.Content), key, limits.WorkloadNames)
	}
	for _, item := range n.Content {
		text, err := scalar(item, "an item of "+key)
		if err != nil {
			return err
		}
		if len(text) > limits.WorkloadTextBytes {
			return complain(item, "an item of %s has %d bytes, at most %d", key, len(text), limits.WorkloadTextBytes)
		}
		*to = append(*to, text)
	}
	return nil
}

func readSize(to *uint64, n *yaml.Node, key string) error {
	text, err := scalar(n, key)
	if err != nil {
		return err
	}
	if *to, err = units.ParseSize(text); err != nil {
		return complain(n, "%s: %v", key, err)
	}
	return nil
}

func readWord(to encoding.TextUnmarshaler, n *yaml.Node, key string) error {
	text, err := scalar(n, key)
	if err != nil {
		return err
	}
	if err := to.UnmarshalText([]byte(text)); err != nil {
		return complain(n, "%v", err)
	}
	return nil
}

func readTTL(to *int64, n *yaml.Node) error {
	text, err := scalar(n, "ttl_ms")
	if err != nil {
		return err
	}
	d, err := units.ParseDuration(text)
	if err != nil {
		return complain(n, "ttl_ms: %v", err)
	}
	*to = d.Milliseconds()
	return nil
}

func readPriority(to *int, n *yaml.Node) error {
	text, err := scalar(n, "priority")
	if err != nil {
		return err
	}
	*to, err = strconv.Atoi(text)
	if err != nil || *to < -limits.WorkloadPriority || *to > limits.WorkloadPriority {
		return complain(n, "priority=%s is no whole number from %d to %d", quoted(text), -limits.WorkloadPriority, limits.WorkloadPriority)
	}
	return nil
}

// isRuleName keeps names to what needs no escaping in a label or a path, and to what means nothing else there.
func isRuleName(name string) bool {
	if name == "" || name == metrics.NoWorkload || name == metrics.Watermark || len(name) > limits.WorkloadNameBytes {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}
