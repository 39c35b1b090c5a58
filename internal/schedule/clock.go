package schedule

import (
	"math"
	"time"
)

// pace is how often a scheduler with runs wants to be woken.
const pace = time.Second

// clock counts the time that the scheduler could have acted in. A step counts at
// most twice the sleep that was asked for, so that a stopped process, a suspended
// machine, a starved CPU or a jump of the wall clock costs nobody anything.
type clock struct {
	t     time.Duration // since the first fact; never 0 after it
	last  time.Time
	wake  time.Time     // when the driver was asked to call again
	asked time.Duration // how far that was away
	bell  time.Duration // the earliest instant at which something is due
}

// advance moves the clock and reports whether the bell rang.
func (c *clock) advance(now time.Time) bool {
	if c.last.IsZero() {
		c.last, c.t = now, 1
	}
	c.t += min(max(0, now.Sub(c.last)), 2*max(pace, c.asked))
	c.last = now
	return c.t >= c.bell || !now.Before(c.wake)
}

// wall is the wall time of the instant t of the clock, if nothing stops until then.
func (c *clock) wall(t time.Duration) time.Time { return c.last.Add(t - c.t) }

// earliest keeps the smallest instant that is still to come.
type earliest struct{ now, at time.Duration }

func (e *earliest) add(t time.Duration) {
	if t > e.now && (e.at == 0 || t < e.at) {
		e.at = t
	}
}

// alarm asks to be woken for whatever comes next. A wake that comes too early is
// harmless, so it is moved only when it has passed or is too late.
func (s *Scheduler) alarm() {
	if s.finished {
		return
	}
	next := earliest{now: s.clock.t}
	runs := false
	for _, c := range s.claims {
		runs = runs || c.run != nil
		s.deadlines(c, &next)
	}
	for _, h := range s.holds {
		next.add(h.until)
	}
	next.add(s.reads.pollAt)
	next.add(s.reads.barredUntil)
	next.add(s.reads.confirmAt)
	if next.at == 0 {
		next.at = math.MaxInt64
	}
	s.clock.bell = next.at
	sleep := next.at - s.clock.t
	switch {
	case runs:
		sleep = min(sleep, pace)
	case next.at == math.MaxInt64:
		return
	}
	at := s.now.Add(sleep)
	if s.now.Before(s.clock.wake) && !at.Before(s.clock.wake) {
		return
	}
	s.clock.wake, s.clock.asked = at, sleep
	s.act(WakeAt{at})
}

// deadlines adds all that c waits for.
func (s *Scheduler) deadlines(c *claim, next *earliest) {
	if c.goneAt > 0 {
		next.add(c.goneAt + apart)
	}
	if c.waiting {
		next.add(c.due)
	}
	if c.run == nil {
		return
	}
	for _, l := range s.limits(c.run) {
		next.add(l.at)
	}
}

// expire acts on what has become due. Whatever it was, a dispatch may follow.
func (s *Scheduler) expire() {
	if s.clock.t < s.clock.bell {
		return
	}
	s.look = true
	for _, c := range s.sorted((*claim).held) {
		if c.goneAt > 0 && c.goneAt+apart <= s.clock.t {
			s.reads.reconcile = true
		}
		if c.run == nil {
			continue
		}
		for _, l := range s.limits(c.run) {
			if l.at > 0 && l.at <= s.clock.t {
				s.stop(c, l.cause, s.passed(l.cause))
			}
		}
	}
}
