package master

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// workloads is where the rules in force came from. Rules are changed as a whole, one change at a time; the catalog has
// them. Its lock is held over calls into the catalog, and taken with nothing else held.
type workloads struct {
	mu     sync.Mutex
	origin Origin
}

// Origin says where the rules of workloads came from.
type Origin struct {
	File  string // of --workloads_file, if they are still those
	Admin bool   // set or changed by the admin port
	Kept  bool   // there is a log that keeps them, and no file that replaces them at the next start
}

// survives tells whether the rules are there again after a restart.
func (o Origin) survives() bool { return !o.Admin || o.Kept }

// String names the origin for people.
func (o Origin) String() string {
	switch {
	case o.Admin:
		return "admin"
	case o.File != "":
		return "file " + o.File
	}
	return "none"
}

// readRules reads the file of --workloads_file.
func readRules(path string) ([]catalog.Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--workloads_file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limits.WorkloadRulesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--workloads_file: %w", err)
	}
	rules, err := decodeRules(text)
	if err != nil {
		return nil, fmt.Errorf("--workloads_file=%s: %w", path, err)
	}
	return rules, nil
}

// loadWorkloads puts the rules of the file into force, if there is one.
func (s *Service) loadWorkloads() error {
	if s.cfg.WorkloadsFile == "" {
		if len(s.cat.Workloads()) > 0 { // of the history
			s.workloads.origin = Origin{Admin: true, Kept: true}
		}
		return nil
	}
	rules, err := readRules(s.cfg.WorkloadsFile)
	if err != nil {
		return err
	}
	if err := s.cat.SetWorkloads(s.clock.Now(), rules); err != nil {
		return fmt.Errorf("--workloads_file=%s: %w", s.cfg.WorkloadsFile, err)
	}
	s.workloads.origin = Origin{File: s.cfg.WorkloadsFile}
	return nil
}

// Workloads implements WorkloadSource.
func (s *Service) Workloads() ([]catalog.WorkloadStat, Origin) {
	s.workloads.mu.Lock()
	defer s.workloads.mu.Unlock()
	return s.cat.WorkloadStats(), s.workloads.origin
}

// ChangeWorkloads implements WorkloadSource.
func (s *Service) ChangeWorkloads(edit func(rules []catalog.Workload) ([]catalog.Workload, error)) error {
	w := &s.workloads
	w.mu.Lock()
	defer w.mu.Unlock()
	rules, err := edit(slices.Clone(s.cat.Workloads()))
	if err != nil {
		return err
	}
	if err := s.cat.SetWorkloads(s.clock.Now(), rules); err != nil {
		return err
	}
	if err := s.history.wait(); err != nil {
		return err
	}
	w.origin = Origin{Admin: true, Kept: s.history.journal != nil && s.cfg.WorkloadsFile == ""}
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = rules[i].Name
	}
	s.log.Info("rules of workloads changed", zap.String("action", "workloads_changed"), zap.Strings("workloads", names), zap.Bool("survives_restart", w.origin.survives()))
	return nil
}
