package interop

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed testdata/constraints.txt
var constraints []byte

// Environment is an installed wheel: an interpreter, the folder of the package and what the dynamic linker must be told.
type Environment struct {
	Release     Release
	Python      string // interpreter of the virtual environment
	Package     string // folder of the installed package; the wheel's own daemons lie here
	LibraryPath string // value for LD_LIBRARY_PATH, may be empty
}

// CacheDir is where everything lies that is fetched for tests and the demo: MOONCAKE_CACHE_DIR, else .cache in the root of the module.
func CacheDir() (string, error) {
	if dir := os.Getenv("MOONCAKE_CACHE_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".cache"), nil
}

// WheelsDir holds one environment for each release: MOONCAKE_WHEELS_DIR, else the folder wheels of the cache.
func WheelsDir() (string, error) {
	if dir := os.Getenv("MOONCAKE_WHEELS_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := CacheDir()
	return filepath.Join(cache, "wheels"), err
}

// ModuleRoot finds the folder with go.mod at or above the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod at or above the working directory")
		}
		dir = up
	}
}

// OpenEnvironment answers with the environment of a release if it is complete, so that callers can name what is missing first.
func OpenEnvironment(r Release) (*Environment, bool) {
	dir, err := WheelsDir()
	if err != nil {
		return nil, false
	}
	dir = filepath.Join(dir, r.String())
	mark, err := os.ReadFile(filepath.Join(dir, "complete"))
	if err != nil || string(mark) != fingerprint(r, dir) {
		return nil, false
	}
	env, err := describe(r, dir)
	return env, err == nil
}

// PrepareEnvironment makes the environment of a release unless it is there already.
// Several processes may call it at once: one builds, the others wait.
func PrepareEnvironment(ctx context.Context, log io.Writer, r Release) (*Environment, error) {
	if env, ok := OpenEnvironment(r); ok {
		return env, nil
	}
	base, err := WheelsDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockFile(ctx, filepath.Join(base, r.String()+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if env, ok := OpenEnvironment(r); ok {
		return env, nil
	}
	dir := filepath.Join(base, r.String())
	fmt.Fprintf(log, "  setting up the wheel %s in %s\n", r.Version(), dir)
	env, err := build(ctx, r, dir)
	if err != nil {
		return nil, fmt.Errorf("wheel %s: %w", r.Version(), err)
	}
	return env, os.WriteFile(filepath.Join(dir, "complete"), []byte(fingerprint(r, dir)), 0o644)
}

func build(ctx context.Context, r Release, dir string) (*Environment, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := run(ctx, "", pythonCommand(), "-m", "venv", dir); err != nil {
		return nil, err
	}
	held := filepath.Join(dir, "constraints.txt")
	if err := os.WriteFile(held, constraints, 0o644); err != nil {
		return nil, err
	}
	pip := append([]string{"-m", "pip", "--disable-pip-version-check", "-q", "install", "-c", held}, r.requirements()...)
	if err := run(ctx, "", filepath.Join(dir, "bin", "python"), pip...); err != nil {
		return nil, err
	}
	env, err := describe(r, dir)
	if err != nil {
		return nil, err
	}
	if pins[r].cudaStub {
		if err := buildCUDAStub(ctx, env, filepath.Join(dir, "stub")); err != nil {
			return nil, err
		}
	}
	check := "import mooncake.store, mooncake.structured_object_store"
	return env, run(ctx, env.LibraryPath, env.Python, "-c", check)
}

// describe finds the parts of an installed environment.
func describe(r Release, dir string) (*Environment, error) {
	site, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(site) != 1 {
		return nil, fmt.Errorf("no site-packages below %s", dir)
	}
	var libs []string
	runtimes, _ := filepath.Glob(filepath.Join(site[0], "nvidia", "*", "lib", "libcudart.so.*"))
	for _, lib := range runtimes {
		libs = append(libs, filepath.Dir(lib))
	}
	if pins[r].cudaStub {
		libs = append(libs, filepath.Join(dir, "stub"))
	}
	return &Environment{
		Release: r, Python: filepath.Join(dir, "bin", "python"),
		Package: filepath.Join(site[0], "mooncake"), LibraryPath: strings.Join(libs, ":"),
	}, nil
}

// fingerprint changes whenever an environment has to be made anew: other pins, other interpreter, other place (a virtual
// environment holds absolute paths).
func fingerprint(r Release, dir string) string {
	h := sha256.New()
	python, _ := exec.LookPath(pythonCommand())
	version, _ := exec.Command(pythonCommand(), "--version").Output()
	fmt.Fprintln(h, r.requirements(), dir, python, string(version))
	h.Write(constraints)
	return hex.EncodeToString(h.Sum(nil))
}

func run(ctx context.Context, libraryPath, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if libraryPath != "" {
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraryPath)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name)+" "+strings.Join(args, " "), err, lastLines(out, 4))
	}
	return nil
}

// lockFile takes an exclusive lock that ends with the process.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
