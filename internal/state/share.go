package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Share is a lock that many hold at once, each to say that it uses something, until one
// of them is the last. It is a flock, as Lock is, and of a file of its own.
type Share struct{ file *os.File }

// AcquireShare joins those who hold the lock at path, making the file where there is
// none. It waits at most a second for somebody who was the last and is still clearing
// up; the error then matches ErrBusy. So does a file that was moved away meanwhile.
func AcquireShare(ctx context.Context, path string) (*Share, error) {
	f, err := openPlain(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil && isAt(f, path):
			return &Share{f}, nil
		case err == nil:
			_ = f.Close() // nobody else can find this file
			return nil, fmt.Errorf("share lock %q: it was moved away: %w", path, ErrBusy)
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			_ = f.Close() // it was never locked
			return nil, fmt.Errorf("share lock %q: %v", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close() // it was never locked
			return nil, fmt.Errorf("share lock %q: %w", path, ErrBusy)
		}
	}
}

// Last reports whether nobody else holds the lock, and keeps everybody out then until
// Release. Where it is false the share may be lost: it is for those who leave.
func (s *Share) Last() (bool, error) {
	err := tryLock(s.file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %q alone: %v", s.file.Name(), err)
	}
	return true, nil
}

// Release lets the share go.
func (s *Share) Release() error {
	err := unix.Flock(int(s.file.Fd()), unix.LOCK_UN)
	if err = errors.Join(err, s.file.Close()); err != nil {
		return fmt.Errorf("release share of %q: %v", s.file.Name(), err)
	}
	return nil
}

// Keeper is the process that looks after something which several runs of a state root
// use at once, and which outlives the run that has started it.
type Keeper struct {
	PID      int    `json:"pid"`
	PIDStart string `json:"pid_start"` // names the process together with PID
}

// Shared returns the folder of the shared thing of that name.
func (r Root) Shared(name string) string { return filepath.Join(string(r), "shared", name) }

// KeeperFile is the file in the folder of a shared thing that begins with a Keeper.
func KeeperFile(shared string) string { return filepath.Join(shared, "keeper.json") }

// Keepers returns the keepers of all shared things. Whether they still live is for the
// caller to find out; a file that cannot be read names nobody.
func (r Root) Keepers() []Keeper {
	files, _ := filepath.Glob(KeeperFile(r.Shared("*"))) // the pattern is good
	var keepers []Keeper
	for _, file := range files {
		var k Keeper
		if err := ReadJSON(file, &k); err == nil && k.PID > 0 {
			keepers = append(keepers, k)
		}
	}
	return keepers
}

// Root returns the state root that the folder lies in. A folder that somebody has put
// elsewhere is a root of its own.
func (d Dir) Root() Root {
	if issues := filepath.Dir(string(d)); filepath.Base(issues) == "issues" {
		return Root(filepath.Dir(issues))
	}
	return Root(d)
}
