package interop

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestFencing runs the stopped writers of package replication on Debian's etcd with three members: none of them writes a
// record after the next leader's key, and without the condition on that key they do.
func TestFencing(t *testing.T) {
	r := newRig(t)
	_, etcd := startEtcds(t, r)
	p, err := r.Start("stopped writers", exec.Command("go", "test", "-count=1", "-v", "-timeout", "20m", "-run", "^TestFrozenWriter$", "mooncake/replication",
		"-args", "-etcd", etcd, "-runs", strconv.Itoa(repeat(2, 20))))
	if err != nil {
		t.Fatal(err)
	}
	code, err := p.ExitCode(20 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`.* records before, .*`).FindAllString(p.Log(), -1) {
		t.Log(line)
	}
	if code != 0 {
		t.Errorf("the stopped writers end with %d", code)
	}
}
