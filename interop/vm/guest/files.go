package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mount makes the folder and mounts on it.
func mount(kind, source, target string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// mountKernel mounts what the kernel itself shows below root.
func mountKernel(root string) error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mount(m[0], m[0], root+m[1], 0, ""); err != nil {
			return err
		}
	}
	return nil
}

// loadModules loads everything in the folder in the order of the names. A kernel may have one built in already.
func loadModules(dir string) error {
	files, err := filepath.Glob(dir + "/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST && err != unix.ENODEV { // no such instructions on this processor
			return fmt.Errorf("load %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// portWait is how long the kernel may take to find the ports after their driver is loaded.
const portWait = 30 * time.Second

// openPort opens the port of this name.
func openPort(name string) (*os.File, error) {
	for waited := time.Duration(0); ; waited += 20 * time.Millisecond {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, path := range names {
			if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == name {
				device := filepath.Join("/dev", filepath.Base(filepath.Dir(path)))
				fd, err := unix.Open(device, unix.O_WRONLY|unix.O_CLOEXEC, 0)
				if err == nil {
					return os.NewFile(uintptr(fd), device), nil
				}
			}
		}
		if waited > portWait {
			return nil, fmt.Errorf("no port %s", name)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// enterHostTree makes the host's files the root, with a layer in memory over them.
func enterHostTree() error {
	if err := mount("9p", "host", "/low", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=524288,cache=loose"); err != nil {
		return err
	}
	if err := mount("tmpfs", "top", "/top", 0, "size=50%"); err != nil {
		return err
	}
	for _, d := range []string{"/top/upper", "/top/work"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	const layers = "lowerdir=/low,upperdir=/top/upper,workdir=/top/work,index=off,metacopy=off"
	if err := mount("overlay", "root", "/new", 0, layers); err != nil {
		return err
	}
	if err := mountKernel("/new"); err != nil {
		return err
	}
	for _, m := range [][3]string{
		{"tmpfs", "/new/run", "mode=755"},
		{"tmpfs", "/new/dev/shm", "mode=1777,size=80%"},
		{"devpts", "/new/dev/pts", "mode=620,ptmxmode=666"},
	} {
		if err := mount(m[0], m[0], m[1], 0, m[2]); err != nil {
			return err
		}
	}
	if err := syscall.Chroot("/new"); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := os.MkdirAll("/tmp", 0o1777); err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		_ = os.Symlink(target, "/dev/"+name) // the kernel does not make these
	}
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	return raiseLimits()
}

// raiseLimits: registered memory is locked memory, and a storm of connections wants descriptors.
func raiseLimits() error {
	const descriptors = 65536
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
		return err
	}
	all := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, all); err != nil {
		return err
	}
	return unix.Sethostname([]byte("rdmavm"))
}
