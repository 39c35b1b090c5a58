package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"ostoolkit/internal/tracker"
)

// lockName is the file on which writers of one board take turns. It stays: a lock
// file that is removed lets two in.
const lockName = ".os-board.lock"

// lock waits until it is this writer's turn, or ctx ends. Turns are a few
// milliseconds long, so that a queue of writers moves on; asking again and again,
// instead of waiting in the kernel, is what lets ctx end the wait.
func lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	f, err := root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock the board: %w", err)
	}
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN); _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock the board: %w", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, &tracker.Error{Category: tracker.Busy, Message: "wait for other writers of the board", Err: context.Cause(ctx)}
		}
	}
}

// leftover matches the temporary files of writers that were killed.
var leftover = regexp.MustCompile(`^\..+\.md[0-9]+$`)

// tidy removes them. Under the lock nobody is writing one.
func tidy(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type().IsRegular() && leftover.MatchString(e.Name()) {
			_ = root.Remove(e.Name()) // the next writer tries again
		}
	}
}

// replace puts data in the place of a card: a reader sees the old file or the new
// one, also after a crash.
func (b *Board) replace(name string, data []byte) error {
	err := renameio.WriteFile(filepath.Join(b.dir, name), data, 0o644,
		renameio.WithTempDir(b.dir), renameio.WithExistingPermissions())
	if err != nil {
		return fmt.Errorf("write card %q: %w", name, err)
	}
	dir, err := os.Open(b.dir)
	if err != nil {
		return fmt.Errorf("sync the board: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync the board: %w", err)
	}
	return nil
}
