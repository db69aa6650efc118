package gflag

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestGlog holds the flags of the logging library, and those of the flag library itself, against the list of the published
// programs.
func TestGlog(t *testing.T) {
	text, err := os.ReadFile("testdata/common-flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddIdle(fs, Glog...)
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	for _, row := range rows {
		col := strings.Split(row, "\t")
		name, kind, def := col[0], col[1], col[2]
		if _, ok := builtins[name]; ok {
			continue
		}
		f := fs.Lookup(name)
		if f == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		if typeName(f.Value.Type()) != kind || f.DefValue != def {
			t.Errorf("%s is %s with default %q, want %s with %q", name, typeName(f.Value.Type()), f.DefValue, kind, def)
		}
	}
	if len(rows) < 30 || len(rows) != len(Glog)+len(builtins) {
		t.Errorf("%d rows, and %d flags of the one library and %d of the other", len(rows), len(Glog), len(builtins))
	}
}

func TestIdleValues(t *testing.T) {
	for _, c := range []struct {
		kind, value string
		ok          bool
	}{
		{"bool", "yes", true},
		{"bool", "2", false},
		{"int32", "-5", true},
		{"int32", "0x10", true},
		{"int32", "2147483648", false},
		{"int32", "a", false},
		{"uint32", "4294967295", true},
		{"uint32", "4294967296", false},
		{"uint32", "-1", false},
		{"int64", "-9223372036854775808", true},
		{"uint64", "18446744073709551615", true},
		{"uint64", "18446744073709551616", false},
		{"double", "0.5", true},
		{"double", "much", false},
		{"string", "", true},
		{"string", "red", true},
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddIdle(fs, Idle{Name: "x_y", Type: c.kind, Why: "of a test"})
		_, err := Parse(fs, []string{"--x-y=" + c.value}, Program{Name: "test"})
		if (err == nil) != c.ok || err != nil && (!strings.Contains(err.Error(), "x_y") || !strings.Contains(err.Error(), c.value)) {
			t.Errorf("%s %q: %v", c.kind, c.value, err)
		}
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddIdle(fs, Idle{Name: "colour", Type: "string", Default: "red", Allowed: []string{"red", "blue"}})
	AddIdle(fs, Idle{Name: "colour", Type: "bool"}) // what is there stays
	if err := Set(fs, "colour", "blue"); err != nil || fs.Lookup("colour").Value.String() != "blue" {
		t.Errorf("blue: %v", err)
	}
	if err := Set(fs, "colour", "green"); err == nil || !strings.Contains(err.Error(), "red, blue") {
		t.Errorf("green: %v", err)
	}
	if Set(fs, "size", "1") == nil {
		t.Error("a flag that is not there was set")
	}
}
