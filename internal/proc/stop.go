package proc

import (
	"syscall"
	"time"
)

// Step is one rung of a stop ladder: do it, then give the child Wait to end.
type Step struct {
	Do   func() // nil: only wait
	Wait time.Duration
}

// Send is the Step that signals the child's group. An error is dropped: the next
// step follows in any case.
func (c *Child) Send(sig syscall.Signal, wait time.Duration) Step {
	return Step{Do: func() { _ = c.Signal(sig) }, Wait: wait}
}

// Stop walks down the steps until the child has ended. When hurry is closed, it goes
// on with the last step at once; nil is a hurry that never comes. Stop takes at most
// the sum of the waits, so after a last SIGKILL a child that the kernel holds back may
// still be there: Done tells.
func (c *Child) Stop(hurry <-chan struct{}, steps ...Step) {
	for i, s := range steps {
		last := i == len(steps)-1
		if last {
			hurry = nil
		}
		if ended(c.done) {
			return
		}
		if !last && ended(hurry) {
			continue
		}
		if s.Do != nil {
			s.Do()
		}
		c.wait(hurry, s.Wait)
	}
}

func (c *Child) wait(hurry <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-hurry:
	case <-timer.C:
	}
}

func ended(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
