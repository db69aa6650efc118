//go:build !linux || !cgo || nordma

package rdma

import (
	"errors"
	"testing"
)

// TestNotBuilt says so in a build without the library.
func TestNotBuilt(t *testing.T) {
	_, err := OpenFabric(Config{Rails: []Verdict{{Device: "mlx5_0", Port: 1}}})
	if Available() || !errors.Is(err, ErrNotBuilt) {
		t.Errorf("available %v, %v", Available(), err)
	}
}
