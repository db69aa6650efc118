package rdma

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fakeTree writes a tree like the kernel's from a description of one line per thing. Words are separated by blanks, options
// are key=value with "_" for a blank in the value.
//
//	node 0 10_21                      a NUMA node and its distances
//	hca mlx5_0 numa=0                 an adapter; options pci, type, physfn, virtual (no hardware), uverbs, nonode
//	port mlx5_0/1                     a port; options state, link, rate, lid, pkeys (with commas, "none" for no table)
//	gid mlx5_0/1/3 192.0.2.7 eth0 v2  an entry of its table; the interface may be "-", the type ib, v2 or none
//	file PATH CONTENT                 any file, in place of what was there; "\n" is a line feed
//	huge PATH                         a file longer than any attribute
//	link PATH TARGET                  a symbolic link
//	pipe PATH                         a pipe that nobody writes to
//	rm PATH                           takes away what was there
//
// Paths are below sys/class/infiniband unless they begin with a slash.
type fakeTree struct {
	t    testing.TB
	root string
	pci  int
}

func newFakeTree(t testing.TB, description string) string {
	t.Helper()
	tree := &fakeTree{t: t, root: t.TempDir()}
	for line := range strings.Lines(description) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if words := strings.Fields(line); len(words) > 0 {
			tree.line(words)
		}
	}
	return tree.root
}

func (f *fakeTree) line(words []string) {
	f.t.Helper()
	if len(words) < 2 {
		f.t.Fatalf("%q: too few words", words)
	}
	what, name, rest := words[0], words[1], words[2:]
	switch what {
	case "node":
		f.write("/sys/devices/system/node/node"+name+"/distance", blanks(rest[0]))
	case "hca":
		f.hca(name, options(rest))
	case "port":
		f.port(name, options(rest))
	case "gid":
		f.gid(name, rest)
	case "file":
		f.write(name, strings.ReplaceAll(strings.Join(rest, " "), `\n`, "\n"))
	case "huge":
		f.write(name, strings.Repeat("4: ACTIVE\n", 1000))
	case "link":
		f.check(os.RemoveAll(f.place(name)))
		f.check(os.Symlink(rest[0], f.place(name)))
	case "pipe":
		f.check(os.RemoveAll(f.place(name)))
		f.check(syscall.Mkfifo(f.place(name), 0o600))
	case "rm":
		f.check(os.RemoveAll(f.place(name)))
	default:
		f.t.Fatalf("%q: unknown word", what)
	}
}

// hca lays an adapter out as the kernel does: the folder lies with the hardware, the class holds a link to it, and "device"
// leads back up.
func (f *fakeTree) hca(name string, opt map[string]string) {
	class := filepath.Join(f.root, classDir)
	f.check(os.MkdirAll(class, 0o700))
	f.pci++
	slot := value(opt, "pci", fmt.Sprintf("0000:%02x:00.0", f.pci))
	hardware := "/sys/devices/pci0000:00/" + slot
	if _, bare := opt["virtual"]; bare {
		hardware = "/sys/devices/virtual"
	}
	f.check(os.MkdirAll(filepath.Join(f.root, hardware, "infiniband", name, "ports"), 0o700))
	f.check(os.Symlink("../.."+strings.TrimPrefix(hardware, "/sys")+"/infiniband/"+name, filepath.Join(class, name)))
	f.write(name+"/node_type", value(opt, "type", "1: CA"))
	if node := opt["uverbs"]; node != "" {
		f.write("/sys/class/infiniband_verbs/"+node+"/ibdev", name)
		if _, missing := opt["nonode"]; !missing {
			f.write("/dev/infiniband/"+node, "")
		}
	}
	if _, bare := opt["virtual"]; bare {
		return
	}
	f.check(os.Symlink("../../../"+slot, f.place(name+"/device")))
	if node, ok := opt["numa"]; ok {
		f.write(hardware+"/numa_node", node)
	}
	if parent, ok := opt["physfn"]; ok {
		f.check(os.Symlink("../"+parent, filepath.Join(f.root, hardware, "physfn")))
	}
}

