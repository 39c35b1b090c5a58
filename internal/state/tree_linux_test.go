package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody calls do with the file rights of a user without privileges, since root is
// stopped by no mode. The rights are those of one thread, which ends with the call.
func asNobody(t *testing.T, own string, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	const nobody = 65534
	err := filepath.WalkDir(own, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

func TestRemoveTreeOpensWhatIsClosed(t *testing.T) {
	// Below /tmp every folder can be passed, which t.TempDir does not promise to others.
	dir, err := os.MkdirTemp("/tmp", "os-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tree, victim, locked := filepath.Join(dir, "tree"), filepath.Join(dir, "victim"), filepath.Join(dir, "locked")
	if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(filepath.Join(tree, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(tree, "a", "b", "file"), nil, 0o400),
		os.MkdirAll(filepath.Join(victim, "sub"), 0o700), os.Symlink(victim, filepath.Join(tree, "a", "out")),
		os.Mkdir(locked, 0o700), os.Symlink(victim, filepath.Join(locked, "link"))); err != nil {
		t.Fatal(err)
	}
	asNobody(t, dir, func() {
		const readable, closed = 0o500, 0
		for _, f := range []struct {
			path string
			mode fs.FileMode
		}{{"tree/a/b", readable}, {"tree/a", closed}, {"tree", closed}, {"victim/sub", readable}, {"locked", readable}} {
			if err := os.Chmod(filepath.Join(dir, f.path), f.mode); err != nil {
				t.Error(err)
			}
		}
		if err := RemoveTree(tree); err != nil {
			t.Errorf("a closed tree: %v", err)
		}
		// A link that cannot be removed is an error, and is not followed for it.
		if err := RemoveTree(filepath.Join(locked, "link")); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a link in a closed folder: %v", err)
		}
	})
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if fi, err := os.Stat(filepath.Join(victim, "sub")); err != nil || fi.Mode().Perm() != 0o500 {
		t.Errorf("what a link leads to was changed: %v, %v", fi, err)
	}
}
