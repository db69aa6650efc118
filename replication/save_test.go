package replication

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mooncake/catalog"
)

// writeSaved saves a directory to a file.
func writeSaved(t *testing.T, dir string) (path string, text []byte) {
	t.Helper()
	var out bytes.Buffer
	if _, err := SaveDir(t.Context(), dir, &out); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "saved")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, out.Bytes()
}

// TestSaveAndRestore saves a journal in use and at rest, and restores it into a directory: the history is the same.
func TestSaveAndRestore(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, FileBytes: 1 << 16, SnapshotBytes: 1 << 14})
	m.mount(1, 40_000)
	for range 1500 {
		m.step()
	}
	m.settle()
	m.awaitSnapshot()
	last := m.settle()
	var used bytes.Buffer
	saved, err := m.log.(*Journal).Save(t.Context(), &used)
	if err != nil || saved.Last < last || saved.Bytes != int64(used.Len()) || saved.Objects != m.cat.Stats().Keys {
		t.Fatalf("%+v, %v; want record %d", saved, err, last)
	}
	want := m.describe()
	m.close()
	path, text := writeSaved(t, dir)
	if len(text) != used.Len() { // the order of what is in them may differ
		t.Errorf("%d bytes were saved in use, %d at rest", used.Len(), len(text))
	}
	s, err := OpenSaved(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	into := filepath.Join(t.TempDir(), "new")
	if err := s.RestoreDir(t.Context(), into); err != nil {
		t.Fatal(err)
	}
	again := open(t, Config{Dir: into})
	expectSame(t, "what was restored", again.describe(), want)
	first, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Inspect(into)
	if err != nil {
		t.Fatal(err)
	}
	if first.Identity == second.Identity {
		t.Error("two journals have one identity")
	}
	if err := s.RestoreDir(t.Context(), into); err == nil {
		t.Error("restored where something is")
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	none := filepath.Join(t.TempDir(), "none")
	if err := s.RestoreDir(stopped, none); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if l, err := list(none); err != nil || len(l.snapshots) != 0 {
		t.Errorf("half a restoration counts: %v %v", l, err)
	}
}

// TestSavedIsRefused changes every part of a saved file in turn and cuts it off everywhere.
func TestSavedIsRefused(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir})
	m.mount(1, 40_000)
	for range 40 {
		m.step()
	}
	m.settle()
	m.close()
	path, text := writeSaved(t, dir)
	try := func(what string, at int, changed []byte) {
		t.Helper()
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenSaved(path); err == nil {
			s.Close()
			t.Errorf("%s at %d of %d was taken", what, at, len(text))
		}
	}
	for at := 0; at < len(text); at += 7 {
		try("cut off", at, text[:at])
	}
	padding := 0
	for at := range text {
		changed := bytes.Clone(text)
		changed[at] ^= 0x40
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenSaved(path); err == nil {
			s.Close()
			if padding++; text[at] != 0 { // zeros behind a record, up to the next multiple of 8, say nothing
				t.Errorf("changed at %d of %d: taken", at, len(text))
			}
		}
	}
	if padding > len(text)/4 {
		t.Errorf("%d of %d bytes may be changed", padding, len(text))
	}
	try("of another kind", 8, append([]byte("MCKJRNL1\x01"), text[9:]...))
	if _, err := OpenSaved(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestSaveDamaged refuses to save what is damaged: a start of the master repairs it first.
func TestSaveDamaged(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir})
	m.mount(1, 40_000)
	for range 200 {
		m.step()
		m.settle()
	}
	m.close()
	file := journalFiles(t, dir)[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(bytes.TrimRight(text, "\x00"))/2] ^= 0x40
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := SaveDir(t.Context(), dir, new(bytes.Buffer)); err == nil {
		t.Errorf("saved: %+v", s)
	}
	if s, err := SaveDir(t.Context(), t.TempDir(), new(bytes.Buffer)); err == nil {
		t.Errorf("saved nothing: %+v", s)
	}
}

// TestRestoreEtcd puts a saved journal into an empty cluster: a member begins with it. A cluster that has anything is left alone.
func TestRestoreEtcd(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir})
	m.mount(1, 40_000)
	for range 300 {
		m.step()
	}
	m.settle()
	want := m.describe()
	m.close()
	path, _ := writeSaved(t, dir)
	s, err := OpenSaved(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := newCluster(t)
	first := c.join("a:1")
	store := first.shelf.etcd
	if err := s.RestoreEtcd(t.Context(), store, first.cfg.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := s.RestoreEtcd(t.Context(), store, first.cfg.Cluster); !errors.Is(err, errTaken) {
		t.Errorf("restored twice: %v", err)
	}
	leader := first.lead()
	expectSame(t, "what was restored", leader.describe(), want)
	leader.step()
	leader.settle()
	if err := EmptyCluster(t.Context(), store, first.cfg.Cluster); !errors.Is(err, errTaken) {
		t.Errorf("%v", err)
	}
	if err := EmptyCluster(t.Context(), store, "another"); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	saved, err := leader.log.(*Term).Save(t.Context(), &out)
	if err != nil || saved.Last < s.Last || saved.Time < catalog.Time(0) || saved.Bytes != int64(out.Len()) {
		t.Errorf("%+v, %v", saved, err)
	}
}
