//go:build linux && cgo && !nordma

package rdma

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestLibraryWithoutDevice asks the real library for a device that no host has. It is all of it that can be run anywhere; the
// rest runs where there are devices.
func TestLibraryWithoutDevice(t *testing.T) {
	if !Available() {
		t.Error("built with the library, and says it is not")
	}
	_, err := OpenFabric(Config{Rails: []Verdict{{Device: "no such device", Port: 1}}})
	var failed *VerbError
	if !errors.As(err, &failed) || failed.Device != "no such device" && failed.Verb != "ibv_get_device_list" {
		t.Errorf("%v", err)
	}
	if errors.Is(err, syscall.ENODEV) && !strings.Contains(err.Error(), "ibv_open_device of no such device: no such device (errno 19)") {
		t.Error(err)
	}
}
