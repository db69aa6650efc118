package vm

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// wanted are the modules of the guest. Those the kernel has built in are left out.
var wanted = []string{
	"virtio_pci", "virtio_console", "virtio_rng", // the machine
	"9pnet_virtio", "9p", "overlay", // its files
	"veth", "bridge", "sch_netem", // its network
	"crc32_generic", "crc32_pclmul", "ib_uverbs", "rdma_ucm", "rdma_rxe", // its devices; rxe asks for crc32 by name
}

// mustHave is what no guest works without; a kernel that lacks it is the wrong one.
var mustHave = []string{"rdma_rxe", "9p", "overlay", "veth"}

// moduleTree finds modules and what they depend on below kernel/ of an unpacked package.
type moduleTree struct {
	paths map[string]string // name with underscores -> file
	order []string          // names, dependencies first
	seen  map[string]bool
}

func openModules(dir string) (*moduleTree, error) {
	t := &moduleTree{paths: map[string]string{}, seen: map[string]bool{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, _, isModule := strings.Cut(d.Name(), ".ko"); isModule && d.Type().IsRegular() {
			t.paths[moduleName(name)] = path
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, m := range mustHave {
		if t.paths[m] == "" {
			return nil, fmt.Errorf("the kernel has no module %s", m)
		}
	}
	return t, nil
}

// moduleName: files and dependencies spell the same module with - or with _.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// add appends a module after everything it needs.
func (t *moduleTree) add(name string) error {
	name = moduleName(name)
	path := t.paths[name]
	if path == "" || t.seen[name] {
		return nil // built in, or there already
	}
	t.seen[name] = true
	if strings.HasSuffix(path, ".xz") {
		if out, err := exec.Command("xz", "-d", path).CombinedOutput(); err != nil {
			return fmt.Errorf("xz -d %s: %w: %s", filepath.Base(path), err, out)
		}
		path = strings.TrimSuffix(path, ".xz")
		t.paths[name] = path
	}
	needs, err := moduleNeeds(path)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	for _, n := range needs {
		if err := t.add(n); err != nil {
			return err
		}
	}
	t.order = append(t.order, name)
	return nil
}

// moduleNeeds reads the dependencies that a module states about itself.
func moduleNeeds(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	var out []string
	for entry := range strings.SplitSeq(string(text), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			out = append(out, strings.Split(list, ",")...)
		}
	}
	return out, nil
}

// archive writes the wanted modules, numbered in the order of loading.
func (t *moduleTree) archive(out *cpio) error {
	for _, m := range wanted {
		if err := t.add(m); err != nil {
			return err
		}
	}
	out.dir(ModulesDir)
	for i, name := range t.order {
		text, err := os.ReadFile(t.paths[name])
		if err != nil {
			return err
		}
		out.file(fmt.Sprintf("%s/%03d-%s.ko", ModulesDir, i, name), 0o644, text)
	}
	return nil
}
