package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveTree(t *testing.T) {
	dir := t.TempDir()
	victim, tree := filepath.Join(dir, "victim"), filepath.Join(dir, "tree")
	if err := errors.Join(os.Mkdir(victim, 0o500), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.MkdirAll(filepath.Join(tree, "a", "b"), 0o700), os.Symlink(victim, filepath.Join(tree, "a", "out")),
		os.Symlink(victim, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree", "link", "file", "never-was"} {
		path := filepath.Join(dir, name)
		if err := RemoveTree(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if fi, err := os.Stat(victim); err != nil || fi.Mode().Perm() != 0o500 {
		t.Errorf("the victim: %v, %v", fi, err)
	}
}
