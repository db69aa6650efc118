package metrics

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// processMemory are the kernel's figures about this process, in bytes.
type processMemory struct {
	rss, rssPeak, rssAnon, rssFile, rssShmem, vsize, swap uint64
}

// readProcessMemory reads them where the kernel has them.
func readProcessMemory() (processMemory, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return processMemory{}, false
	}
	return parseProcessMemory(text), true
}

func parseProcessMemory(text []byte) processMemory {
	var m processMemory
	fields := map[string]*uint64{
		"VmRSS": &m.rss, "VmHWM": &m.rssPeak, "RssAnon": &m.rssAnon, "RssFile": &m.rssFile, "RssShmem": &m.rssShmem,
		"VmSize": &m.vsize, "VmSwap": &m.swap,
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		if to := fields[name]; to != nil {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
			if err == nil {
				*to = kib << 10
			}
		}
	}
	return m
}
