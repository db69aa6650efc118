package main

import "fmt"

// folded are fields of an old release that no Go struct has: another field, named here, holds what they say, and two
// functions of package wire translate.
var folded = map[string]struct{ decode, encode string }{
	"ReplicateConfig.with_soft_pin": {"softPinFrom12", "softPinTo12"},
}

// model is everything the emitters need.
type model struct {
	schemas []*schema
	union   *schema // one node per type, with the fields of all releases
	names   []string
	calls   []*call
}

// unite makes the richest form of every type: the newest release's, which must hold what all older ones have.
func unite(schemas []*schema) (*model, error) {
	newest := schemas[len(schemas)-1]
	m := &model{schemas: schemas, union: newest, names: newest.order}
	for _, name := range m.names {
		if typeDocs[name] == "" {
			return nil, fmt.Errorf("type %s has no comment in the table", name)
		}
	}
	for r, s := range schemas {
		for _, name := range s.order {
			rich, ok := newest.nodes[name]
			if !ok {
				return nil, fmt.Errorf("release %s has type %s, the newest has not", releases[r], name)
			}
			if err := mergeType(rich, s.nodes[name], r); err != nil {
				return nil, fmt.Errorf("release %s: %w", releases[r], err)
			}
		}
	}
	return m, nil
}

// mergeType notes in the rich form which release has which field or value.
func mergeType(rich, old *node, release int) error {
	for _, v := range old.values {
		i := indexValue(rich.values, v)
		if i < 0 {
			return fmt.Errorf("%s.%s is not in the newest release", rich.name, v.name)
		}
	}
	for i, v := range rich.values {
		if indexValue(old.values, v) < 0 {
			rich.values[i].since = release + 1
		}
	}
	for _, f := range old.fields {
		i := indexField(rich.fields, f.name)
		if i < 0 {
			if _, ok := folded[rich.name+"."+f.name]; ok {
				continue
			}
			return fmt.Errorf("%s.%s is neither in the newest release nor folded", rich.name, f.name)
		}
		rich.fields[i].in = append(rich.fields[i].in, release)
	}
	return nil
}

func indexValue(values []enumValue, v enumValue) int {
	for i := range values {
		if values[i].name == v.name && values[i].value == v.value {
			return i
		}
	}
	return -1
}

func indexField(fields []field, name string) int {
	for i := range fields {
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

// suffix is the ending of the functions that handle a struct in one release: none if all releases that have it agree, else
// the oldest release of those that agree.
func (m *model) suffix(name string, release int) string {
	key := expand(m.schemas[release].nodes[name])
	first, agree := release, true
	for r := len(m.schemas) - 1; r >= 0; r-- {
		n, ok := m.schemas[r].nodes[name]
		switch {
		case !ok:
		case expand(n) != key:
			agree = false
		case r < first:
			first = r
		}
	}
	if agree {
		return ""
	}
	return short[first]
}

// call is one call over all releases.
type call struct {
	name     string
	id       uint32
	in       [3]bool
	args     [3][]*node // per release; a release without the call borrows
	reply    [3]*node
	names    []string // of the arguments, in the richest form
	richArgs []*node
	rich     *node // reply in the richest form
}

// borrow is the release whose layout serves release r: r itself, else the next newer one, else the next older one.
func (c *call) borrow(r int) int {
	for i := r; i < len(c.in); i++ {
		if c.in[i] {
			return i
		}
	}
	for i := r; i >= 0; i-- {
		if c.in[i] {
			return i
		}
	}
	return r
}

// requestRoot is the type whose literal heads a request: nil without arguments, the argument itself if there is one.
func requestRoot(args []*node) *node {
	switch len(args) {
	case 0:
		return nil
	case 1:
		return args[0]
	}
	n := &node{kind: kindStruct, name: "tuple"}
	for _, a := range args {
		n.fields = append(n.fields, field{typ: a})
	}
	return n
}

// ambiguous tells whether 12 and 13 expect different replies to one request.
func (c *call) ambiguous() bool {
	if !c.in[0] || !c.in[1] {
		return false
	}
	a, b := requestRoot(c.args[0]), requestRoot(c.args[1])
	if (a == nil) != (b == nil) || a != nil && literal(a) != literal(b) {
		return false
	}
	return literal(c.reply[0]) != literal(c.reply[1])
}
