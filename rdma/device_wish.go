package rdma

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// ParseWish reads the pins: the value of --device_name (device names with commas between, empty for the best device), and
// from the environment MC_IB_PORT, MC_GID_INDEX (or NCCL_IB_GID_INDEX; -1 is the best entry) and MC_PKEY_INDEX. Where the memory lies is for the
// caller to add.
func ParseWish(names string, getenv func(string) string) (Wish, error) {
	w := Wish{NUMA: -1, GIDIndex: -1}
	if strings.TrimSpace(names) != "" {
		for name := range strings.SplitSeq(names, ",") {
			w.Names = append(w.Names, strings.TrimSpace(name))
		}
	}
	const unset = -1
	port, err := envNumber(getenv, "MC_IB_PORT", 1, limits.RDMAPorts, unset)
	if err != nil {
		return Wish{}, err
	}
	w.Port = max(port, 0)
	gid := "MC_GID_INDEX"
	if getenv(gid) == "" {
		gid = "NCCL_IB_GID_INDEX"
	}
	if w.GIDIndex, err = envNumber(getenv, gid, unset, limits.RDMAGIDIndexMax, unset); err != nil {
		return Wish{}, err
	}
	if w.PKeyIndex, err = envNumber(getenv, "MC_PKEY_INDEX", 0, limits.RDMAPKeys-1, 0); err != nil {
		return Wish{}, err
	}
	return w, w.validate()
}

// ParseClasses reads how our packets are to be treated on their way: MC_IB_TC, the traffic class, and MC_IB_SL, the service
// level; 0 where they are not set.
func ParseClasses(getenv func(string) string) (trafficClass, serviceLevel int, err error) {
	if trafficClass, err = envNumber(getenv, "MC_IB_TC", 0, limits.RDMATrafficClassMax, 0); err != nil {
		return 0, 0, err
	}
	serviceLevel, err = envNumber(getenv, "MC_IB_SL", 0, limits.RDMAServiceLevelMax, 0)
	return trafficClass, serviceLevel, err
}

// envNumber reads a number within bounds from the environment.
func envNumber(getenv func(string) string, name string, least, most, unset int) (int, error) {
	text := strings.TrimSpace(getenv(name))
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%s: want a number from %d to %d", name, shorten(text), least, most)
	}
	return n, nil
}

// validate refuses what no tree can fulfil.
func (w *Wish) validate() error {
	switch {
	case len(w.Names) > limits.RDMANamesPinned:
		return fmt.Errorf("--device_name names %d devices, at most %d can be published", len(w.Names), limits.RDMANamesPinned)
	case w.Port < 0 || w.Port > limits.RDMAPorts:
		return fmt.Errorf("port %d (MC_IB_PORT): want a number from 1 to %d, or 0 for the best", w.Port, limits.RDMAPorts)
	case w.GIDIndex < -1 || w.GIDIndex > limits.RDMAGIDIndexMax:
		return fmt.Errorf("GID index %d (MC_GID_INDEX): want a number from 0 to %d, or -1 for the best", w.GIDIndex, limits.RDMAGIDIndexMax)
	case w.PKeyIndex < 0 || w.PKeyIndex >= limits.RDMAPKeys:
		return fmt.Errorf("pkey index %d (MC_PKEY_INDEX): want a number from 0 to %d", w.PKeyIndex, limits.RDMAPKeys-1)
	}
	for i, name := range w.Names {
		if _, err := parseName(name); err != nil {
			return fmt.Errorf("--device_name=%s: %q is no name of a device", shorten(strings.Join(w.Names, ",")), shorten(name))
		}
		if slices.Contains(w.Names[:i], name) {
			return fmt.Errorf("--device_name=%s names %s twice", shorten(strings.Join(w.Names, ",")), name)
		}
	}
	return nil
}

// shorten keeps a value in an error to a line.
func shorten(text string) string {
	const shown = 64
	if len(text) > shown {
		return text[:shown] + "…"
	}
	return text
}
