package descriptor

import (
	"testing"
)

func TestX(t *testing.T) {}
