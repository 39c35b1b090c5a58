package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// blockSize is the unit of a file's blocks, whatever the file system's own.
const blockSize = 512

// inode tells files apart whatever they are called.
type inode struct{ dev, ino uint64 }

// DiskUsage returns the bytes that dir and all below it take on disk; a file with several
// names counts once. No link is followed. What goes away meanwhile, or is not ours to
// list, counts nothing.
func DiskUsage(ctx context.Context, dir string) (int64, error) {
	total, seen := int64(0), map[inode]bool{}
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // a folder's own size was counted before it was listed
		case err != nil:
			return err
		}
		total += onDisk(e, seen)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("add up %q: %w", dir, err)
	}
	return total, nil
}

func onDisk(e fs.DirEntry, seen map[inode]bool) int64 {
	fi, err := e.Info()
	if err != nil {
		return 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fi.Size()
	}
	if st.Nlink > 1 && !e.IsDir() {
		id := inode{uint64(st.Dev), st.Ino}
		if seen[id] {
			return 0
		}
		seen[id] = true
	}
	return st.Blocks * blockSize
}
