package schedule

import (
	"fmt"
	"strings"

	"ostoolkit/internal/wire"
)

// command does what an operator wants and answers.
func (s *Scheduler) command(f Command) {
	message, ok := s.obey(f)
	if f.ID != "" {
		s.act(Reply{ID: f.ID, Accepted: ok, Message: message})
	}
}

func (s *Scheduler) obey(f Command) (message string, ok bool) {
	switch f.Kind {
	case CommandRefresh:
		s.reads.pollAt, s.reads.sweepAt = s.clock.t, s.clock.t
		return "polling", true
	case CommandPause:
		return s.pause(true, "paused")
	case CommandResume:
		return s.pause(false, "resumed")
	case CommandDrain:
		s.draining, s.look = true, true
		return "draining", true
	case CommandShutdown:
		s.shut(statusDone)
		return "shutting down", true
	case CommandHold, CommandClear:
		return s.backend(f.Kind, f.Target)
	case CommandStop, CommandRetry, CommandRelease:
		return s.onIssue(f.Kind, f.Target)
	}
	return fmt.Sprintf("kind %q is not known", f.Kind), false
}

func (s *Scheduler) pause(paused bool, event string) (string, bool) {
	if s.paused != paused {
		s.paused, s.look = paused, true
		s.emit(wire.Loop{Event: event, Reason: "operator"})
	}
	return event, true
}

func (s *Scheduler) backend(kind, name string) (string, bool) {
	if name == "" {
		return "no backend is named", false
	}
	_, held := s.holds[name]
	switch {
	case kind == CommandHold:
		s.place(Hold{Backend: name, Reason: wire.CauseOperator, Since: wire.At(s.now)}, 0)
		return fmt.Sprintf("%s is held until it is cleared", name), true
	case !held:
		return fmt.Sprintf("%s is not held", name), false
	}
	s.clear(name, "cleared")
	s.reads.pollAt = s.clock.t // what was held may have waited for long
	return fmt.Sprintf("%s is free", name), true
}

func (s *Scheduler) onIssue(kind, target string) (string, bool) {
	c := s.find(target)
	if c == nil {
		return fmt.Sprintf("issue %q is not known", target), false
	}
	switch kind {
	case CommandStop:
		return s.stopIssue(c)
	case CommandRetry:
		return s.retryIssue(c)
	default:
		return s.releaseIssue(c)
	}
}

// find returns the claim that target names by id or by identifier, in any case. For
// an issue of the board that has none, it makes one.
func (s *Scheduler) find(target string) *claim {
	for _, c := range s.sorted(func(*claim) bool { return true }) {
		if c.id == target || strings.EqualFold(c.identifier, target) {
			return c
		}
	}
	s.arrange()
	for _, c := range s.board.order {
		if c.id == target || strings.EqualFold(c.identifier, target) {
			return &claim{id: c.id, identifier: c.identifier}
		}
	}
	return nil
}

// stopIssue ends a run for good, or keeps an issue from getting one.
func (s *Scheduler) stopIssue(c *claim) (string, bool) {
	s.register(c)
	switch {
	case c.run != nil && c.run.stop == StopOperator:
		return "it is stopping already", true
	case c.run != nil:
		c.run.stop = "" // an operator's word goes over the scheduler's own
		s.stop(c, StopOperator, "operator")
		return "stopping", true
	case c.rec.Parked != nil:
		return "it is parked already", true
	}
	s.park(c, wire.CauseOperator)
	return "parked", true
}

// retryIssue makes an issue due at once.
func (s *Scheduler) retryIssue(c *claim) (string, bool) {
	switch {
	case c.run != nil:
		return "it is running", false
	case c.rec.Parked != nil:
		s.lift(c, "operator: retry")
		return "unparked", true
	case c.waiting:
		c.rec.Streak, s.look = 0, true
		s.wait(c, 0)
		return "due now", true
	}
	return "it neither waits nor is parked", false
}

// releaseIssue gives up a claim; what was used is forgiven.
func (s *Scheduler) releaseIssue(c *claim) (string, bool) {
	switch {
	case c.run != nil:
		return "it is running: stop it first", false
	case c.held():
		s.lift(c, "operator: release")
		return "released", true
	}
	return "nothing is claimed", false
}
