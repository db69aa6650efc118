package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/master"
)

// savedFrom is what the scripted cluster sends: a file in pieces, and what it says the file is.
func (c *cluster) savedFrom(text []byte, end *mooncakev1.SavedSnapshot) {
	c.snapshot = nil
	for len(text) > 0 {
		n := min(len(text), 100)
		c.snapshot = append(c.snapshot, &mooncakev1.SaveSnapshotReply{Data: text[:n]})
		text = text[n:]
	}
	if end != nil {
		c.snapshot = append(c.snapshot, &mooncakev1.SaveSnapshotReply{End: end})
	}
}

// TestSnapshotSaved saves what a scripted cluster sends, as a table and as JSON, and refuses what does not fit together.
func TestSnapshotSaved(t *testing.T) {
	text, err := os.ReadFile("testdata/saved")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("testdata/saved" + sumSuffix)
	if err != nil {
		t.Fatal(err)
	}
	c := scripted(t)
	whole := &mooncakev1.SavedSnapshot{Last: 7, TimeMs: noon, Objects: 3, Bytes: uint64(len(text)), Sha256: strings.Fields(string(sum))[0]}
	c.savedFrom(text, whole)
	dir := t.TempDir()
	file := filepath.Join(dir, "one")
	code, out, errs := c.ctl(t, "/", "snapshot", "save", file, "-o", "json")
	var v savedView
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errs)
	}
	if want := (savedView{file, 7, "2023-11-14T22:13:20Z", 3, uint64(len(text)), whole.GetSha256()}); v != want {
		t.Errorf("%+v, want %+v", v, want)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := os.ReadFile(file + sumSuffix); err != nil || string(got) != whole.GetSha256()+"  one\n" {
		t.Errorf("%q, %v", got, err)
	}
	code, out, errs = c.ctl(t, "/", "snapshot", "save", filepath.Join(dir, "two"))
	if want := "objects      3\n"; code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "7 of 2023-11-14T22:13:20Z") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	refused := func(what, want string) {
		t.Helper()
		none := filepath.Join(dir, "none")
		code, out, errs := c.ctl(t, "/", "snapshot", "save", none)
		if left, err := os.ReadDir(dir); code != 1 || out != "" || !strings.Contains(errs, want) || err != nil || len(left) != 4 {
			t.Errorf("%s: exit %d, %s%s, %d files, %v; want %q", what, code, out, errs, len(left), err, want)
		}
	}
	if code, _, errs := c.ctl(t, "/", "snapshot", "save", file); code != 1 || !strings.Contains(errs, "exists already") {
		t.Errorf("over another: exit %d, %s", code, errs)
	}
	c.savedFrom(text, nil)
	refused("no end", "ended the snapshot after")
	c.savedFrom(text[:len(text)-8], whole)
	refused("cut off", "bytes of SHA-256")
	c.savedFrom([]byte("something else"), &mooncakev1.SavedSnapshot{Bytes: 14, Sha256: "f41f3fa6a0bb8ca4a5a2bb3d9bc7d4e1"})
	refused("another sum", "bytes of SHA-256")
}

// TestSnapshotMoves saves a master with a journal, restores that into a directory and into etcd, and begins masters there: they
// hold the same. Broken files and places that are not empty are refused.
func TestSnapshotMoves(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	srv, grpc, stop := realMaster(t, func(c *master.Config) { c.DataDir = path("first") })
	realSegment(t, srv)
	eventually(t, "an object is stored", func() bool {
		code, _, _ := ctlOn(t, grpc, "objects", "put", "k", "-", "--apply")
		return code == 0
	})
	if code, out, errs := ctlOn(t, grpc, "snapshot", "save", path("saved")); code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	code, listed, errs := ctlOn(t, grpc, "objects", "ls")
	if code != 0 || !strings.Contains(listed, "k") {
		t.Fatalf("exit %d, %s%s", code, listed, errs)
	}
	stop()
	if code, out, errs := ctlOn(t, grpc, "snapshot", "save", path("stopped"), "--data_dir="+path("first")); code != 0 || !strings.Contains(out, "objects      1\n") {
		t.Errorf("of a directory: exit %d, %s%s", code, out, errs)
	}

	restore := func(want int, words string, args ...string) {
		t.Helper()
		code, out, errs := ctlOn(t, grpc, append([]string{"snapshot", "restore", path("saved")}, args...)...)
		if code != want || !strings.Contains(out+errs, words) {
			t.Errorf("%q: exit %d, %s%s; want %q", args, code, out, errs, words)
		}
	}
	restore(1, "one of them says where to")
	restore(1, "first is not empty", "--data_dir="+path("first"), "--apply")
	restore(0, "would restore 1 objects", "--data_dir="+path("second"))
	if _, err := os.Stat(path("second")); err == nil {
		t.Error("a dry run made something")
	}
	restore(0, "done: restore 1 objects", "--data_dir="+path("second"), "--apply")
	_, grpc, _ = realMaster(t, func(c *master.Config) { c.DataDir = path("second") })
	if code, again, errs := ctlOn(t, grpc, "objects", "ls"); code != 0 || again != listed {
		t.Errorf("exit %d, %s; before:\n%s\nafter:\n%s", code, errs, listed, again)
	}

	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	restore(0, "would restore 1 objects", "--etcd="+etcd.Address(), "--cluster_id=c")
	restore(0, "done: restore 1 objects", "--etcd="+etcd.Address(), "--cluster_id=c", "--apply")
	restore(1, "is not empty", "--etcd="+etcd.Address(), "--cluster_id=c", "--apply")
	_, grpc, _ = realMaster(t, func(c *master.Config) { c.HA, c.HAConnString, c.ClusterID = true, etcd.Address(), "c" })
	eventually(t, "the master leads with what was restored", func() bool {
		code, again, _ := ctlOn(t, grpc, "objects", "ls")
		return code == 0 && again == listed
	})
	restore(1, "is not empty", "--etcd="+etcd.Address(), "--cluster_id=c", "--apply")

	text, err := os.ReadFile(path("saved"))
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][]byte{"cut off": text[:len(text)/2], "changed": append(bytes.Clone(text[:70]), append([]byte{^text[70]}, text[71:]...)...), "empty": {}} {
		if err := os.WriteFile(path("saved"), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"restore", path("saved"), "--data_dir=" + path("third"), "--apply"}, {"inspect", path("saved")}} {
			code, out, errs := ctlOn(t, grpc, append([]string{"snapshot"}, args...)...)
			if _, err := os.Stat(path("third")); code != 1 || out != "" || !strings.Contains(errs, path("saved")) || err == nil {
				t.Errorf("%s: %q: exit %d, %s%s", name, args, code, out, errs)
			}
		}
	}
	// What is whole but not what the sum is of.
	other, err := os.ReadFile(path("stopped"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("saved"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("saved"+sumSuffix), []byte(strings.Repeat("0", 64)+"  saved\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	restore(1, "says another", "--data_dir="+path("third"), "--apply")
}
