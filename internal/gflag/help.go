package gflag

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// row is one flag as help shows it.
type row struct {
	XMLName xml.Name `xml:"flag"`
	Name    string   `xml:"name"`
	Meaning string   `xml:"meaning"`
	Default string   `xml:"default"`
	Current string   `xml:"current"`
	Type    string   `xml:"type"`
}

func rows(fs *pflag.FlagSet) []row {
	var out []row
	fs.VisitAll(func(f *pflag.Flag) {
		if _, ok := builtins[f.Name]; ok || f.Hidden {
			return
		}
		out = append(out, row{
			Name: f.Name, Meaning: f.Usage, Default: f.DefValue, Current: f.Value.String(),
			Type: typeName(f.Value.Type()),
		})
	})
	for _, name := range slices.Sorted(maps.Keys(builtins)) {
		b := builtins[name]
		t, def := "string", ""
		if b.isBool {
			t, def = "bool", "false"
		}
		out = append(out, row{Name: name, Meaning: b.usage, Default: def, Current: def, Type: t})
	}
	slices.SortStableFunc(out, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// WriteHelp prints the usage and every flag with its meaning, type and default.
func WriteHelp(w io.Writer, fs *pflag.FlagSet, p Program) {
	fmt.Fprintf(w, "%s: %s\n\n  Flags of %s:\n", p.Name, p.Usage, p.Name)
	for _, r := range rows(fs) {
		def := r.Default
		if r.Type == "string" {
			def = fmt.Sprintf("%q", def)
		}
		fmt.Fprintf(w, "    -%s (%s)\n      type: %s  default: %s\n", r.Name, r.Meaning, r.Type, def)
	}
}

// WriteXML prints the same as an XML document.
func WriteXML(w io.Writer, fs *pflag.FlagSet, p Program) {
	doc := struct {
		XMLName xml.Name `xml:"AllFlags"`
		Program string   `xml:"program"`
		Usage   string   `xml:"usage"`
		Flags   []row
	}{Program: p.Name, Usage: p.Usage, Flags: rows(fs)}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil { // no field of ours can fail to marshal
		fmt.Fprintf(w, "<!-- %v -->\n", err)
		return
	}
	fmt.Fprintf(w, "%s%s\n", xml.Header, text)
}
