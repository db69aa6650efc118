package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes manual pages: one for the program and one for each sub-command, made from what --help shows.
func (e *env) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write manual pages for section 1 into a folder", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			var visit func(cmd *cobra.Command) error
			visit = func(cmd *cobra.Command) error {
				file := filepath.Join(args[0], pageName(cmd)+".1")
				if err := os.WriteFile(file, []byte(manPage(cmd)), 0o644); err != nil {
					return err
				}
				for _, below := range cmd.Commands() {
					if below.IsAvailableCommand() {
						if err := visit(below); err != nil {
							return err
						}
					}
				}
				return nil
			}
			return visit(cmd.Root())
		},
	}
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// roff lets nothing in a text be taken for an instruction.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(s string) { line("%s", strings.TrimPrefix(roff.Replace("\n"+s), "\n")) }
	line(`.TH "%s" "1" "" "Mooncake" ""`, strings.ToUpper(pageName(cmd)))
	line(".SH NAME")
	text(pageName(cmd) + " - " + cmd.Short)
	line(".SH SYNOPSIS")
	text(cmd.UseLine())
	if cmd.Long != "" {
		line(".SH DESCRIPTION")
		text(cmd.Long)
	}
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", cmd.NonInheritedFlags()}, {"OPTIONS OF ALL COMMANDS", cmd.InheritedFlags()}} {
		if !part.flags.HasAvailableFlags() {
			continue
		}
		line(".SH %s", part.title)
		part.flags.VisitAll(func(f *pflag.Flag) {
			line(".TP")
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			text(name + " " + f.Value.Type())
			text(f.Usage)
		})
	}
	var related []string
	if cmd.HasParent() {
		related = append(related, pageName(cmd.Parent()))
	}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			related = append(related, pageName(below))
		}
	}
	if len(related) > 0 {
		line(".SH SEE ALSO")
		text(strings.Join(related, "(1), ") + "(1)")
	}
	return b.String()
}
