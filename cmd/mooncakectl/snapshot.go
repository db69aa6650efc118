package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"mooncake/replication"
)

// fileView is a file of a journal as it is printed.
type fileView struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Number uint64 `json:"number"`
	Bytes  int64  `json:"bytes"`
	Used   bool   `json:"used"`
}

// journalView is what a directory holds, as it is printed.
type journalView struct {
	Dir       string     `json:"dir"`
	Identity  string     `json:"identity"`
	Last      uint64     `json:"last_record"`
	Time      string     `json:"time"`
	Keys      uint64     `json:"keys"`
	Segments  int        `json:"segments"`
	Allocated uint64     `json:"allocated_bytes"`
	Capacity  uint64     `json:"capacity_bytes"`
	Bundles   uint64     `json:"bundles"`
	Names     int        `json:"metadata_entries"`
	Damaged   int        `json:"damaged_stretches"`
	Tail      int64      `json:"tail_bytes"`
	Files     []fileView `json:"files"`
}

func (e *env) snapshot() *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: "what a master keeps: look at it, save it, let others begin with it"}
	cmd.AddCommand(e.snapshotSave(), e.snapshotInspect(), e.snapshotRestore())
	return cmd
}

func (e *env) snapshotInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect DIR|FILE", Short: "read the --data_dir of a master, in use or not, or a saved snapshot; nothing is changed", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && !info.IsDir() {
				return e.inspectSaved(args[0])
			}
			in, err := replication.Inspect(args[0])
			if err != nil {
				return err
			}
			v := journalView{
				Dir: args[0], Identity: fmt.Sprintf("%016x", in.Identity), Last: in.Last, Time: at(int64(in.Time)), Keys: in.Stats.Keys, Segments: len(in.Segments),
				Allocated: in.Stats.AllocatedBytes, Capacity: in.Stats.CapacityBytes, Bundles: in.Stats.Bundles.Bundles, Names: in.Names, Damaged: len(in.Damaged), Tail: in.TailBytes,
			}
			for _, f := range in.Files {
				kind := "journal"
				if f.Snapshot {
					kind = "snapshot"
				}
				v.Files = append(v.Files, fileView{filepath.Base(f.Path), kind, f.Number, f.Bytes, f.Used})
			}
			if e.json {
				return e.asJSON(v)
			}
			err = facts(e, v,
				fact{"directory", v.Dir}, fact{"journal", v.Identity}, fact{"last record", fmt.Sprintf("%d of %s", v.Last, v.Time)},
				fact{"objects", v.Keys}, fact{"bundles", v.Bundles}, fact{"segments", v.Segments},
				fact{"memory", fmt.Sprintf("%s of %s", size(v.Allocated), size(v.Capacity))}, fact{"metadata entries", v.Names},
				fact{"damage", fmt.Sprintf("%d stretches, %d bytes behind the last whole record", v.Damaged, v.Tail)})
			if err != nil {
				return err
			}
			fmt.Fprintln(e.out)
			return list(e, v.Files,
				column[fileView]{"FILE", func(f fileView) any { return f.Name }},
				column[fileView]{"KIND", func(f fileView) any { return f.Kind }},
				column[fileView]{"RECORD", func(f fileView) any { return f.Number }},
				column[fileView]{"BYTES", func(f fileView) any { return f.Bytes }},
				column[fileView]{"COUNTS", func(f fileView) any { return f.Used }},
			)
		},
	}
}

// inspectSaved reads a saved snapshot, every record of it.
func (e *env) inspectSaved(path string) error {
	s, err := replication.OpenSaved(path)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := checkSum(path, s.SHA256); err != nil {
		return err
	}
	return e.printSaved(savedView{path, s.Last, at(int64(s.Time)), s.Objects, uint64(s.Bytes), s.SHA256})
}
