package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/client"
)

// objectView is an object of a list.
type objectView struct {
	Key    string `json:"key"`
	Size   uint64 `json:"size"`
	Copies int    `json:"copies"`
}

func (e *env) objects() *cobra.Command {
	cmd := &cobra.Command{Use: "objects", Short: "keys and their bytes"}
	cmd.AddCommand(e.objectsList(), e.objectsStat(), e.objectsGet(), e.objectsPut(), e.objectsRemove())
	return cmd
}

func (e *env) objectsList() *cobra.Command {
	most := 1000
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Short: "readable objects in the order of their keys", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := e.connect()
			if err != nil {
				return err
			}
			if most < 1 {
				return fmt.Errorf("--limit=%d must be above 0", most)
			}
			ctx, cancel := e.short(cmd.Context())
			defer cancel()
			var rows []objectView
			for o, err := range c.List(ctx, strings.Join(args, "")) {
				if err != nil {
					return err
				}
				if len(rows) == most {
					fmt.Fprintf(e.err, "there are more than %d: --limit\n", most)
					break
				}
				rows = append(rows, objectView{o.Key, o.Size, o.Copies})
			}
			return list(e, rows,
				column[objectView]{"KEY", func(o objectView) any { return quoted(o.Key) }},
				column[objectView]{"SIZE", func(o objectView) any { return o.Size }},
				column[objectView]{"COPIES", func(o objectView) any { return o.Copies }},
			)
		},
	}
	cmd.Flags().IntVar(&most, "limit", most, "most objects to list")
	return cmd
}

// quoted lets no key take more than one line.
func quoted(key string) string {
	if q := fmt.Sprintf("%q", key); q != `"`+key+`"` {
		return q
	}
	return key
}

// copyView is a copy as it is printed.
type copyView struct {
	ID     uint64 `json:"replica_id"`
	Kind   string `json:"kind"`
	Where  string `json:"where"`
	Status string `json:"status"`
}

var statusWords = map[int32]string{0: "undefined", 1: "initialized", 2: "processing", 3: "complete", 4: "removed", 5: "failed"}

func viewOfCopy(p *mooncakev1.Placement) copyView {
	v := copyView{ID: p.GetReplicaId(), Status: statusWords[p.GetStatus()]}
	switch x := p.GetPlace().(type) {
	case *mooncakev1.Placement_Memory:
		v.Kind, v.Where = "memory", fmt.Sprintf("%s %#x %s", x.Memory.GetEndpoint(), x.Memory.GetAddress(), x.Memory.GetProtocol())
	case *mooncakev1.Placement_File:
		v.Kind, v.Where = "file", x.File.GetPath()
	case *mooncakev1.Placement_Disk:
		v.Kind, v.Where = "disk", x.Disk.GetEndpoint()+" of "+id(x.Disk.GetClient())
	}
	return v
}

func (e *env) objectsStat() *cobra.Command {
	return &cobra.Command{
		Use: "stat KEY", Short: "size and places of an object; leases nothing", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var found *mooncakev1.PlacementsResult
			err := e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				reply, err := mooncakev1.NewObjectsClient(conn).Placements(ctx, &mooncakev1.PlacementsRequest{Tenant: e.flags.tenant, Keys: args, Peek: true})
				if err == nil {
					found = reply.GetResults()[0]
				}
				return err
			})
			if err != nil {
				return err
			}
			if o := found.GetOutcome(); o.GetCode() != 0 {
				return fmt.Errorf("%s: %s (%d)", quoted(args[0]), o.GetText(), o.GetCode())
			}
			v := struct {
				Key    string     `json:"key"`
				Size   uint64     `json:"size"`
				Copies []copyView `json:"copies"`
			}{args[0], found.GetSize(), nil}
			lines := []fact{{"key", quoted(v.Key)}, {"size", fmt.Sprintf("%d (%s)", v.Size, size(v.Size))}}
			for _, p := range found.GetPlacements() {
				c := viewOfCopy(p)
				v.Copies = append(v.Copies, c)
				lines = append(lines, fact{"copy", fmt.Sprintf("%d %s %s, %s", c.ID, c.Kind, c.Where, c.Status)})
			}
			return facts(e, v, lines...)
		},
	}
}

func (e *env) objectsGet() *cobra.Command {
	file := "-"
	cmd := &cobra.Command{
		Use: "get KEY", Short: "the bytes of an object", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := e.connect()
			if err != nil {
				return err
			}
			if file == "-" {
				_, err = c.GetStream(cmd.Context(), args[0], e.out, nil)
				return err
			}
			// The file appears when it is whole.
			f, err := os.CreateTemp(dirOf(file), ".mooncakectl-*")
			if err != nil {
				return err
			}
			n, err := c.GetStream(cmd.Context(), args[0], f, nil)
			if err = errors.Join(err, f.Close()); err == nil {
				err = os.Rename(f.Name(), file)
			}
			if err != nil {
				return errors.Join(err, os.Remove(f.Name()))
			}
			fmt.Fprintf(e.err, "%d bytes\n", n)
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", file, "file to write; - is standard output")
	return cmd
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i+1]
	}
	return "."
}

func (e *env) objectsPut() *cobra.Command {
	o := client.PutOptions{}
	cmd := e.destructive(&cobra.Command{
		Use: "put KEY FILE", Short: "store the bytes of a file; - is standard input", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var from io.Reader = e.in
			length := uint64(0)
			if args[1] == "-" {
				text, err := io.ReadAll(e.in)
				if err != nil {
					return err
				}
				from, length = strings.NewReader(string(text)), uint64(len(text))
			} else {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				info, err := f.Stat()
				if err != nil {
					return err
				}
				from, length = f, uint64(info.Size())
			}
			if length == 0 {
				return fmt.Errorf("%s is empty: an object has a byte at least", args[1])
			}
			return e.do(fmt.Sprintf("store %d bytes under %s", length, quoted(args[0])), func() error {
				c, err := e.connect()
				if err != nil {
					return err
				}
				return c.PutStream(cmd.Context(), args[0], length, from, o, nil)
			})
		},
	})
	cmd.Flags().IntVar(&o.Copies, "copies", 1, "copies wanted")
	cmd.Flags().BoolVar(&o.Upsert, "upsert", false, "replace what exists")
	cmd.Flags().BoolVar(&o.HardPin, "pin", false, "keep it until it is removed")
	return cmd
}

func (e *env) objectsRemove() *cobra.Command {
	force := false
	cmd := e.destructive(&cobra.Command{
		Use: "rm KEY...", Short: "remove objects", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, keys []string) error {
			c, err := e.connect()
			if err != nil {
				return err
			}
			var errs []error
			for _, key := range keys {
				errs = append(errs, e.do("remove "+quoted(key), func() error {
					ctx, cancel := e.short(cmd.Context())
					defer cancel()
					return c.Remove(ctx, key, force)
				}))
			}
			return errors.Join(errs...)
		},
	})
	cmd.Flags().BoolVar(&force, "force", false, "also while it is read or written")
	return cmd
}
