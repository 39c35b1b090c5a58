package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func becomeSubreaper() (bool, error) { return false, nil }

func ownChildren() []int { return nil }

// collect buries the group after the reaping: there is no wait that leaves a zombie.
func (c *Child) collect(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buryGroup()
	return state, err
}

func startOf(pid int) string {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return startText(info)
}

func startText(info *unix.KinfoProc) string {
	return fmt.Sprintf("%d.%06d", info.Proc.P_starttime.Sec, info.Proc.P_starttime.Usec)
}

func alive(pid int, started string) bool {
	const zombie = 5 // SZOMB of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && info.Proc.P_stat != zombie && startText(info) == started
}

// snapshot returns the known children.
func (r *registry) snapshot() []*Child {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Child, 0, len(r.known))
	for _, c := range r.known {
		all = append(all, c)
	}
	return all
}

func killDescendants(ctx context.Context, except []int) ([]Process, error) {
	var killed []Process
	for _, c := range children.snapshot() {
		if slices.Contains(except, c.pid) {
			continue
		}
		if err := c.Signal(syscall.SIGKILL); err != nil {
			return killed, err
		}
		select {
		case <-c.done:
			killed = append(killed, Process{Pid: c.pid, Started: c.started})
		case <-ctx.Done():
			return killed, fmt.Errorf("wait for the end of process %d: %w", c.pid, context.Cause(ctx))
		}
	}
	return killed, nil
}

// sweep finds nothing: macOS shows the environment of a process only to few.
func sweep(context.Context, func(func(string) string) bool) ([]Process, error) { return nil, nil }

func inside(func(func(string) string) bool) bool { return false }

func (c *Child) killLeft(ctx context.Context, grace time.Duration) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(-c.pid, 0) == nil {
		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		return nil, c.killGroup(syscall.SIGKILL)
	}
	return nil, nil
}

// holdersOf asks for a lock without taking it: here fcntl sees the locks of flock, but
// not who holds them.
func holdersOf(paths []string) (map[string][]Process, error) {
	held := map[string][]Process{}
	for _, path := range paths {
		locked, err := isLocked(path)
		if err != nil {
			return nil, fmt.Errorf("look for holders of %q: %w", path, err)
		}
		if locked {
			held[path] = []Process{{}}
		}
	}
	return held, nil
}

func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}
