package gflag

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// even is a flag type of a program's own.
type even int

func (e *even) String() string { return fmt.Sprint(int(*e)) }
func (e *even) Type() string   { return "even" }
func (e *even) Set(s string) error {
	var n int
	if _, err := fmt.Sscan(s, &n); err != nil || n%2 != 0 {
		return errors.New("not an even number")
	}
	*e = even(n)
	return nil
}

type values struct {
	port   *int32
	wide   *int64
	count  *uint32
	ratio  *float64
	name   *string
	enable *bool
	even   even
	fs     *pflag.FlagSet
}

func newValues() *values {
	fs := pflag.NewFlagSet("prog", pflag.ContinueOnError)
	v := &values{
		fs: fs, port: fs.Int32("rpc_port", 50051, "port to listen on"), wide: fs.Int64("client_ttl", 10, "seconds to live"),
		count: fs.Uint32("count", 1, "how many"), ratio: fs.Float64("ratio", 0.5, "a ratio"),
		name: fs.String("cluster_id", "c", "a name"), enable: fs.Bool("enable_ha", false, "a switch"),
	}
	fs.Var(&v.even, "even", "an even number")
	return v
}

func (v *values) String() string {
	return fmt.Sprintf("%d %d %d %g %s %v %d", *v.port, *v.wide, *v.count, *v.ratio, *v.name, *v.enable, v.even)
}

