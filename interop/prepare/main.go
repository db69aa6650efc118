// Command prepare names, and then installs, what the tests or the demo need on a machine with Go and Python only.
//
//	go run ./interop/prepare demo   the wheel 0.3.13 and the libraries it links
//	go run ./interop/prepare test   three wheels, etcd, a C compiler, libibverbs, QEMU and a kernel for it, Chromium, and the tools
//	go run ./interop/prepare tools  staticcheck, gofumpt, gotestsum
//
// Everything comes from Debian's archive, the Python package index and the Go module proxy; what is there already is left
// alone. -n only names.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"mooncake/interop"
)

// goTool is a program around the tests that is built into the cache.
type goTool struct{ name, module, pkg, version string }

var goTools = []goTool{
	{"staticcheck", "honnef.co/go/tools", "honnef.co/go/tools/cmd/staticcheck", "v0.8.2"},
	{"gofumpt", "mvdan.cc/gofumpt", "mvdan.cc/gofumpt", "v0.12.0"},
	{"gotestsum", "gotest.tools/gotestsum", "gotest.tools/gotestsum", "v1.13.0"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	onlyName := flag.Bool("n", false, "name what is missing, install nothing")
	flag.Parse()
	if err := prepare(ctx, os.Stdout, flag.Arg(0), *onlyName); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func prepare(ctx context.Context, out io.Writer, what string, onlyName bool) error {
	cache, err := interop.CacheDir()
	if err != nil {
		return err
	}
	var releases []interop.Release
	var needs []interop.Need
	var tools []goTool
	switch what {
	case "demo":
		releases = []interop.Release{interop.R13}
		needs = interop.WheelNeeds(releases...)
	case "test":
		releases = interop.Releases
		needs = append(interop.WheelNeeds(releases...), interop.TestNeeds()...)
		tools = goTools
	case "tools":
		tools = goTools
	default:
		return fmt.Errorf("want the word demo, test or tools, not %q", what)
	}
	bin := filepath.Join(cache, "bin")
	needs, releases, tools = interop.Missing(needs), absentWheels(releases), absentTools(bin, tools)
	machine, err := interop.GuestMachine(out)
	if err != nil {
		return err
	}
	wantKernel := what == "test" && !machine.Ready()
	name(out, cache, needs, releases, tools, wantKernel)
	if onlyName {
		return nil
	}
	if err := interop.InstallDebian(ctx, out, needs); err != nil {
		return err
	}
	for _, t := range tools {
		cmd := exec.CommandContext(ctx, "go", "install", t.pkg+"@"+t.version)
		cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go install %s@%s: %w: %s", t.pkg, t.version, err, text)
		}
	}
	if wantKernel {
		if err := machine.Prepare(ctx); err != nil {
			return err
		}
	}
	for _, r := range releases {
		if _, err := interop.PrepareEnvironment(ctx, out, r); err != nil {
			return err
		}
	}
	return nil
}

// name says what will be installed, before anything is.
func name(out io.Writer, cache string, needs []interop.Need, releases []interop.Release, tools []goTool, kernel bool) {
	if len(needs)+len(releases)+len(tools) == 0 && !kernel {
		fmt.Fprintf(out, "Nothing to install: everything needed is there (cache: %s).\n", cache)
		return
	}
	fmt.Fprintln(out, "Will be installed now:")
	for _, n := range needs {
		fmt.Fprintf(out, "  Debian package %-18s %s\n", n.Package, n.Why)
	}
	if kernel {
		fmt.Fprintf(out, "  Debian kernel  %-18s for an emulated machine: unpacked into %s, not installed\n", "linux-image-amd64", cache)
	}
	for _, t := range tools {
		fmt.Fprintf(out, "  Go tool        %-18s %s, into %s\n", t.name, t.version, filepath.Join(cache, "bin"))
	}
	wheels, err := interop.WheelsDir()
	if err != nil {
		wheels = cache
	}
	for _, r := range releases {
		fmt.Fprintf(out, "  Python wheel   %-18s and what it requires from the Python package index, into %s\n",
			"mooncake "+r.Version(), wheels)
	}
}

func absentWheels(releases []interop.Release) []interop.Release {
	var out []interop.Release
	for _, r := range releases {
		if _, ok := interop.OpenEnvironment(r); !ok {
			out = append(out, r)
		}
	}
	return out
}

// absentTools asks each binary which version it was built from.
func absentTools(bin string, tools []goTool) []goTool {
	var out []goTool
	for _, t := range tools {
		text, err := exec.Command("go", "version", "-m", filepath.Join(bin, t.name)).Output()
		if err != nil || !strings.Contains(string(text), "\tmod\t"+t.module+"\t"+t.version+"\t") {
			out = append(out, t)
		}
	}
	return out
}
