package gflag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

type foundKind uint8

const (
	kindUnknown foundKind = iota
	kindBuiltin
	kindProgram
)

// found is a flag that a name stands for.
type found struct {
	kind    foundKind
	name    string
	negated bool // it was spelled --noNAME
	builtin builtin
	flag    *pflag.Flag
}

type builtin struct {
	isBool bool
	usage  string
}

// builtins are the flags that every program of this grammar has.
var builtins = map[string]builtin{
	"help":        {true, "print all flags and exit"},
	"helpfull":    {true, "same as --help"},
	"helpshort":   {true, "same as --help"},
	"helppackage": {true, "same as --help"},
	"helpxml":     {true, "print all flags as XML and exit"},
	"helpon":      {false, "same as --help, whatever the module named"},
	"helpmatch":   {false, "same as --help, whatever the module named"},
	"version":     {true, "print the version and exit"},
	"flagfile":    {false, "read flags from these files, one --flag=value per line"},
	"fromenv":     {false, "take these flags from FLAGS_name in the environment; each must be there"},
	"tryfromenv":  {false, "take these flags from FLAGS_name in the environment where it is there"},
	"undefok":     {false, "names of flags that may be given although the program has none of that name"},
}

func (f found) isBool() bool {
	if f.kind == kindBuiltin {
		return f.builtin.isBool
	}
	return f.flag.Value.Type() == "bool"
}

func (f found) usage() string {
	if f.kind == kindBuiltin {
		return f.builtin.usage
	}
	return f.flag.Usage
}

func (f found) typeName() string {
	if f.kind == kindBuiltin {
		if f.builtin.isBool {
			return "bool"
		}
		return "string"
	}
	return typeName(f.flag.Value.Type())
}

// typeName translates pflag's names into those of the grammar. A type of the program's own looks like a string.
func typeName(pflagType string) string {
	switch pflagType {
	case "bool", "int32", "uint32", "int64", "uint64":
		return pflagType
	case "int":
		return "int64"
	case "uint":
		return "uint64"
	case "uint16":
		return "uint32"
	case "float64", "float32":
		return "double"
	}
	return "string"
}

// assign sets a program's flag. Numbers are brought into plain decimal first: pflag would take a leading zero for octal.
func assign(fs *pflag.FlagSet, f found, value string) error {
	kind := f.flag.Value.Type()
	plain, ok := value, true
	switch kind {
	case "bool":
		var on bool
		on, ok = parseBool(value)
		plain = strconv.FormatBool(on)
	case "int32", "int64", "int":
		plain, ok = parseSigned(value)
	case "uint16", "uint32", "uint64", "uint":
		plain, ok = parseUnsigned(value)
	case "float32", "float64":
		plain = strings.TrimLeft(value, " \t\n")
	}
	if ok {
		err := fs.Set(f.flag.Name, plain)
		if err == nil {
			return nil
		}
		if typeName(kind) == "string" {
			// The program's own check has the reason; pflag's wrapping only repeats name and value.
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				err = invalid.Unwrap()
			}
			return fmt.Errorf("failed validation of new value '%s' for flag '%s': %w", value, f.name, err)
		}
	}
	return fmt.Errorf("illegal value '%s' specified for %s flag '%s'", value, typeName(kind), f.name)
}

func parseBool(value string) (on, ok bool) {
	switch strings.ToLower(value) {
	case "1", "t", "true", "y", "yes":
		return true, true
	case "0", "f", "false", "n", "no":
		return false, true
	}
	return false, false
}

// parseSigned and parseUnsigned read decimal or 0x hexadecimal with leading blanks, and give decimal.
func parseSigned(value string) (string, bool) {
	digits, base := numberBase(value)
	v, err := strconv.ParseInt(digits, base, 64)
	return strconv.FormatInt(v, 10), err == nil
}

func parseUnsigned(value string) (string, bool) {
	digits, base := numberBase(value)
	v, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), base, 64)
	return strconv.FormatUint(v, 10), err == nil
}

// fits tells whether a number in plain decimal has a place in so many bits.
func fits(text string, signed bool, bits int) bool {
	var err error
	if signed {
		_, err = strconv.ParseInt(text, 10, bits)
	} else {
		_, err = strconv.ParseUint(text, 10, bits)
	}
	return err == nil
}

func isFloat(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func numberBase(value string) (digits string, base int) {
	digits = strings.TrimLeft(value, " \t\n")
	if len(digits) > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') {
		return digits[2:], 16
	}
	return digits, 10
}
