package schedule

import (
	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// The exit statuses of a scheduler that ends by itself.
const (
	statusDone    = cli.StatusOK
	statusParked  = cli.StatusInputRequired
	statusFailing = cli.StatusFailed
)

// shut ends the scheduler: the runs are stopped and waited for, or left to the next
// scheduler.
func (s *Scheduler) shut(status int) {
	if s.closing {
		return
	}
	s.closing, s.status = true, status
	if s.cfg.Detach {
		return
	}
	for _, c := range s.sorted(func(c *claim) bool { return c.run != nil }) {
		s.stop(c, StopShutdown, "shutdown")
	}
}

// finish ends the scheduler if it is at its end.
func (s *Scheduler) finish() {
	switch {
	case !s.begun && !s.closing:
	case s.closing:
		if s.cfg.Detach || s.runs() == 0 {
			s.exit(s.status, "shutdown")
		}
	case s.draining:
		if s.runs() == 0 {
			s.exit(statusDone, "drained")
		}
	case s.cfg.Mode == PlanOnly:
		if s.reads.polls > 0 && s.reads.under == "" {
			s.exit(s.planned(), "planned")
		}
	case s.cfg.Mode != Forever && s.idle():
		s.exit(s.verdict(), "idle")
	}
}

func (s *Scheduler) exit(status int, reason string) {
	s.finished = true
	s.emit(wire.Loop{Event: "stopped", Reason: wire.Text(reason)})
	s.act(Exit{status})
}

func (s *Scheduler) runs() int {
	n := 0
	for _, c := range s.claims {
		if c.run != nil {
			n++
		}
	}
	return n
}

// idle reports whether nothing is left that this mode waits for: no run and no
// reading is under way, and a dispatch that saw the board after the last end found
// nothing to start. Until idle, it also waits for what will pass by itself.
func (s *Scheduler) idle() bool {
	r := &s.reads
	if r.under != "" || r.poll || r.reconcile || s.look || s.runs() > 0 {
		return false
	}
	if s.cfg.Mode == Once {
		return r.polls > 0
	}
	if r.trouble != "" || r.polled <= r.ended || s.later > 0 {
		return false
	}
	for id, c := range s.claims {
		if c.waiting && s.board.byID[id] == nil {
			return false // the next reading by id tells what became of it
		}
	}
	return true
}

// verdict is the exit status of an idle scheduler. What fails weighs more than what
// is parked: it may need no person, but it is not done either.
func (s *Scheduler) verdict() int {
	status := statusDone
	if s.broken != "" || s.reads.trouble != "" || s.stuck() {
		return statusFailing
	}
	for _, c := range s.claims {
		switch {
		case c.waiting && c.rec.Reason != continuation:
			return statusFailing
		case c.rec.Parked != nil:
			status = statusParked
		}
	}
	return status
}

// faulty are the reasons that are no property of the issue and call for somebody.
var faulty = map[Code]bool{CodeRoute: true, CodeHeld: true, CodeHeldFor: true, CodeUnread: true}

// stuck reports whether an issue of the board is kept back by a fault that is not
// its own.
func (s *Scheduler) stuck() bool {
	found := false
	s.decide(s.now, func(_ *candidate, d *Decision) {
		found = found || faulty[d.Code]
	})
	return found
}

func (s *Scheduler) planned() int {
	if s.reads.trouble != "" {
		return statusFailing
	}
	return statusDone
}
