package vm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// recipe changes when what is kept of the kernel package changes; another recipe unpacks anew.
const recipe = "1"

// kernel is what the cache holds of one kernel package.
type kernel struct {
	image   string // ELF image, or the compressed one where its compression is unknown here
	modules string // archive with the modules
}

// Ready reports whether the cache holds a kernel, so that callers can name what will be fetched first.
func (m *Machine) Ready() bool {
	_, ok := m.cached()
	return ok
}

// cached finds the newest kernel in the cache.
func (m *Machine) cached() (kernel, bool) {
	found, _ := filepath.Glob(filepath.Join(m.dir(), "linux-image-*."+recipe))
	if len(found) == 0 {
		return kernel{}, false
	}
	dir := slices.Max(found)
	return kernel{image: filepath.Join(dir, "kernel"), modules: filepath.Join(dir, "modules.cpio")}, true
}

func (m *Machine) dir() string { return filepath.Join(m.Cache, "vm") }

// Prepare fetches the kernel unless the cache has one. Several processes may do so at once; the first to finish counts.
func (m *Machine) Prepare(ctx context.Context) error {
	if m.Ready() {
		return nil
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the emulated machine is an amd64 one and takes its kernel from this system, which is %s", runtime.GOARCH)
	}
	if err := os.MkdirAll(m.dir(), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(m.dir(), "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	name, err := m.download(ctx, work)
	if err != nil {
		return err
	}
	made := filepath.Join(work, "made")
	if err := keep(ctx, work, made); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = os.Rename(made, filepath.Join(m.dir(), name+"."+recipe))
	if m.Ready() {
		return nil // ours, or another process was faster
	}
	return err
}

// versioned is the package behind Debian's generic kernel. The cloud variant has no rxe.
var versioned = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9]\S*-amd64)$`)

// download fetches the kernel package into dir and unpacks it below dir/root.
func (m *Machine) download(ctx context.Context, dir string) (name string, err error) {
	find := func() string {
		out, _ := exec.CommandContext(ctx, "apt-cache", "depends", "linux-image-amd64").Output()
		if found := versioned.FindSubmatch(out); found != nil {
			return string(found[1])
		}
		return ""
	}
	fetch := func() error {
		if name = find(); name == "" {
			return errors.New("the package lists know no linux-image-amd64")
		}
		fmt.Fprintf(m.log(), "  fetching the package %s (unpacked into the cache, not installed)\n", name)
		return command(ctx, dir, "apt-get", "download", "-qq", name)
	}
	if err = fetch(); err != nil {
		// Lists may be missing or stale, on a fresh machine or long after it was made.
		if updated := command(ctx, dir, "apt-get", "update", "-qq"); updated != nil {
			return "", fmt.Errorf("%w; and then: %w", err, updated)
		}
		if err = fetch(); err != nil {
			return "", err
		}
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(found) != 1 {
		return "", fmt.Errorf("apt-get download left %d packages", len(found))
	}
	return name, command(ctx, dir, "dpkg-deb", "-x", found[0], filepath.Join(dir, "root"))
}

// keep writes the image and the archive of modules of an unpacked package into a new folder.
func keep(ctx context.Context, work, made string) error {
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	images, _ := filepath.Glob(filepath.Join(work, "root", "boot", "vmlinuz-*"))
	if len(images) != 1 {
		return fmt.Errorf("%d kernels in one package", len(images))
	}
	packed, err := os.ReadFile(images[0])
	if err != nil {
		return err
	}
	image, err := unpackImage(ctx, packed)
	if err != nil {
		image = packed // it unpacks itself, which takes seconds in emulation
	}
	if err := os.WriteFile(filepath.Join(made, "kernel"), image, 0o644); err != nil {
		return err
	}
	trees, _ := filepath.Glob(filepath.Join(work, "root", "lib", "modules", "*"))
	if len(trees) == 0 {
		trees, _ = filepath.Glob(filepath.Join(work, "root", "usr", "lib", "modules", "*"))
	}
	if len(trees) != 1 {
		return fmt.Errorf("%d folders of modules in one package", len(trees))
	}
	modules, err := openModules(trees[0])
	if err != nil {
		return err
	}
	var archive cpio
	if err := modules.archive(&archive); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(made, "modules.cpio"), archive.end(), 0o644)
}

// Offsets in the header of a bzImage, from the documented x86 boot protocol.
const (
	setupSectors  = 0x1f1 // one byte: sectors of 512 bytes before the protected-mode part, less one
	payloadOffset = 0x248 // four bytes, from the protected-mode part
	payloadLength = 0x24c // four bytes
)

// unpackImage takes the ELF image out of a bzImage; QEMU starts that directly.
func unpackImage(ctx context.Context, packed []byte) ([]byte, error) {
	if len(packed) < payloadLength+4 {
		return nil, errors.New("too short for a kernel")
	}
	start := (int(packed[setupSectors]) + 1) * 512
	offset := start + int(binary.LittleEndian.Uint32(packed[payloadOffset:]))
	end := offset + int(binary.LittleEndian.Uint32(packed[payloadLength:]))
	const sizeBytes = 4 // the unpacked size follows the compressed stream
	if offset+sizeBytes > end || end > len(packed) {
		return nil, errors.New("the kernel's payload lies outside the file")
	}
	payload := packed[offset : end-sizeBytes]
	var tool []string
	switch {
	case bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")):
		tool = []string{"xz", "-dc"}
	case bytes.HasPrefix(payload, []byte("\x28\xb5\x2f\xfd")):
		tool = []string{"zstd", "-dc"}
	case bytes.HasPrefix(payload, []byte("\x1f\x8b")):
		tool = []string{"gzip", "-dc"}
	default:
		return nil, errors.New("unknown compression of the kernel")
	}
	cmd := exec.CommandContext(ctx, tool[0], tool[1:]...)
	cmd.Stdin = bytes.NewReader(payload)
	image, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(tool, " "), err)
	}
	if !bytes.HasPrefix(image, []byte("\x7fELF")) {
		return nil, errors.New("the kernel's payload is no ELF image")
	}
	return image, nil
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// log is where progress is told.
func (m *Machine) log() io.Writer {
	if m.Log == nil {
		return io.Discard
	}
	return m.Log
}
