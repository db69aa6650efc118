package gflag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// WriteTable lists the flags of a set as a table for a document: those with an effect, then those without, by reason.
func WriteTable(fs *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | kind | default | |\n| --- | --- | --- | --- |\n")
	without := map[string][]string{}
	var reasons []string
	fs.VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(*idleValue); ok {
			why := strings.TrimPrefix(f.Usage, idlePrefix)
			if len(v.allowed) > 0 {
				why += " (" + strings.Join(v.allowed, ", ") + ")"
			}
			if without[why] == nil {
				reasons = append(reasons, why)
			}
			without[why] = append(without[why], "`--"+f.Name+"`")
			return
		}
		def := ""
		if f.DefValue != "" {
			def = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.Name, typeName(f.Value.Type()), def, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
	b.WriteString("\n| accepted without effect | because |\n| --- | --- |\n")
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(without[why], ", "), why)
	}
	return b.String()
}
