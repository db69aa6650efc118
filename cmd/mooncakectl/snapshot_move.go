package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/etcdkv"
	"mooncake/replication"
)

// savedView is a saved snapshot as it is printed.
type savedView struct {
	File    string `json:"file"`
	Last    uint64 `json:"last_record"`
	Time    string `json:"time"`
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	SHA256  string `json:"sha256"`
}

func (e *env) printSaved(v savedView) error {
	return facts(e, v, fact{"file", v.File}, fact{"last record", fmt.Sprintf("%d of %s", v.Last, v.Time)}, fact{"objects", v.Objects},
		fact{"bytes", v.Bytes}, fact{"sha256", v.SHA256})
}

// sumSuffix is what the name of the file with the sum of a snapshot ends with; sha256sum -c reads it.
const sumSuffix = ".sha256"

func (e *env) snapshotSave() *cobra.Command {
	dataDir := ""
	cmd := &cobra.Command{
		Use: "save FILE", Short: "what a running master keeps, or a stopped one has kept, into a file", Args: cobra.ExactArgs(1),
		Long: "Writes what the master that leads keeps for good into FILE, and its SHA-256 into FILE" + sumSuffix + ". FILE must not exist. With --data_dir it is\n" +
			"taken from the directory of a master that is stopped. There are no bytes of objects in it: they stay in the segments.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil {
				return fmt.Errorf("%s exists already", args[0])
			}
			part, err := os.CreateTemp(filepath.Dir(args[0]), ".mooncakectl-*")
			if err != nil {
				return err
			}
			defer os.Remove(part.Name()) // gone by then, unless something failed
			var v savedView
			if dataDir != "" {
				s, saveErr := replication.SaveDir(cmd.Context(), dataDir, part)
				v, err = savedView{"", s.Last, at(int64(s.Time)), s.Objects, uint64(s.Bytes), s.SHA256}, saveErr
			} else {
				v, err = e.receiveSnapshot(cmd.Context(), part)
			}
			if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
				return err
			}
			back, err := replication.OpenSaved(part.Name()) // as whoever restores it will
			if err != nil {
				return err
			}
			back.Close()
			if back.SHA256 != v.SHA256 {
				return fmt.Errorf("what was written has the SHA-256 %s, sent was %s", back.SHA256, v.SHA256)
			}
			sum := v.SHA256 + "  " + filepath.Base(args[0]) + "\n"
			if err := os.WriteFile(args[0]+sumSuffix, []byte(sum), 0o640); err != nil {
				return err
			}
			if err := os.Rename(part.Name(), args[0]); err != nil {
				return err
			}
			v.File = args[0]
			return e.printSaved(v)
		},
	}
	cmd.Flags().StringVar(&dataDir, "data_dir", "", "--data_dir of a master that is stopped, instead of one that runs")
	return cmd
}

// receiveSnapshot has the master that leads send a snapshot, and compares its sum.
func (e *env) receiveSnapshot(ctx context.Context, out io.Writer) (v savedView, err error) {
	leader, _, err := e.leading(ctx)
	if err != nil {
		return v, err
	}
	c, err := e.connectTo([]string{leader})
	if err != nil {
		return v, err
	}
	defer c.Close()
	conn, err := c.Connection()
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := mooncakev1.NewAdminClient(conn).SaveSnapshot(ctx, &mooncakev1.SaveSnapshotRequest{})
	if err != nil {
		return v, err
	}
	sum, bytes := sha256.New(), uint64(0)
	for {
		reply, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s ended the snapshot after %d bytes", leader, bytes)
			}
			return v, err
		}
		if _, err := io.MultiWriter(out, sum).Write(reply.GetData()); err != nil {
			return v, err
		}
		bytes += uint64(len(reply.GetData()))
		if s := reply.GetEnd(); s != nil {
			if got := hex.EncodeToString(sum.Sum(nil)); got != s.GetSha256() || bytes != s.GetBytes() {
				return v, fmt.Errorf("%d bytes of SHA-256 %s came, %d of %s were sent", bytes, got, s.GetBytes(), s.GetSha256())
			}
			return savedView{"", s.GetLast(), at(s.GetTimeMs()), s.GetObjects(), s.GetBytes(), s.GetSha256()}, nil
		}
	}
}

// restoreWish says where a snapshot is restored to.
type restoreWish struct {
	dir             string
	etcd, cluster   string
	ca, cert, key   string
	user, passwords string
}

