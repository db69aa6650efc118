package gflag

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Program is what the parser has to know about the program whose flags it reads.
type Program struct {
	// Name is matched against the patterns of flag files and stands before the version.
	Name string
	// Usage is the text above the list of flags.
	Usage string
	// Version is what --version prints after the name.
	Version string
	// LookupEnv replaces os.LookupEnv when set.
	LookupEnv func(string) (string, bool)
}

// Outcome says what a command line asks for besides its flags' values.
type Outcome struct {
	// Help is true when one of the help flags was given, XML when --helpxml was the one.
	Help, XML bool
	// Version is true when --version was given.
	Version bool
	// Stray holds the arguments that are no flags; they change nothing.
	Stray []string
	// Warnings are lines of flag files that named no flag. The published programs skip them silently.
	Warnings []string
}

// Handle parses args and carries the outcome out: an error becomes one "ERROR: ..." line on stderr and code 1, help and
// version go to stdout. ended says that the program should leave with that code; otherwise the flags are set.
func Handle(fs *pflag.FlagSet, args []string, p Program, stdout, stderr io.Writer) (code int, ended bool) {
	out, err := Parse(fs, args, p)
	for _, w := range out.Warnings {
		fmt.Fprintf(stderr, "WARNING: %s\n", w)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "ERROR: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return 1, true
	case out.Version:
		fmt.Fprintf(stdout, "%s version %s\n", p.Name, p.Version)
		return 0, true
	case out.Help && out.XML:
		WriteXML(stdout, fs, p)
		return 1, true
	case out.Help:
		WriteHelp(stdout, fs, p)
		return 1, true
	}
	return 0, false
}

// Parse sets the flags of fs from args (without the program's name). The error is the first complaint in the order of
// the command line, without the word ERROR; unknown flags come last, since --undefok may follow them.
func Parse(fs *pflag.FlagSet, args []string, p Program) (Outcome, error) {
	if p.LookupEnv == nil {
		p.LookupEnv = os.LookupEnv
	}
	r := reader{fs: fs, program: p, undefok: map[string]bool{}}
	r.arguments(args)
	if r.err != nil {
		return r.out, r.err
	}
	for _, u := range r.unknown {
		if !r.undefok[u.name] && !r.undefok[strings.TrimPrefix(u.name, "no")] {
			return r.out, errors.New(u.complaint)
		}
	}
	return r.out, nil
}

type unknownFlag struct{ name, complaint string }

type reader struct {
	fs      *pflag.FlagSet
	program Program
	out     Outcome
	undefok map[string]bool
	unknown []unknownFlag
	depth   int // of flag files inside flag files
	err     error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) arguments(args []string) {
	for i := 0; i < len(args) && r.err == nil; i++ {
		arg := args[i]
		body, isFlag := stripDashes(arg)
		if !isFlag {
			r.out.Stray = append(r.out.Stray, arg)
			continue
		}
		if body == "" { // "--"
			r.out.Stray = append(r.out.Stray, args[i+1:]...)
			return
		}
		name, value, hasValue := strings.Cut(body, "=")
		f := r.find(name)
		switch {
		case f.kind == kindUnknown:
			r.unknown = append(r.unknown, unknownFlag{underscored(name), fmt.Sprintf("unknown command line flag '%s'", name)})
			continue
		case f.negated && !f.isBool():
			r.fail("boolean value (%s) specified for %s command line flag", name, f.typeName())
			return
		case f.negated:
			value = "false"
		case hasValue:
		case f.isBool():
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		default:
			r.fail("flag '%s' is missing its argument; flag description: %s", arg, f.usage())
			return
		}
		r.set(f, value)
	}
}

// stripDashes takes one or two dashes off; a lone "-" is an argument, "--" is a flag with an empty body.
func stripDashes(arg string) (body string, isFlag bool) {
	switch {
	case arg == "-" || !strings.HasPrefix(arg, "-"):
		return "", false
	case strings.HasPrefix(arg, "--"):
		return arg[2:], true
	}
	return arg[1:], true
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// find looks a name up among the flags of the library itself and those of the set, and then, if it begins with "no",
// without that.
func (r *reader) find(name string) found {
	key := underscored(name)
	if f := r.findExact(key); f.kind != kindUnknown {
		return f
	}
	if rest, ok := strings.CutPrefix(key, "no"); ok {
		f := r.findExact(rest)
		f.negated = true
		return f
	}
	return found{}
}

func (r *reader) findExact(key string) found {
	if b, ok := builtins[key]; ok {
		return found{kind: kindBuiltin, name: key, builtin: b}
	}
	f := r.fs.Lookup(key)
	if f == nil {
		f = r.fs.Lookup(strings.ReplaceAll(key, "_", "-"))
	}
	if f == nil {
		return found{}
	}
	return found{kind: kindProgram, name: key, flag: f}
}

func (r *reader) set(f found, value string) {
	if f.kind == kindBuiltin {
		r.setBuiltin(f, value)
		return
	}
	if err := assign(r.fs, f, value); err != nil {
		r.fail("%w", err)
	}
}

func (r *reader) setBuiltin(f found, value string) {
	if f.builtin.isBool {
		on, ok := parseBool(value)
		if !ok {
			r.fail("illegal value '%s' specified for bool flag '%s'", value, f.name)
			return
		}
		if f.name == "version" {
			r.out.Version = on
		} else {
			r.out.Help = on
			r.out.XML = on && f.name == "helpxml"
		}
		return
	}
	switch f.name {
	case "undefok":
		for _, name := range splitNames(value) {
			r.undefok[underscored(name)] = true
		}
	case "flagfile":
		for _, path := range splitNames(value) {
			r.flagfile(path)
		}
	case "fromenv", "tryfromenv":
		r.fromEnv(splitNames(value), f.name == "fromenv")
	case "helpon", "helpmatch":
		r.out.Help = r.out.Help || value != ""
	}
}

func (r *reader) fromEnv(names []string, insist bool) {
	for _, name := range names {
		f := r.find(name)
		if f.kind == kindUnknown || f.negated {
			r.unknown = append(r.unknown, unknownFlag{
				underscored(name),
				fmt.Sprintf("unknown command line flag '%s' (via --fromenv or --tryfromenv)", name),
			})
			continue
		}
		value, ok := r.program.LookupEnv("FLAGS_" + f.name)
		if !ok {
			if insist {
				r.fail("FLAGS_%s not found in environment", f.name)
			}
			continue
		}
		if f.name == "fromenv" || f.name == "tryfromenv" {
			r.fail("FLAGS_%s may not be read from the environment: it would name itself", f.name)
			return
		}
		r.set(f, value)
	}
}

func splitNames(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
