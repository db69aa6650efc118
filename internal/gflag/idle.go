package gflag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Idle is a flag of a published program that a program accepts and does nothing with, so that its command lines need not be
// changed. Its values are checked all the same: a mistake in them is a mistake.
type Idle struct {
	Name    string
	Type    string // bool, int32, uint32, int64, uint64, double or string
	Default string
	Why     string   // it has no effect
	Allowed []string // the values a string may have; none: any
}

// idleValue keeps a value as text, of a kind that is checked when it is set.
type idleValue struct {
	text    string
	kind    string
	allowed []string
}

func (v *idleValue) String() string { return v.text }
func (v *idleValue) Type() string   { return v.kind }

func (v *idleValue) Set(text string) error {
	ok := true
	switch v.kind {
	case "int32":
		ok = fits(text, true, 32)
	case "uint32":
		ok = fits(text, false, 32)
	case "int64":
		ok = fits(text, true, 64)
	case "uint64":
		ok = fits(text, false, 64)
	case "float64":
		ok = isFloat(text)
	}
	if !ok {
		return fmt.Errorf("%q is no %s", text, typeName(v.kind))
	}
	if len(v.allowed) > 0 && !slices.Contains(v.allowed, text) {
		return fmt.Errorf("want one of %s", strings.Join(v.allowed, ", "))
	}
	v.text = text
	return nil
}

// AddIdle declares flags without effect, as far as the set has none of the name.
func AddIdle(fs *pflag.FlagSet, flags ...Idle) {
	for _, x := range flags {
		if fs.Lookup(x.Name) != nil {
			continue
		}
		kind := x.Type
		if kind == "double" {
			kind = "float64"
		}
		f := fs.VarPF(&idleValue{text: x.Default, kind: kind, allowed: x.Allowed}, x.Name, "", "no effect here: "+x.Why)
		if kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// Set gives a flag a value from elsewhere than a command line, under the same rules.
func Set(fs *pflag.FlagSet, name, value string) error {
	f := fs.Lookup(name)
	if f == nil {
		return fmt.Errorf("no flag '%s'", name)
	}
	return assign(fs, found{kind: kindProgram, name: name, flag: f}, value)
}

// Glog are the flags of the logging library that the published programs are built with, and those of the flag library that
// only a shell's completion uses.
var Glog = []Idle{
	{"alsologtoemail", "string", "", whyNoMail, nil},
	{"alsologtostderr", "bool", "false", whyStderr, nil},
	{"colorlogtostderr", "bool", "false", whyOneForm, nil},
	{"drop_log_memory", "bool", "true", whyStderr, nil},
	{"log_backtrace_at", "string", "", "a log line has no stack", nil},
	{"log_dir", "string", "", whyStderr, nil},
	{"log_link", "string", "", whyStderr, nil},
	{"log_prefix", "bool", "true", whyOneForm, nil},
	{"logbuflevel", "int32", "0", whyAtOnce, nil},
	{"logbufsecs", "int32", "30", whyAtOnce, nil},
	{"logemaillevel", "int32", "999", whyNoMail, nil},
	{"logfile_mode", "int32", "436", whyStderr, nil},
	{"logmailer", "string", "/bin/mail", whyNoMail, nil},
	{"logtostderr", "bool", "false", whyStderr, nil},
	{"max_log_size", "int32", "1800", whyStderr, nil},
	{"minloglevel", "int32", "0", whyLevel, nil},
	{"stderrthreshold", "int32", "2", whyStderr, nil},
	{"stop_logging_if_full_disk", "bool", "false", whyStderr, nil},
	{"symbolize_stacktrace", "bool", "true", "a log line has no stack", nil},
	{"tab_completion_columns", "int32", "80", whyCompletion, nil},
	{"tab_completion_word", "string", "", whyCompletion, nil},
	{"v", "int32", "0", whyLevel, nil},
	{"vmodule", "string", "", whyLevel, nil},
}

// Why the flags of the logging library have no effect.
const (
	whyStderr     = "the log goes to stderr always"
	whyOneForm    = "the log has one form"
	whyAtOnce     = "every line is written at once"
	whyNoMail     = "no mail is sent"
	whyLevel      = "use --log_level"
	whyCompletion = "shells complete nothing"
)

// IsGlog tells whether a flag is one of Glog.
func IsGlog(name string) bool {
	return slices.ContainsFunc(Glog, func(x Idle) bool { return x.Name == name })
}
