package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"mooncake/internal/gflag"
	"mooncake/master"
)

// TestFlagsWithoutEffect warns of flags that mean nothing beside the others, all of them.
func TestFlagsWithoutEffect(t *testing.T) {
	for args, words := range map[string][]string{
		"":                             nil,
		"--ha_ack=async --enable_ha":   nil,
		"--ha_ack=async":               {"--ha_ack=async", "--enable_ha"},
		"--ha_ack=async --data_dir=/d": {"--ha_ack=async", "--journal_sync"},
		"--ha_ack=async --client_ttl=3 --client_active_ttl_sec=4": {"--ha_ack=async", "--client_ttl=3"},
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		cfg, opts := master.DefaultConfig(), options{}
		addFlags(fs, &cfg, &opts)
		if _, err := gflag.Parse(fs, strings.Fields(args), gflag.Program{Name: newName}); err != nil {
			t.Fatal(err)
		}
		warning := settle(fs, &cfg, &opts)
		for _, word := range words {
			if !strings.Contains(warning, word) {
				t.Errorf("%q: warning %q does not name %s", args, warning, word)
			}
		}
		if len(words) == 0 && warning != "" {
			t.Errorf("%q: warning %q", args, warning)
		}
	}
}

// TestClientTTLFlags follows the three spellings of the liveness flags, as release 0.3.14 reads them.
func TestClientTTLFlags(t *testing.T) {
	for _, c := range []struct {
		args              string
		active, suspicion int // seconds
		warned            bool
	}{
		{"", 10, 20, false},
		{"--client_ttl=7", 7, 7, false},
		{"--client_active_ttl_sec=30", 30, 30, false},
		{"--client_active_ttl_sec=10", 10, 10, false}, // given, even if with the default
		{"--client_suspicion_ttl_sec=5", 10, 5, false},
		{"--client_ttl=3 --client_suspicion_ttl_sec=9", 3, 9, false},
		{"--client_ttl=3 --client_active_ttl_sec=4", 4, 4, true},
		{"--client_active_ttl_sec=4 --client_ttl=3", 4, 4, true},
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		cfg, opts := master.DefaultConfig(), options{}
		addFlags(fs, &cfg, &opts)
		if _, err := gflag.Parse(fs, strings.Fields(c.args), gflag.Program{Name: newName}); err != nil {
			t.Fatal(err)
		}
		warning := settle(fs, &cfg, &opts)
		if cfg.ClientActiveTTL != time.Duration(c.active)*time.Second || cfg.ClientSuspicionTTL != time.Duration(c.suspicion)*time.Second {
			t.Errorf("%q: active %v, suspicion %v; want %d s, %d s", c.args, cfg.ClientActiveTTL, cfg.ClientSuspicionTTL, c.active, c.suspicion)
		}
		if (warning != "") != c.warned {
			t.Errorf("%q: warning %q", c.args, warning)
		}
	}
}
