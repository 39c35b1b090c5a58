package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is the error of a lock that somebody else holds.
var ErrBusy = errors.New("busy")

const (
	lockWait  = time.Second // nobody holds a lock for a moment only, except to look
	lockRetry = 10 * time.Millisecond
)

// Lock is a held flock. The kernel keeps it for as long as any process has the open
// file, which is how a harness that inherited it keeps a killed supervisor's lock:
// that is why it is an *os.File here and not a lock of a library that hides its
// descriptor.
type Lock struct {
	file      *os.File
	inherited bool
}

// Acquire takes the lock at path, making the file where there is none. It waits at
// most a second and then returns an error that matches ErrBusy. So does a file that
// was moved away while we waited, as the removal of a workspace does with its state:
// the next comer locks another file.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	return acquire(path, func(f *os.File) error { return flock(ctx, f, unix.LOCK_EX) })
}

// TryAcquire is Acquire without the wait, for whoever looks again and again.
func TryAcquire(path string) (*Lock, error) {
	return acquire(path, func(f *os.File) error { return tryLock(f, unix.LOCK_EX) })
}

func acquire(path string, lock func(*os.File) error) (*Lock, error) {
	f, err := openPlain(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close() // it was never locked
		return nil, err
	}
	if !isAt(f, path) {
		_ = f.Close() // nobody else can find this file
		return nil, fmt.Errorf("lock %q: it was moved away: %w", path, ErrBusy)
	}
	return &Lock{file: f}, nil
}

// isAt tells whether path still names the open file.
func isAt(f *os.File, path string) bool {
	open, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, named)
}

// AcquireDir takes the lock on the folder dir itself, which leaves nothing in it. It
// waits as Acquire does.
func AcquireDir(ctx context.Context, dir string) (*Lock, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	if err := flock(ctx, f, unix.LOCK_EX); err != nil {
		_ = f.Close() // it was never locked
		return nil, err
	}
	return &Lock{file: f}, nil
}

// flock waits for the lock, which how says to be shared or not.
func flock(ctx context.Context, f *os.File, how int) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for {
		err := tryLock(f, how)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func tryLock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %q: %w", f.Name(), ErrBusy)
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %q: %v", f.Name(), err)
		}
	}
}

// Inherit takes over the lock whose descriptor number a supervisor passed in
// OS_LOCK_FD, and keeps it from any further child. It checks that the descriptor is
// the lock file at path and that the lock is indeed held through it.
func Inherit(fd, path string) (*Lock, error) {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("descriptor %q of the lock is not a number of at least 3", fd)
	}
	// An os.File would close a descriptor that turns out to be somebody else's.
	var ours, want unix.Stat_t
	if err := unix.Fstat(n, &ours); err != nil {
		return nil, fmt.Errorf("inherit the lock on descriptor %d: %v", n, err)
	}
	if err := unix.Lstat(path, &want); err != nil || ours.Dev != want.Dev || ours.Ino != want.Ino {
		return nil, &Refusal{path, fmt.Sprintf("is not the file on descriptor %d", n)}
	}
	unix.CloseOnExec(n)
	f := os.NewFile(uintptr(n), path)
	if err := tryLock(f, unix.LOCK_EX); err != nil {
		_ = f.Close() // somebody else holds the lock
		return nil, fmt.Errorf("lock %q: %w", path, ErrBusy)
	}
	return &Lock{file: f, inherited: true}, nil
}

// File is the open lock file, to be passed on to a harness.
func (l *Lock) File() *os.File { return l.file }

// Release lets the lock go. An inherited lock is only closed: its supervisor still
// works under it. The file stays, since a lock file that is unlinked can be locked
// twice.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	var err error
	if !l.inherited {
		err = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	}
	if closeErr := l.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("unlock %q: %v", l.file.Name(), err)
	}
	return nil
}
