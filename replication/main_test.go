package replication

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the process of a writer, see TestFrozenWriter.
func TestMain(m *testing.M) {
	if os.Getenv(writerEtcd) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := writeUntilDeposed(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
