package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// classDir is where the kernel lists RDMA devices, from the root of the tree.
const classDir = "sys/class/infiniband"

// Scan lists the RDMA devices below root, which is "/" or a tree that looks like it, by name. A host without any has an
// empty list and no error. What cannot be read of one device is told in its Fault and does not hide the others; nothing
// outside root is looked at, whatever links say.
func Scan(root string) ([]Device, error) {
	tree, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("cannot look for RDMA devices: %w", err)
	}
	defer tree.Close()
	names, err := list(tree, classDir, limits.RDMADevices)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot look for RDMA devices in %s: %w", path.Join(root, classDir), cause(err))
	}
	nodes := uverbs(tree)
	devices := make([]Device, 0, len(names))
	for _, name := range names {
		if _, err := parseName(name); err != nil {
			continue // nothing that a driver registers, and nothing that could be published
		}
		devices = append(devices, scanDevice(tree, name, nodes[name]))
	}
	slices.SortFunc(devices, func(a, b Device) int { return compareNames(a.Name, b.Name) })
	return devices, nil
}

// scanDevice reads one device. uverbs is the name of its character device, empty where unknown.
func scanDevice(tree *os.Root, name, uverbs string) Device {
	d := Device{Name: name, NUMA: -1}
	dir := path.Join(classDir, name)
	sub, err := tree.OpenRoot(dir)
	if err != nil {
		d.Fault = fmt.Sprintf("cannot be read: %v", cause(err))
		return d
	}
	defer sub.Close()
	if d.NodeType, err = read(sub, "node_type", parseNumbered); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.Fault = err.Error()
	}
	if uverbs != "" {
		if _, err := tree.Stat(path.Join("dev/infiniband", uverbs)); errors.Is(err, fs.ErrNotExist) {
			d.Fault = fmt.Sprintf("no /dev/infiniband/%s: this container was not given the device", uverbs)
		}
	}
	d.NUMA = scanNode(tree, dir)
	if d.NUMA >= 0 {
		// Without distances every other node is equally far.
		d.Distances, _ = read(tree, fmt.Sprintf("sys/devices/system/node/node%d/distance", d.NUMA), parseDistances)
	}
	_, err = tree.Lstat(path.Join(dir, "device/physfn"))
	d.Virtual = err == nil
	ports, err := indices(sub, "ports", limits.RDMAPorts)
	if err != nil && d.Fault == "" {
		d.Fault = err.Error()
	}
	for _, number := range ports {
		d.Ports = append(d.Ports, scanPort(sub, number))
	}
	return d
}

// scanNode finds the NUMA node of a device. Soft RoCE has no hardware behind it, and a part of an adapter (a sub-function)
// has the node one level up.
func scanNode(tree *os.Root, dir string) int {
	for _, name := range []string{"device/numa_node", "device/../numa_node"} {
		if node, err := read(tree, dir+"/"+name, parseNode); err == nil {
			return node
		}
	}
	return -1
}

// scanPort reads one port. Its first fault is kept.
func scanPort(device *os.Root, number int) Port {
	p := Port{Number: number}
	sub, err := device.OpenRoot("ports/" + strconv.Itoa(number))
	if err != nil {
		p.Fault = fmt.Sprintf("cannot be read: %v", cause(err))
		return p
	}
	defer sub.Close()
	keep := func(err error) {
		if err != nil && p.Fault == "" {
			p.Fault = err.Error()
		}
	}
	p.State, err = read(sub, "state", parseNumbered)
	keep(err)
	p.LinkLayer, err = read(sub, "link_layer", parseWord)
	keep(err)
	p.RateGbps, _ = read(sub, "rate", parseRate) // it ranks, nothing more: a port that is down has none
	if p.LID, err = read(sub, "lid", parseHex16); err != nil && !errors.Is(err, fs.ErrNotExist) {
		keep(err)
	}
	p.GIDs, err = scanGIDs(sub)
	keep(err)
	p.PKeys, err = scanPKeys(sub)
	keep(err)
	return p
}

// scanGIDs reads the filled entries of the GID table. The kernel fills the first free entry, so a long gap ends the search.
func scanGIDs(port *os.Root) ([]GIDEntry, error) {
	var out []GIDEntry
	last := -1
	err := readTable(port, "gids", limits.RDMAGIDs, parseGID, func(index int, gid GID) bool {
		if !gid.IsZero() {
			out = append(out, GIDEntry{Index: index, GID: gid})
			last = index
		}
		return index-last <= limits.RDMAGIDGap
	})
	for i := range out {
		// Both are unreadable where they do not apply: no interface on InfiniBand, no types in old kernels.
		at := strconv.Itoa(out[i].Index)
		out[i].Type, _ = read(port, "gid_attrs/types/"+at, parseGIDType)
		out[i].NetDev, _ = read(port, "gid_attrs/ndevs/"+at, parseNetDev)
	}
	return out, err
}

