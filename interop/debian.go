package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Need is something of the system that a part of the project uses, and the Debian package that brings it.
type Need struct {
	Package string
	Why     string
	present func() bool
}

// WheelNeeds are the shared libraries that the wheels of these releases link. TCP alone needs them too.
func WheelNeeds(releases ...Release) []Need {
	needs := []Need{
		{"python3-venv", "virtual environments", hasVenv},
		{"libibverbs1", "linked by the wheels", library("libibverbs.so.1")},
		{"libnuma1", "linked by the wheels", library("libnuma.so.1")},
		{"libcurl4", "linked by the wheels", library("libcurl.so.4")},
	}
	for _, r := range releases {
		if pins[r].cudaStub {
			needs = append(needs,
				Need{"ibverbs-providers", "linked by the wheel " + r.Version(), library("libmlx5.so.1")},
				Need{"gcc", "compiles a stand-in for the CUDA driver library", command("cc", "gcc")},
				Need{"libc6-dev", "compiles a stand-in for the CUDA driver library", header("stdlib.h")})
		}
	}
	return needs
}

// TestNeeds are the further packages of the whole test run.
func TestNeeds() []Need {
	return append(append(guestNeeds(), browserNeeds()...), []Need{
		{"gcc", "the race detector of go test", command("cc", "gcc")},
		{"libc6-dev", "the race detector of go test", header("stdlib.h")},
		{"etcd-server", "tests with metadata in etcd", command("etcd")},
		{"systemd", "checks the units in deploy", command("systemd-analyze")},
	}...)
}

// guestNeeds are for the tests over RDMA: a build that speaks it, and the emulated machine. Its kernel is fetched besides.
func guestNeeds() []Need {
	return []Need{
		{"libibverbs-dev", "compiles the RDMA part of the segment daemon", HaveVerbs},
		{"ibverbs-providers", "software RoCE for the tests over RDMA", provider("rxe")},
		{"qemu-system-x86", "the emulated machine of the tests over RDMA", command("qemu-system-x86_64")},
		{"iproute2", "sets up network and devices of the emulated machine", all(command("ip"), command("rdma"))},
		{"xz-utils", "unpacks the kernel of the emulated machine", command("xz")},
	}
}

// HaveVerbs reports whether what the RDMA part is compiled with is installed.
func HaveVerbs() bool { return header("infiniband/verbs.h")() }

// Missing keeps the needs that are not met, one for each package.
func Missing(needs []Need) []Need {
	var out []Need
	for _, n := range needs {
		known := slices.ContainsFunc(out, func(o Need) bool { return o.Package == n.Package })
		if !known && !n.present() {
			out = append(out, n)
		}
	}
	return out
}

// InstallDebian installs the packages of the given needs. The caller has named them to the user before.
func InstallDebian(ctx context.Context, log io.Writer, needs []Need) error {
	if len(needs) == 0 {
		return nil
	}
	names := make([]string, len(needs))
	for i, n := range needs {
		names[i] = n.Package
	}
	line := "apt-get install -y --no-install-recommends " + strings.Join(names, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing Debian packages; run this as root: %s", line)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing libraries and no apt-get here; on Debian the command would be: %s", line)
	}
	// The lists may be stale or absent on a fresh machine, so a first failure is answered by fetching them once.
	if aptInstall(ctx, log, names) == nil {
		return nil
	}
	if err := apt(ctx, log, "update"); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	if err := aptInstall(ctx, log, names); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}

func aptInstall(ctx context.Context, log io.Writer, names []string) error {
	return apt(ctx, log, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, names...)...)
}

func apt(ctx context.Context, log io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(lastLines(out, 5)))
	}
	fmt.Fprintf(log, "  apt-get %s: done\n", args[0])
	return nil
}

// lastLines is the end of a program's output, for an error message.
func lastLines(out []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// library reports whether the dynamic linker finds a shared library of this name.
func library(soname string) func() bool {
	return func() bool {
		for _, ldconfig := range []string{"ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"} {
			if out, err := exec.Command(ldconfig, "-p").Output(); err == nil {
				return bytes.Contains(out, []byte("\t"+soname+" "))
			}
		}
		for _, pattern := range []string{"/lib/*/", "/usr/lib/*/", "/usr/lib/", "/usr/lib64/"} {
			if found, _ := filepath.Glob(pattern + soname); len(found) > 0 {
				return true
			}
		}
		return false
	}
}

func command(names ...string) func() bool {
	return func() bool {
		for _, n := range names {
			if _, err := exec.LookPath(n); err == nil {
				return true
			}
		}
		return false
	}
}

func all(present ...func() bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(present, func(p func() bool) bool { return !p() })
	}
}

// provider reports whether libibverbs finds its part for a kind of device.
func provider(kind string) func() bool {
	return func() bool {
		found, _ := filepath.Glob("/usr/lib/*/libibverbs/lib" + kind + "-rdmav*.so")
		return len(found) > 0
	}
}

func header(name string) func() bool {
	return func() bool {
		_, err := os.Stat("/usr/include/" + name)
		return err == nil
	}
}

func hasVenv() bool {
	return exec.Command(pythonCommand(), "-c", "import venv, ensurepip").Run() == nil
}

// pythonCommand is the interpreter the environments are made from; the variable PYTHON overrides it.
func pythonCommand() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	return "python3"
}
