package conffile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"mooncake/internal/gflag"
)

// Keys says how the keys of a program's file are its flags.
type Keys struct {
	Names     map[string]string // keys that are not the flag's own name, with the flag
	FlagsOnly []string          // flags that a file cannot set
	// Loose are flags of text that may be a number as well, such as a duration. Nil is none, AllLoose all.
	Loose []string
}

// AllLoose is every flag of text.
var AllLoose = []string{"*"}

// Apply sets the flags that a file names and the command line did not, and lists the keys without effect. An error names the
// key, and the line where there is one; whoever calls it names the file.
func Apply(fs *pflag.FlagSet, path string, keys Keys) (without []string, err error) {
	entries, err := Read(path)
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for i := range entries {
		e := &entries[i]
		name := e.Key
		if flag, ok := keys.Names[name]; ok {
			name = flag
		} else if slices.Contains(keys.FlagsOnly, name) || gflag.IsGlog(name) || fs.Lookup(name) == nil {
			without = append(without, fmt.Sprintf("%s in %s (no such key)", e.Key, path))
			continue
		}
		if given[name] {
			continue
		}
		if err := keys.set(fs, name, e); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(e.Where+", key "+e.Key, ", "), err)
		}
	}
	return without, nil
}

// set gives a flag the value of a key. JSON tells kinds of values apart, and a wrong one is an error.
func (k *Keys) set(fs *pflag.FlagSet, name string, e *Entry) error {
	kind, text := fs.Lookup(name).Value.Type(), e.Text
	loose := slices.Contains(k.Loose, "*") || slices.Contains(k.Loose, name)
	switch {
	case kind == "bool" && e.Kind == Plain:
		switch strings.ToLower(text) {
		case "on":
			text = "true"
		case "off":
			text = "false"
		}
	case kind == "bool" && (e.Kind == Text || e.Kind == Number && text != "0" && text != "1"):
		return fmt.Errorf("%q where true or false belongs", text)
	case kind == "string" && (e.Kind == Bool || e.Kind == Number && !loose):
		return fmt.Errorf("%s where text belongs", text)
	case kind != "bool" && kind != "string" && (e.Kind == Bool || e.Kind == Text):
		return fmt.Errorf("%q where a number belongs", text)
	}
	return gflag.Set(fs, name, text)
}
