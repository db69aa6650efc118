package interop

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PortHeld reports whether a TCP port of this machine is taken, and by whom as far as /proc tells.
func PortHeld(port int) (by string, held bool) {
	if free(port) {
		return "", false
	}
	inodes := socketsOn(port)
	if len(inodes) == 0 {
		return "a socket that is closing", true
	}
	owners, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range owners {
		target, err := os.Readlink(link)
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if err != nil || !isSocket || !inodes[strings.TrimSuffix(inode, "]")] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid), true
	}
	return "a process of another user", true
}

// socketsOn lists the inodes of sockets whose own port this is, listening or connected.
func socketsOn(port int) map[string]bool {
	out := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port && fields[9] != "0" {
				out[fields[9]] = true
			}
		}
		f.Close()
	}
	return out
}
