package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTables runs the trees of testdata/trees: what is found, what is chosen, and the table that says so. Each choice is made
// again with devices and ports in other orders. Run with -rewrite to write the tables anew, then read them.
func TestTables(t *testing.T) {
	files, err := filepath.Glob("testdata/trees/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"one_nic", "two_rails", "eight_hcas", "port_down", "ib_and_roce", "no_ipv4_gid", "virtual_functions", "limited_membership",
		"numa_far", "five_states", "no_device", "bad_content",
	} {
		if !slices.Contains(files, "testdata/trees/"+want+".txt") {
			t.Errorf("no tree %s", want)
		}
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			root := t.TempDir()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "tree":
					root = newFakeTree(t, d.Input)
					return ""
				case "choose":
					return playChoose(t, root, d)
				case "scan":
					return playScan(t, root)
				}
				d.Fatalf(t, "unknown directive %s", d.Cmd)
				return ""
			})
		})
	}
}

// playChoose is what a daemon does at its start. Arguments: numa=N, names=(a,b), and environment variables.
func playChoose(t *testing.T, root string, d *datadriven.TestData) string {
	t.Helper()
	env, names, numa := map[string]string{}, "", -1
	for _, arg := range d.CmdArgs {
		switch text := strings.Join(arg.Vals, ","); arg.Key {
		case "numa":
			var err error
			if numa, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		case "names":
			names = text
		default:
			env[arg.Key] = text
		}
	}
	wish, err := ParseWish(names, func(name string) string { return env[name] })
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	wish.NUMA = numa
	devices, err := Scan(root)
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), root, "ROOT") + "\n"
	}
	choice, err := Choose(devices, wish)
	out := choice.Table()
	if err != nil {
		out += "error: " + err.Error() + "\n"
	}
	for _, v := range choice.Chosen() {
		out += fmt.Sprintf("publish %s port %d gid %d %s lid %d pkey index %d\n", v.Device, v.Port, v.GIDIndex, v.GID, v.LID, v.PKeyIndex)
	}
	slices.Reverse(devices)
	for i := range devices {
		slices.Reverse(devices[i].Ports)
	}
	if again, _ := Choose(devices, wish); again.Table() != choice.Table() {
		t.Errorf("with the devices in another order:\n%s\ninstead of\n%s", again.Table(), choice.Table())
	}
	return out
}

// playScan shows what was read, for trees that are about reading.
func playScan(t *testing.T, root string) string {
	t.Helper()
	devices, err := Scan(root)
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), root, "ROOT") + "\n"
	}
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s type=%q numa=%d distances=%v virtual=%v fault=%q\n", d.Name, d.NodeType, d.NUMA, d.Distances, d.Virtual, d.Fault)
		for _, p := range d.Ports {
			fmt.Fprintf(&b, "  port %d %q %q %g Gb/s lid=%d pkeys=%#x fault=%q\n", p.Number, p.State, p.LinkLayer, p.RateGbps, p.LID, p.PKeys, p.Fault)
			for _, g := range p.GIDs {
				fmt.Fprintf(&b, "    gid %d %s %q %q\n", g.Index, g.GID, g.Type, g.NetDev)
			}
		}
	}
	return b.String()
}

// TestTableInDocs keeps the example of the documentation true.
func TestTableInDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/rdma-devices.md")
	if err != nil {
		t.Fatal(err)
	}
	play, err := os.ReadFile("testdata/trees/five_states.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(play), "choose numa=0\n----\n")
	table, _, found := strings.Cut(rest, "publish ")
	if !found || !strings.Contains(string(page), "```\n"+table+"```\n") {
		t.Errorf("docs/rdma-devices.md does not show\n%s", table)
	}
}