func testProgram(env ...string) Program {
	return Program{
		Name: "mooncake_master", Usage: "keeps objects", Version: "1.2",
		LookupEnv: func(name string) (string, bool) {
			for _, e := range env {
				if value, ok := strings.CutPrefix(e, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
	}
}

func TestSpellings(t *testing.T) {
	const unset = "50051 10 1 0.5 c false 0"
	for _, c := range []struct {
		args  string
		want  string
		stray string
	}{
		{"", unset, ""},
		{"--rpc_port=1", "1 10 1 0.5 c false 0", ""},
		{"-rpc_port=1", "1 10 1 0.5 c false 0", ""},
		{"--rpc_port 1", "1 10 1 0.5 c false 0", ""},
		{"-rpc-port 1", "1 10 1 0.5 c false 0", ""},
		{"--client-ttl=7", "50051 7 1 0.5 c false 0", ""},
		{"--rpc_port 1 --rpc_port 2", "2 10 1 0.5 c false 0", ""},
		{"--rpc_port=0x20", "32 10 1 0.5 c false 0", ""},
		{"--rpc_port=010", "10 10 1 0.5 c false 0", ""},
		{"--rpc_port=-1", "-1 10 1 0.5 c false 0", ""},
		{"--rpc_port -1", "-1 10 1 0.5 c false 0", ""},
		{"--count=0XfF", "50051 10 255 0.5 c false 0", ""},
		{"--ratio=1e-2", "50051 10 1 0.01 c false 0", ""},
		{"--cluster_id=a=b", "50051 10 1 0.5 a=b false 0", ""},
		{"--cluster_id --enable_ha", "50051 10 1 0.5 --enable_ha false 0", ""},
		{"--cluster_id=", "50051 10 1 0.5  false 0", ""},
		{"--enable_ha", "50051 10 1 0.5 c true 0", ""},
		{"--enable_ha false", "50051 10 1 0.5 c true 0", "false"},
		{"--enable_ha=false", unset, ""},
		{"--enable_ha=YES", "50051 10 1 0.5 c true 0", ""},
		{"--enable_ha=1 --enable_ha=n", unset, ""},
		{"--enable_ha --noenable_ha", unset, ""},
		{"--enable_ha --noenable-ha=1", unset, ""},
		{"--even=4", "50051 10 1 0.5 c false 4", ""},
		{"a - b --rpc_port=1 c", "1 10 1 0.5 c false 0", "a - b c"},
		{"--rpc_port=1 -- --rpc_port=2 x", "1 10 1 0.5 c false 0", "--rpc_port=2 x"},
		{"--undefok=nosuch,other --nosuch=1 --noother --rpc_port=1", "1 10 1 0.5 c false 0", ""},
		{"--no-such 5 --undefok=no_such", unset, "5"},
		{"--fromenv=rpc_port,enable_ha", "77 10 1 0.5 c true 0", ""},
		{"--tryfromenv=rpc-port,client_ttl", "77 10 1 0.5 c false 0", ""},
		{"--fromenv=rpc_port --rpc_port=3", "3 10 1 0.5 c false 0", ""},
		{"--helpon= --help=false --version=no", unset, ""},
	} {
		v := newValues()
		out, err := Parse(v.fs, strings.Fields(c.args), testProgram("FLAGS_rpc_port=77", "FLAGS_enable_ha=yes"))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if v.String() != c.want || strings.Join(out.Stray, " ") != c.stray || out.Help || out.Version {
			t.Errorf("%s: %s, stray %q; want %s, %q", c.args, v, out.Stray, c.want, c.stray)
		}
	}
}

func TestChanged(t *testing.T) {
	v := newValues()
	if _, err := Parse(v.fs, []string{"--rpc_port=50051"}, testProgram()); err != nil {
		t.Fatal(err)
	}
	if !v.fs.Changed("rpc_port") || v.fs.Changed("client_ttl") {
		t.Fatal("a flag given with its default must count as given, another must not")
	}
}

func TestComplaints(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--nosuchflag", "unknown command line flag 'nosuchflag'"},
		{"--no-such-flag=1", "unknown command line flag 'no-such-flag'"},
		{"---rpc_port=1", "unknown command line flag '-rpc_port'"},
		{"--=5", "unknown command line flag ''"},
		{"--undefok=a --b", "unknown command line flag 'b'"},
		{"--zz --rpc_port=q", "illegal value 'q' specified for int32 flag 'rpc_port'"},
		{"--client_ttl", "flag '--client_ttl' is missing its argument; flag description: seconds to live"},
		{"-client-ttl", "flag '-client-ttl' is missing its argument; flag description: seconds to live"},
		{"--rpc_port=abc", "illegal value 'abc' specified for int32 flag 'rpc_port'"},
		{"--rpc_port=", "illegal value '' specified for int32 flag 'rpc_port'"},
		{"--rpc_port=1_0", "illegal value '1_0' specified for int32 flag 'rpc_port'"},
		{"--rpc_port=0x", "illegal value '0x' specified for int32 flag 'rpc_port'"},
		{"--rpc_port=5000000000", "illegal value '5000000000' specified for int32 flag 'rpc_port': want -2147483648 to 2147483647"},
		{"--client_ttl=9223372036854775808", "illegal value '9223372036854775808' specified for int64 flag 'client_ttl'"},
		{"--count=-1", "illegal value '-1' specified for uint32 flag 'count'"},
		{"--ratio=abc", "illegal value 'abc' specified for double flag 'ratio': want a number"},
		{"--enable_ha=maybe", "illegal value 'maybe' specified for bool flag 'enable_ha'"},
		{"--enable_ha=", "illegal value '' specified for bool flag 'enable_ha'"},
		{"--help=maybe", "illegal value 'maybe' specified for bool flag 'help'"},
		{"--nocluster_id", "boolean value (nocluster_id) specified for string command line flag"},
		{"--noflagfile", "boolean value (noflagfile) specified for string command line flag"},
		{"--even=5", "failed validation of new value '5' for flag 'even': not an even number"},
		{"--fromenv=client_ttl", "FLAGS_client_ttl not found in environment"},
		{"--fromenv=nosuch", "unknown command line flag 'nosuch' (via --fromenv or --tryfromenv)"},
		{"--fromenv=fromenv", "FLAGS_fromenv may not be read from the environment: it would name itself"},
		{"--fromenv=rpc_port", "illegal value 'x' specified for int32 flag 'rpc_port'"},
		{"--flagfile=nofile", "flagfile 'nofile': no such file or directory"},
		{"--flagfile", "flag '--flagfile' is missing its argument; flag description: " + builtins["flagfile"].usage},
	} {
		v := newValues()
		_, err := Parse(v.fs, strings.Fields(c.args), testProgram("FLAGS_rpc_port=x", "FLAGS_fromenv=fromenv"))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.args, err, c.want)
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "flags")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFlagfile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# comment\n\n  --rpc_port=1\n-enable_ha\r\n--client-ttl=3", "1 3 1 0.5 c true 0"},
		{"--rpc_port=1\nmooncake_client\n--rpc_port=2\n", "1 10 1 0.5 c false 0"},
		{"mooncake_client\nmooncake_m*\n--rpc_port=2\nother\n--rpc_port=3\n", "2 10 1 0.5 c false 0"},
		{"x mooncake_master\n--cluster_id=a b\n", "50051 10 1 0.5 a b false 0"},
		{"rpc_port=1\n--client_ttl=3\n", "50051 10 1 0.5 c false 0"}, // a forgotten dash drops the rest
		{"--enable_ha\n--noenable_ha\n", "50051 10 1 0.5 c false 0"},
	} {
		v := newValues()
		out, err := Parse(v.fs, []string{"--flagfile=" + writeFile(t, c.text)}, testProgram())
		if err != nil || v.String() != c.want || len(out.Warnings) > 0 {
			t.Errorf("%q: %s, %v, %q; want %s", c.text, v, err, out.Warnings, c.want)
		}
	}
}

