package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Share is a lock that many hold at once, each to say that it uses something, until one
// of them is the last. It is of a file of its own.
type Share struct{ lock *Lock }

// AcquireShare joins those who hold the lock at path, making the file where there is
// none. It waits as Acquire does, for somebody who was the last and is still clearing up.
func AcquireShare(ctx context.Context, path string) (*Share, error) {
	l, err := acquire(path, func(f *os.File) error { return flock(ctx, f, unix.LOCK_SH) })
	if err != nil {
		return nil, err
	}
	return &Share{l}, nil
}

// Last reports whether nobody else holds the lock, and keeps everybody out then until
// Release. Where it is false the share may be lost: it is for those who leave.
func (s *Share) Last() (bool, error) {
	err := tryLock(s.lock.file, unix.LOCK_EX)
	if errors.Is(err, ErrBusy) {
		return false, nil
	}
	return err == nil, err
}

// Release lets the share go.
func (s *Share) Release() error { return s.lock.Release() }

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
