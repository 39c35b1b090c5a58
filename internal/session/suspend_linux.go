package session

import (
	"time"

	"golang.org/x/sys/unix"
)

// Slept returns a function that tells how long the machine was suspended since it was
// booted: what the clock that goes on in a suspend is ahead of the one that stands
// still. It may be called from several goroutines.
func Slept() func() time.Duration {
	return func() time.Duration {
		// In this order a stop of the process between the two readings makes the result
		// smaller for once, and never looks like a suspend.
		boot, errBoot := clock(unix.CLOCK_BOOTTIME)
		running, errRunning := clock(unix.CLOCK_MONOTONIC)
		if errBoot != nil || errRunning != nil {
			return 0
		}
		return boot - running
	}
}

func clock(id int32) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