func TestFlagfileOrderAndNesting(t *testing.T) {
	inner := writeFile(t, "--client_ttl=3\n--rpc_port=4\n")
	outer := writeFile(t, "--flagfile="+inner+"\n--rpc_port=5\n--nosuch=1\n--client_ttl 9\n")
	v := newValues()
	out, err := Parse(v.fs, []string{"--client_ttl=1", "--flagfile", outer, "--enable_ha"}, testProgram())
	if err != nil || v.String() != "5 3 1 0.5 c true 0" {
		t.Fatalf("%s, %v", v, err)
	}
	if len(out.Warnings) != 2 || !strings.Contains(out.Warnings[0], "line 3: no flag 'nosuch'") {
		t.Fatalf("warnings %q", out.Warnings)
	}
	circle := writeFile(t, "")
	if err := os.WriteFile(circle, []byte("--flagfile="+circle+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, want string }{
		{circle, "more than 16 files inside one another"},
		{writeFile(t, "--rpc_port=abc\n"), "illegal value 'abc' specified for int32 flag 'rpc_port'"},
		{writeFile(t, "--rpc_port\n"), "flag '--rpc_port' is missing its argument"},
		{writeFile(t, "--nocluster_id\n"), "boolean value (nocluster_id)"},
		{writeFile(t, strings.Repeat("# x\n", 1<<18)+"#\n"), "larger than 1048576 bytes"},
		{t.TempDir(), "is a directory"},
	} {
		if _, err := Parse(newValues().fs, []string{"--flagfile", c.file}, testProgram()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestHandle(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		ended  bool
		stdout string // a part of it
		stderr string // all of it
	}{
		{"--rpc_port=1", 0, false, "", ""},
		{"--version", 0, true, "mooncake_master version 1.2\n", ""},
		{"--help", 1, true, "mooncake_master: keeps objects\n", ""},
		{"--helpshort", 1, true, "    -rpc_port (port to listen on)\n      type: int32  default: 50051\n", ""},
		{"--helpfull", 1, true, "    -cluster_id (a name)\n      type: string  default: \"c\"\n", ""},
		{"--helpon=master", 1, true, "-flagfile", ""},
		{"--helpmatch x", 1, true, "-version", ""},
		{"--helpxml", 1, true, "<name>rpc_port</name>", ""},
		{"--help --nosuch", 1, true, "", "ERROR: unknown command line flag 'nosuch'\n"},
		{"--rpc_port=a\nb", 1, true, "", "ERROR: illegal value 'a b' specified for int32 flag 'rpc_port'\n"},
	} {
		var stdout, stderr strings.Builder
		code, ended := Handle(newValues().fs, slices.DeleteFunc(strings.Split(c.args, " "), func(s string) bool { return s == "" }),
			testProgram(), &stdout, &stderr)
		if code != c.code || ended != c.ended || !strings.Contains(stdout.String(), c.stdout) || stderr.String() != c.stderr {
			t.Errorf("%s: %d %v\n%s\n%s", c.args, code, ended, stdout.String(), stderr.String())
		}
		if c.stdout == "" && stdout.Len() > 0 {
			t.Errorf("%s: unexpected output %s", c.args, stdout.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("--rpc_port=1\x00x\x00--\x00--a")
	f.Add("--client-ttl\x007\x00--noenable_ha\x00-\x00--=\x00--tryfromenv=a,,rpc_port")
	f.Fuzz(func(t *testing.T, line string) {
		args := slices.DeleteFunc(strings.Split(line, "\x00"), func(s string) bool { return strings.Contains(s, "flagfile") })
		v := newValues()
		out, err := Parse(v.fs, args, testProgram("FLAGS_rpc_port=1"))
		if err == nil && len(out.Stray) > len(args) {
			t.Fatalf("%d stray of %d", len(out.Stray), len(args))
		}
	})
}

func FuzzFlagfile(f *testing.F) {
	f.Add([]byte("# c\n--rpc_port=1\nname*\n-enable_ha\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if strings.Contains(string(text), "flagfile") {
			return
		}
		r := reader{fs: newValues().fs, program: testProgram(), undefok: map[string]bool{}}
		r.lines("f", strings.NewReader(string(text)))
	})
}