// scanPKeys reads the partition table. Some drivers show none on Ethernet, where there are no partitions.
func scanPKeys(port *os.Root) ([]uint16, error) {
	var out []uint16
	err := readTable(port, "pkeys", limits.RDMAPKeys, parseHex16, func(_ int, key uint16) bool {
		out = append(out, key)
		return true
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// readTable reads a folder with one file per entry, from 0 on until one is missing, bound is reached or more says no.
func readTable[T any](port *os.Root, name string, bound int, parse func(string) (T, error), more func(index int, v T) bool) error {
	dir, err := open(port, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, cause(err))
	}
	defer dir.Close()
	fd := int(dir.Fd())
	for index := range bound {
		v, err := readEntry(fd, strconv.Itoa(index), parse)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("%s/%d: %w", name, index, err)
		}
		if !more(index, v) {
			return nil
		}
	}
	return nil
}

// uverbs says which character device belongs to which RDMA device. sysfs is the host's while /dev is the container's, so a
// container sees devices that it was not given.
func uverbs(tree *os.Root) map[string]string {
	const dir = "sys/class/infiniband_verbs"
	names, err := list(tree, dir, limits.RDMADevices)
	if err != nil {
		return nil // an old kernel or a partial tree: opening will tell
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		if device, err := read(tree, path.Join(dir, name, "ibdev"), parseNodeName); err == nil {
			out[device] = name
		}
	}
	return out
}

// indices lists a folder whose entries are numbers, ascending.
func indices(at *os.Root, dir string, bound int) ([]int, error) {
	names, err := list(at, dir, bound)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, cause(err))
	}
	out := make([]int, 0, len(names))
	for _, name := range names {
		n, err := parseIndex(name, bound)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %q %w", dir, name, err)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// list names what a folder holds, at most bound entries.
func list(at *os.Root, dir string, bound int) ([]string, error) {
	f, err := open(at, dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(bound + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > bound {
		return nil, fmt.Errorf("more than %d entries", bound)
	}
	return names, nil
}

// read gives the parsed content of one attribute. The error begins with its name.
func read[T any](at *os.Root, name string, parse func(string) (T, error)) (T, error) {
	text, err := content(at, name, limits.RDMASysfsFileBytes)
	if err == nil {
		var v T
		if v, err = parse(text); err == nil {
			return v, nil
		}
	}
	var none T
	return none, fmt.Errorf("%s: %w", name, cause(err))
}

// readEntry is read for a file that lies directly in an opened folder, where a link has no business. It takes three system
// calls: tables are long and almost all of their entries empty.
func readEntry[T any](dir int, name string, parse func(string) (T, error)) (T, error) {
	var none T
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	var text [limits.RDMASysfsFileBytes + 1]byte
	n, err := unix.Read(fd, text[:])
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return none, err
	case n == len(text):
		return none, fmt.Errorf("is longer than %d bytes", limits.RDMASysfsFileBytes)
	}
	return parse(string(text[:n]))
}

// content reads a whole file of at most bound bytes.
func content(at *os.Root, name string, bound int) (string, error) {
	f, err := open(at, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(bound)+1))
	if err != nil {
		return "", err
	}
	if len(text) > bound {
		return "", fmt.Errorf("is longer than %d bytes", bound)
	}
	return string(text), nil
}

// open never waits for the other end of a pipe that lies where an attribute should.
func open(at *os.Root, name string) (*os.File, error) {
	return at.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// cause drops operation and path of a file error: the texts here name the attribute themselves.
func cause(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return file.Err
	}
	return err
}

// compareNames orders names as people do: mlx5_2 before mlx5_10.
func compareNames(a, b string) int {
	headA, numberA := splitNumber(a)
	headB, numberB := splitNumber(b)
	return cmp.Or(cmp.Compare(headA, headB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}

func splitNumber(name string) (head string, number uint64) {
	end := len(name)
	for end > 0 && name[end-1] >= '0' && name[end-1] <= '9' {
		end--
	}
	number, _ = strconv.ParseUint(name[end:], 10, 64) // without digits, or with too many, the text decides
	return name[:end], number
}
