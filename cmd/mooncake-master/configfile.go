package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"mooncake/internal/conffile"
)

// fileKeys are the keys of configuration files as the published masters have them. What they know no key for is given by flags
// only. Durations may be numbers.
var fileKeys = conffile.Keys{
	Names:     map[string]string{"client_live_ttl_sec": flagClientTTL},
	FlagsOnly: []string{flagClientTTL, flagPort, flagConfigPath, "max_threads", "use_mmap_arena_allocator", "mmap_arena_pool_size", "check_config"},
	Loose:     []string{"default_kv_lease_ttl", "default_kv_soft_pin_ttl", "max_kv_soft_pin_ttl"},
}

// readConfigFile sets the flags that the file names and the command line does not, and lists the keys without effect.
func readConfigFile(fs *pflag.FlagSet, path string) (without []string, err error) {
	without, err = conffile.Apply(fs, path, fileKeys)
	if err != nil {
		return nil, fmt.Errorf("--%s=%s: %w", flagConfigPath, path, err)
	}
	return without, nil
}
