package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mooncake/master"
)

// TestTokens speaks with a master that asks for tokens: by file and by environment, too low a level, a wrong one, none.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, grpc, _ := realMaster(t, func(c *master.Config) {
		c.GRPCTokens = file("tokens", "read 0123456789abcdef-r\noperate 0123456789abcdef-o\nadmin 0123456789abcdef-a\n")
	})
	read, operate, admin := file("r", "0123456789abcdef-r\n"), file("o", "0123456789abcdef-o"), file("a", "0123456789abcdef-a")
	for _, c := range []struct {
		args []string
		want string // of the error; empty: none
	}{
		{[]string{"status"}, "a token of level read is needed"},
		{[]string{"status", "--token_file=" + file("wrong", "0123456789abcdef-x")}, "a token of level read is needed"},
		{[]string{"status", "--token_file=" + read}, ""},
		{[]string{"workloads", "set", "kv", "--prefix=kv/", "--apply", "--token_file=" + read}, "needs a token of level operate, and this one is of level read"},
		{[]string{"workloads", "set", "kv", "--prefix=kv/", "--apply", "--token_file=" + operate}, ""},
		{[]string{"workloads", "rm", "kv", "--apply", "--token_file=" + operate}, "needs a token of level admin"},
		{[]string{"workloads", "rm", "kv", "--apply", "--token_file=" + admin}, ""},
		{[]string{"status", "--token_file=" + dir + "/none"}, "--token_file"},
		{[]string{"status", "--token_file=" + file("two", "a b")}, "has 2 words in it"},
	} {
		code, out, errs := ctlOn(t, grpc, c.args...)
		if (code == 0) != (c.want == "") || !strings.Contains(errs, c.want) || strings.Contains(errs+out, "0123456789abcdef") {
			t.Errorf("%q: exit %d, %s%s; want %q", c.args, code, out, errs, c.want)
		}
	}
	t.Setenv(tokenEnv, "0123456789abcdef-r")
	if code, _, errs := ctlOn(t, grpc, "status"); code != 0 {
		t.Errorf("by the environment: exit %d, %s", code, errs)
	}
	if code, out, _ := ctlOn(t, grpc, "doctor"); code != 0 && !strings.Contains(out, "mistake") {
		t.Errorf("doctor: exit %d, %s", code, out)
	}
}
