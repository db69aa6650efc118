package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestLogFormats writes the same events in both forms: one line each, in JSON one object each, and what repeats has a sum.
func TestLogFormats(t *testing.T) {
	for _, format := range []string{formatConsole, formatJSON} {
		var out bytes.Buffer
		log, stop := logger(&out, zap.NewAtomicLevel(), format)
		log.Info("an event", zap.String("key", "a\nb"), zap.Int("n", 1))
		for range 5 {
			log.Warn("again", zap.String("peer", "x"))
		}
		log.Debug("not to be seen")
		stop()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 3 || !strings.Contains(lines[2], `"repeated":4`) && !strings.Contains(lines[2], `"repeated": 4`) {
			t.Errorf("%s: %q", format, lines)
		}
		for _, line := range lines {
			var fields map[string]any
			err := json.Unmarshal([]byte(line), &fields)
			if (err == nil) != (format == formatJSON) {
				t.Errorf("%s: %s: %v", format, line, err)
			}
			if err == nil && (fields["time"] == nil || fields["msg"] == nil || fields["level"] == nil) {
				t.Errorf("%s: no time, text or level", line)
			}
		}
	}
}

// TestLogFlags refuses values that mean nothing, with the flag's name, in one line.
func TestLogFlags(t *testing.T) {
	for args, flag := range map[string]string{
		"--log_format=xml":                                   "--log_format",
		"--slow_call_ms=-1":                                  "--slow_call_ms",
		"--slow_call_ms=99999999":                            "--slow_call_ms",
		"--http_metadata_server_token_file=/no/such/file":    "--http_metadata_server_token_file",
		"--enable_pprof=perhaps":                             "enable_pprof",
		"--slow_call_ms=soon":                                "slow_call_ms",
		"--enable_metric_reporting=maybe --log_format=json ": "enable_metric_reporting",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(newName, append(strings.Fields(args), "--check_config"), &stdout, &stderr); code != 1 {
			t.Errorf("%s: code %d", args, code)
		}
		if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, flag) {
			t.Errorf("%s: %q", args, text)
		}
	}
}
