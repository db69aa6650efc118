package interop

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// driverFunction is how functions of the CUDA driver library are named: cuInit, cuMemAlloc_v2, never cudaMalloc.
var driverFunction = regexp.MustCompile(`^cu[A-Z]\w*$`)

// noDevice is what every function of the stand-in answers: CUDA_ERROR_NO_DEVICE.
const noDevice = 100

// buildCUDAStub compiles a stand-in for libcuda.so.1 holding exactly the functions that the wheel's files import.
// On a machine without a GPU there is no driver library, and the wheel would not even load.
func buildCUDAStub(ctx context.Context, env *Environment, dir string) error {
	names, err := importedDriverFunctions(env.Package)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var source bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&source, "int %s(void) { return %d; }\n", n, noDevice)
	}
	file := filepath.Join(dir, "cuda.c")
	if err := os.WriteFile(file, source.Bytes(), 0o644); err != nil {
		return err
	}
	compiler := "cc"
	if !command("cc")() {
		compiler = "gcc"
	}
	return run(ctx, "", compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", filepath.Join(dir, "libcuda.so.1"), file)
}

func importedDriverFunctions(pkg string) ([]string, error) {
	entries, err := os.ReadDir(pkg)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		file, err := elf.Open(filepath.Join(pkg, e.Name()))
		if err != nil {
			continue // a script or a folder
		}
		symbols, _ := file.ImportedSymbols()
		file.Close()
		for _, s := range symbols {
			if driverFunction.MatchString(s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
