package master

import (
	"fmt"
	"time"
)

// checkLog refuses settings of logs and of the metadata server that cannot work.
func (c *Config) checkLog() error {
	if c.SlowCall < 0 || c.SlowCall > time.Hour {
		return fmt.Errorf("--slow_call_ms=%d is outside 0..%d", c.SlowCall.Milliseconds(), time.Hour.Milliseconds())
	}
	_, err := readMetadataToken(c.MetadataTokenFile)
	return err
}

// addLog lists the same settings.
func (c *Config) addLog(add func(name string, value any)) {
	add("slow_call_ms", c.SlowCall.Milliseconds())
	add("enable_pprof", c.Pprof)
	add("enable_metric_reporting", c.Reporting)
	if c.MetadataTokenFile != "" {
		add(flagMetadataToken, c.MetadataTokenFile)
	}
}
