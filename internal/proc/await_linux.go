package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// await parks on the pidfd in the runtime's poller: a thread a process would be too
// much for a scheduler that waits for a thousand.
func await(ctx context.Context, p Process) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return fmt.Errorf("pin process %d: %w", p.Pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }() // nothing is written to it
	if !same(p) {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for the end of process %d: %w", p.Pid, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = conn.Read(hasEnded)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for the end of process %d: %w", p.Pid, err)
	}
	return nil
}

// hasEnded tells whether the process of a pidfd has ended.
func hasEnded(fd uintptr) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0
}

func signalTo(p Process, sig syscall.Signal) error {
	pinned, err := pinAll([]Process{p}, same)
	defer pinned.close()
	if err != nil || len(pinned.fds) == 0 {
		return err
	}
	if group, err := unix.Getpgid(p.Pid); err == nil && group == p.Pid {
		// As long as the leader is pinned and alive its id names this group only.
		err = unix.Kill(-p.Pid, sig)
		return signalError(p, err)
	}
	return signalError(p, unix.PidfdSendSignal(int(pinned.fds[0].Fd), sig, nil, 0))
}

func signalError(p Process, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("signal process %d (%s): %w", p.Pid, p.Name, err)
}
