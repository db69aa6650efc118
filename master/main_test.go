package master

import (
	"os"
	"testing"

	"github.com/dlclark/regexp2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	regexp2.StopTimeoutClock() // it would stop by itself some seconds after the last match
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}
