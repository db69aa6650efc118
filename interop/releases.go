package interop

import "strconv"

// Release is one published release of the Mooncake wheel, named by its minor number.
type Release int

// The releases whose clients are served.
const (
	R12 Release = 12 // 0.3.12.post1: a wire dialect of its own
	R13 Release = 13 // 0.3.13.post1
	R14 Release = 14 // 0.3.14: the dialect of 13 with compatible additions
)

// Releases lists every release, oldest first.
var Releases = []Release{R12, R13, R14}

// String is the short name used for directories and sub-tests.
func (r Release) String() string { return strconv.Itoa(int(r)) }

// Version is the full version of the wheel.
func (r Release) Version() string { return pins[r].version }

// pin says what one environment consists of. Everything the wheels pull in besides is held by testdata/constraints.txt.
type pin struct {
	version  string
	wheel    string   // package name on the Python package index
	extra    []string // runtime libraries the wheel links but does not bring
	cudaStub bool     // the wheel links the CUDA driver, which a machine without a GPU lacks
}

var pins = map[Release]pin{
	R12: {version: "0.3.12.post1", wheel: "mooncake-transfer-engine-non-cuda", extra: []string{"nvidia-cuda-runtime-cu12==12.9.79"}},
	R13: {version: "0.3.13.post1", wheel: "mooncake-transfer-engine-non-cuda"},
	R14: {version: "0.3.14", wheel: "mooncake-transfer-engine-cuda13", extra: []string{"nvidia-cuda-runtime==13.5.37"}, cudaStub: true},
}

// requirements are the arguments of pip for one release.
func (r Release) requirements() []string {
	p := pins[r]
	return append([]string{p.wheel + "==" + p.version, "numpy", "msgpack"}, p.extra...)
}
