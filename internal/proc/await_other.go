//go:build !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// awaitInterval is how often a process is looked for where no descriptor tells of its
// end.
const awaitInterval = 50 * time.Millisecond

// await of a process whose pid the system does not tell waits one interval: whoever
// asks for the holders of a lock has to ask again in any case.
func await(ctx context.Context, p Process) error {
	look := time.NewTicker(awaitInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of process %d: %w", p.Pid, context.Cause(ctx))
		}
		if p.Pid == 0 || !alive(p.Pid, p.Started) {
			return nil
		}
	}
}

func signalTo(p Process, sig syscall.Signal) error {
	if p.Pid == 0 || !alive(p.Pid, p.Started) {
		return nil
	}
	target := p.Pid
	if group, err := unix.Getpgid(p.Pid); err == nil && group == p.Pid {
		target = -p.Pid
	}
	if err := unix.Kill(target, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.Pid, err)
	}
	return nil
}
