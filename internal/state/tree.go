package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveTree removes dir and all below it without following a link out. Folders
// that their owner made unreadable or unwritable, as package managers do, are
// opened first.
func RemoveTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Opening follows a link, so that only a folder may be opened.
	if fi, statErr := os.Lstat(dir); statErr != nil || !fi.IsDir() {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = openFolders(root)
	if closeErr := root.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// openFolders gives every folder below root the rights that removing needs. The
// walk stays inside root whatever is renamed under it.
func openFolders(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d == nil || !d.IsDir() {
			return nil
		}
		if err := root.Chmod(filepath.FromSlash(path), 0o700); err != nil {
			return err
		}
		if err != nil {
			return fs.SkipDir // it could not be listed before the change; RemoveAll can now
		}
		return nil
	})
}