func (e *env) snapshotRestore() *cobra.Command {
	w := restoreWish{cluster: "mooncake_cluster"}
	cmd := e.destructive(&cobra.Command{
		Use: "restore FILE", Short: "let masters begin with a saved snapshot, in an empty directory or an empty cluster", Args: cobra.ExactArgs(1),
		Long: "Writes a saved snapshot into an empty --data_dir, or into etcd under a --cluster_id that has nothing there. No master may run on either.\n" +
			"The snapshot knows where bytes of objects lay when it was saved. Where others were written since, reads give those: restore what was\n" +
			"saved after the last write, or let segments begin anew.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (w.dir == "") == (w.etcd == "") {
				return fmt.Errorf("--data_dir=%s, --etcd=%s: one of them says where to, and only one", w.dir, w.etcd)
			}
			s, err := replication.OpenSaved(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := checkSum(args[0], s.SHA256); err != nil {
				return err
			}
			what := fmt.Sprintf("restore %d objects as of %s, record %d", s.Objects, at(int64(s.Time)), s.Last)
			if w.dir != "" {
				if err := replication.EmptyDir(w.dir); err != nil {
					return fmt.Errorf("--data_dir: %w", err)
				}
				return e.do(what+", into "+w.dir, func() error { return s.RestoreDir(cmd.Context(), w.dir) })
			}
			return e.restoreEtcd(cmd.Context(), s, &w, what)
		},
	})
	fs := cmd.Flags()
	fs.StringVar(&w.dir, "data_dir", "", "directory that a master is to begin with; it is empty or does not exist")
	fs.StringVar(&w.etcd, "etcd", "", "etcd that masters are to begin with, host:port with semicolons between, as --ha_backend_connstring")
	fs.StringVar(&w.cluster, "cluster_id", w.cluster, "name of the cluster in etcd, as masters have it")
	fs.StringVar(&w.ca, "etcd_cacert", "", "speak TLS with etcd: file of the authorities of its certificates")
	fs.StringVar(&w.cert, "etcd_cert", "", "file of a certificate to show etcd; needs --etcd_key")
	fs.StringVar(&w.key, "etcd_key", "", "file of the key of --etcd_cert")
	fs.StringVar(&w.user, "etcd_username", "", "who to be in etcd")
	fs.StringVar(&w.passwords, "etcd_password_file", "", "file with the password of --etcd_username")
	return cmd
}

func (e *env) restoreEtcd(ctx context.Context, s *replication.SavedHistory, w *restoreWish, what string) error {
	endpoints, err := etcdkv.ParseEndpoints(w.etcd)
	if err != nil {
		return fmt.Errorf("--etcd: %w", err)
	}
	etcd, err := etcdkv.OpenCluster(endpoints, etcdkv.Access{CACert: w.ca, Cert: w.cert, Key: w.key, User: w.user, PasswordFile: w.passwords})
	if err != nil {
		return fmt.Errorf("--etcd=%s: %w", w.etcd, err)
	}
	defer etcd.Close()
	look, cancel := e.short(ctx)
	defer cancel()
	if err := replication.EmptyCluster(look, etcd, w.cluster); err != nil {
		if errors.Is(look.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("--etcd=%s: no answer within %s", w.etcd, e.flags.timeout)
		}
		return fmt.Errorf("--cluster_id=%s: %w", w.cluster, err)
	}
	return e.do(what+", into the cluster "+w.cluster+" at "+w.etcd, func() error { return s.RestoreEtcd(ctx, etcd, w.cluster) })
}

// checkSum compares a sum with the one that lies beside a file, if there is one.
func checkSum(file, sum string) error {
	text, err := os.ReadFile(file + sumSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if words := strings.Fields(string(text)); len(words) == 0 || words[0] != sum {
		return fmt.Errorf("%s has the SHA-256 %s, and %s says another", file, sum, file+sumSuffix)
	}
	return nil
}

func (e *env) haTransfer() *cobra.Command {
	wait := 30 * time.Second
	cmd := e.destructive(&cobra.Command{
		Use: "transfer", Short: "have the master that leads hand over to a standby", Args: cobra.NoArgs,
		Long: "The leader ends its term as it does when its process ends, follows from then on, and can lead again later. Refused when no standby\n" +
			"could lead at once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait <= 0 {
				return fmt.Errorf("--wait=%s must be above 0", wait)
			}
			leader, _, err := e.leading(cmd.Context())
			if err != nil {
				return err
			}
			var next string
			err = e.do("have "+leader+" hand over to a standby", func() error {
				c, err := e.connectTo([]string{leader})
				if err != nil {
					return err
				}
				defer c.Close()
				conn, err := c.Connection()
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), wait)
				defer cancel()
				reply, err := mooncakev1.NewAdminClient(conn).Transfer(ctx, &mooncakev1.TransferRequest{})
				if err != nil {
					return errors.New(status.Convert(err).Message())
				}
				next = reply.GetLeader().GetRpcAddress()
				return nil
			})
			if err == nil && next != "" && !e.json {
				fmt.Fprintf(e.out, "%s leads\n", next)
			}
			return err
		},
	})
	cmd.Flags().DurationVar(&wait, "wait", wait, "most time until another leads")
	return cmd
}
