package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// hunt kills what find names until it names nothing more.
type hunt struct {
	find  func() ([]Process, error)
	still func(Process) bool // asked again once the process is pinned by a pidfd

	ended  []Process
	spared []Process // they cannot be killed: asked once is enough
	errs   []error
}

// run wants two looks in a row to find nothing: while one look goes over the table, a
// process may hand over to a child with a pid that the look has passed already.
func (h *hunt) run(ctx context.Context) ([]Process, error) {
	for quiet := 0; quiet < 2; {
		found, err := h.find()
		if err != nil {
			return h.ended, err
		}
		found = slices.DeleteFunc(found, func(p Process) bool { return slices.Contains(h.spared, p) })
		if len(found) == 0 {
			quiet++
			continue
		}
		quiet = 0
		if err := h.kill(ctx, found); err != nil {
			return h.ended, errors.Join(append(h.errs, err)...)
		}
	}
	return h.ended, errors.Join(h.errs...)
}

// kill kills the found processes and waits until they are gone.
func (h *hunt) kill(ctx context.Context, found []Process) error {
	pins, err := pinAll(found, h.still)
	defer pins.close()
	if err != nil {
		return err
	}
	for i, p := range pins.procs {
		switch err := unix.PidfdSendSignal(int(pins.fds[i].Fd), unix.SIGKILL, nil, 0); {
		case err == nil:
			h.ended = append(h.ended, p)
		case !errors.Is(err, unix.ESRCH):
			h.spared = append(h.spared, p)
			h.errs = append(h.errs, fmt.Errorf("kill process %d (%s): %w", p.Pid, p.Name, err))
			pins.fds[i].Fd = ^pins.fds[i].Fd // poll passes over negative descriptors
		}
	}
	if err := pins.wait(ctx); err != nil {
		return err
	}
	// Also where each one found was gone before it could be killed: no loop without end.
	return context.Cause(ctx)
}

// pins are processes held by a pidfd each, so that a pid cannot come to mean another.
type pins struct {
	procs []Process
	fds   []unix.PollFd
}

func pinAll(found []Process, still func(Process) bool) (*pins, error) {
	held := &pins{}
	for _, p := range found {
		fd, err := unix.PidfdOpen(p.Pid, 0)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue
		case err != nil:
			return held, fmt.Errorf("pin process %d: %w", p.Pid, err)
		case !still(p):
			_ = unix.Close(fd)
			continue
		}
		held.procs = append(held.procs, p)
		held.fds = append(held.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return held, nil
}

func (h *pins) close() {
	for _, p := range h.fds {
		_ = unix.Close(int(max(p.Fd, ^p.Fd))) // kill turns some negative
	}
}

// wait returns when all have ended, or with the error of ctx.
func (h *pins) wait(ctx context.Context) error {
	const slice = 20 // milliseconds after which ctx is looked at
	open := slices.DeleteFunc(slices.Clone(h.fds), func(p unix.PollFd) bool { return p.Fd < 0 })
	for len(open) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the end of %d processes: %w", len(open), context.Cause(ctx))
		}
		if _, err := unix.Poll(open, slice); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end of %d processes: %w", len(open), err)
		}
		open = slices.DeleteFunc(open, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
	return nil
}

func same(p Process) bool { return alive(p.Pid, p.Started) }

func killDescendants(ctx context.Context, except []int) ([]Process, error) {
	if childless() {
		return nil, nil
	}
	h := hunt{still: same, find: func() ([]Process, error) {
		table, err := readTable()
		return descendants(table, os.Getpid(), slices.Concat(except, children.strangers())), err
	}}
	return h.run(ctx)
}

// childless tells by one system call what a walk through /proc would: that nobody is
// below us. Whoever descends from us does so through a child of ours that has not been
// waited for. Nothing is waited for here either.
func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return errors.Is(err, unix.ECHILD)
}

// descendants returns the living ones below root.
func descendants(table []stat, root int, except []int) []Process {
	below := map[int][]stat{}
	for _, s := range table {
		below[s.parent] = append(below[s.parent], s)
	}
	var found []Process
	for todo := below[root]; len(todo) > 0; todo = todo[1:] {
		s := todo[0]
		if slices.Contains(except, s.Pid) {
			continue
		}
		if !s.dead {
			found = append(found, s.Process)
		}
		todo = append(todo, below[s.Pid]...)
	}
	return found
}

func sweep(ctx context.Context, match func(func(string) string) bool) ([]Process, error) {
	matches := func(pid int) bool {
		env, ok := environOf(pid)
		return ok && match(env)
	}
	above := lineage()
	h := hunt{
		still: func(p Process) bool { return same(p) && matches(p.Pid) },
		find: func() ([]Process, error) {
			return findMarked(ctx, func(pid int) bool {
				return !slices.Contains(above, pid) && ownedBy(os.Geteuid(), pid)
			}, match)
		},
	}
	return h.run(ctx)
}

// patience bounds the wait for processes that are in the middle of an exec or on their
// way out. It takes far less, unless the machine is starved or a file system hangs.
const patience = 10 * time.Second

// findMarked returns the living processes among the candidates whose environment
// matches. One that is in the middle of an exec, or on its way out, shows none for a
// moment: it is asked again, until it does or is gone.
func findMarked(ctx context.Context, candidate func(pid int) bool, match func(func(string) string) bool) (found []Process, err error) {
	var blank []int
	look := func(pid int) {
		if !candidate(pid) {
			return
		}
		env, ok := environOf(pid)
		switch {
		case !ok && between(pid):
			blank = append(blank, pid)
		case ok && match(env):
			if s, ok := readStat(pid); ok && !s.dead {
				found = append(found, s.Process)
			}
		}
	}
	err = eachPid(look)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(blank) > 0 && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		again := blank
		blank = nil
		for _, pid := range again {
			look(pid)
		}
	}
	return found, err
}

// lineage returns our pid and those of all that we descend from.
func lineage() []int {
	var pids []int
	for pid := os.Getpid(); pid > 0; {
		pids = append(pids, pid)
		s, ok := readStat(pid)
		if !ok {
			break
		}
		pid = s.parent
	}
	return pids
}

func inside(match func(func(string) string) bool) bool {
	return slices.ContainsFunc(lineage()[1:], func(pid int) bool {
		env, ok := environOf(pid)
		return ok && match(env)
	})
}

func (c *Child) killLeft(ctx context.Context, grace time.Duration) ([]Process, error) {
	members := func() ([]Process, error) {
		table, err := readTable()
		var found []Process
		for _, s := range table {
			if !s.dead && (s.group == c.pid || s.session == c.pid) {
				found = append(found, s.Process)
			}
		}
		return found, err
	}
	if grace > 0 {
		if err := waitPolitely(ctx, grace, members); err != nil {
			return nil, err
		}
	}
	h := hunt{find: members, still: same}
	return h.run(ctx)
}

// waitPolitely gives what find names the time to end by itself.
func waitPolitely(ctx context.Context, grace time.Duration, find func() ([]Process, error)) error {
	found, err := find()
	if err != nil {
		return err
	}
	held, err := pinAll(found, same)
	defer held.close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_ = held.wait(ctx) // who is still there is killed next
	return nil
}
