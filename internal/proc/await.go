package proc

import (
	"context"
	"syscall"
)

// Await returns nil once p has ended, or the error of ctx. It is for a process that is
// not our child; one whose pid was given to another has ended.
func Await(ctx context.Context, p Process) error { return await(ctx, p) }

// SignalTo sends sig to p, or to its whole group where p leads one. It is for a process
// that is not our child. One that has ended, or whose pid was given to another, gets
// nothing, which is no error.
func SignalTo(p Process, sig syscall.Signal) error { return signalTo(p, sig) }