func (f *fakeTree) port(name string, opt map[string]string) {
	device, number, _ := strings.Cut(name, "/")
	at := device + "/ports/" + number + "/"
	ib := opt["link"] == "InfiniBand"
	lid, rate := "0x0", "400 Gb/sec (4X NDR)"
	if ib {
		lid = "0x1" + number
	}
	f.write(at+"state", value(opt, "state", "4: ACTIVE"))
	f.write(at+"link_layer", value(opt, "link", LinkEthernet))
	f.write(at+"rate", value(opt, "rate", rate))
	f.write(at+"lid", value(opt, "lid", lid))
	for i := range 4 { // some of a table that is mostly empty
		f.write(at+"gids/"+strconv.Itoa(i), "0000:0000:0000:0000:0000:0000:0000:0000")
	}
	if keys := value(opt, "pkeys", "0xffff"); keys != "none" {
		for i, key := range strings.Split(keys, ",") {
			f.write(at+"pkeys/"+strconv.Itoa(i), key)
		}
	}
}

func (f *fakeTree) gid(name string, rest []string) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || len(rest) != 3 {
		f.t.Fatalf("gid %s %q: want device/port/index address interface type", name, rest)
	}
	at, index := parts[0]+"/ports/"+parts[1]+"/", parts[2]
	octets := netip.MustParseAddr(rest[0]).As16()
	var groups []string
	for i := 0; i < len(octets); i += 2 {
		groups = append(groups, fmt.Sprintf("%02x%02x", octets[i], octets[i+1]))
	}
	f.write(at+"gids/"+index, strings.Join(groups, ":"))
	if rest[1] != "-" {
		f.write(at+"gid_attrs/ndevs/"+index, rest[1])
	}
	if kind, ok := map[string]string{"ib": GIDTypeIB, "v2": GIDTypeRoCEv2}[rest[2]]; ok {
		f.write(at+"gid_attrs/types/"+index, kind)
	}
}

// place is where a path of the description lies.
func (f *fakeTree) place(name string) string {
	if strings.HasPrefix(name, "/") {
		return filepath.Join(f.root, name)
	}
	return filepath.Join(f.root, classDir, name)
}

// write ends the content with the line feed that the kernel puts there.
func (f *fakeTree) write(name, text string) {
	f.t.Helper()
	f.check(os.MkdirAll(filepath.Dir(f.place(name)), 0o700))
	f.check(os.WriteFile(f.place(name), []byte(text+"\n"), 0o600))
}

func (f *fakeTree) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func options(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		key, text, _ := strings.Cut(w, "=")
		out[key] = blanks(text)
	}
	return out
}

func blanks(text string) string { return strings.NewReplacer("__", "_", "_", " ").Replace(text) }

func value(opt map[string]string, key, usual string) string {
	if v, ok := opt[key]; ok {
		return v
	}
	return usual
}

// TestFakeTree holds the layout that the golden tables rest on against what a kernel shows.
func TestFakeTree(t *testing.T) {
	root := newFakeTree(t, "hca mlx5_0 numa=1 uverbs=uverbs0\nport mlx5_0/1\ngid mlx5_0/1/0 192.0.2.7 eth0 v2")
	got := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, root)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			got[name] = "-> " + target
			return err
		case d.Type().IsRegular() && !strings.Contains(name, "/gids/"):
			text, err := os.ReadFile(p)
			got[name] = strings.TrimSuffix(string(text), "\n")
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const hardware = "/sys/devices/pci0000:00/0000:01:00.0"
	want := map[string]string{
		"/sys/class/infiniband/mlx5_0":                            "-> ../../devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0",
		"/sys/class/infiniband_verbs/uverbs0/ibdev":               "mlx5_0",
		"/dev/infiniband/uverbs0":                                 "",
		hardware + "/numa_node":                                   "1",
		hardware + "/infiniband/mlx5_0/device":                    "-> ../../../0000:01:00.0",
		hardware + "/infiniband/mlx5_0/node_type":                 "1: CA",
		hardware + "/infiniband/mlx5_0/ports/1/state":             "4: ACTIVE",
		hardware + "/infiniband/mlx5_0/ports/1/link_layer":        "Ethernet",
		hardware + "/infiniband/mlx5_0/ports/1/rate":              "400 Gb/sec (4X NDR)",
		hardware + "/infiniband/mlx5_0/ports/1/lid":               "0x0",
		hardware + "/infiniband/mlx5_0/ports/1/pkeys/0":           "0xffff",
		hardware + "/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0": "eth0",
		hardware + "/infiniband/mlx5_0/ports/1/gid_attrs/types/0": "RoCE v2",
	}
	if !maps.Equal(got, want) {
		t.Errorf("tree\n%v\nwant\n%v", got, want)
	}
}
