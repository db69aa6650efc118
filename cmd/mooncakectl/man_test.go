package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestMan writes the manual pages: every sub-command has one, with all its flags, and nothing in it is an unknown instruction.
func TestMan(t *testing.T) {
	c, dir := scripted(t), filepath.Join(t.TempDir(), "man")
	if code, out, errs := c.ctl(t, "/", "man", dir); code != 0 || out != "" {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	known := map[string]bool{".TH": true, ".SH": true, ".TP": true}
	pages := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		pages++
		text, err := os.ReadFile(filepath.Join(dir, pageName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		page := string(text)
		if !strings.Contains(page, roff.Replace(cmd.Short)) {
			t.Errorf("%s: the page does not say what it does", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, roff.Replace("--"+f.Name+" ")) {
				t.Errorf("%s: --%s is not on its page", cmd.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(page) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !known[word] {
				t.Errorf("%s: %q would be an instruction", cmd.CommandPath(), line)
			}
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(new(env).root())
	if pages < 30 {
		t.Errorf("%d pages", pages)
	}
	if code, _, errs := c.ctl(t, "/", "man", filepath.Join(dir, "mooncakectl.1", "below")); code != 1 || !strings.Contains(errs, "not a directory") {
		t.Errorf("into no folder: exit %d, %s", code, errs)
	}
}
