package schedule

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// slack is what a run may take over its own limits before the scheduler steps in:
// the harness watches the same limits and knows more.
const slack = time.Minute

// limit is an instant at which a run is to be stopped.
type limit struct {
	at    time.Duration // 0: never
	cause string
}

// limits returns what a run may be stopped for as time passes. Hooks have limits of
// their own, so nothing is counted before the harness runs.
func (s *Scheduler) limits(r *run) [4]limit {
	var l [4]limit
	if r.stop != "" {
		return l
	}
	agent := &s.cfg.Workflow.Agent
	if r.terminal > 0 {
		l[0] = limit{r.terminal, StopTracker}
	}
	if r.launched == 0 {
		return l
	}
	if agent.LaunchTimeout > 0 && !r.opened {
		l[1] = limit{r.launched + agent.LaunchTimeout, StopLaunch}
	}
	if agent.StallTimeout > 0 && r.opened && !r.asking {
		l[2] = limit{r.progress + agent.StallTimeout + slack, StopStalled}
	}
	if agent.RunTimeout > 0 {
		l[3] = limit{r.launched + agent.RunTimeout + slack, StopTimedOut}
	}
	return l
}

// passed says in words which limit of a run is over.
func (s *Scheduler) passed(cause string) string {
	agent := &s.cfg.Workflow.Agent
	switch cause {
	case StopLaunch:
		return fmt.Sprintf("no session within %s", agent.LaunchTimeout)
	case StopStalled:
		return fmt.Sprintf("no progress for %s", agent.StallTimeout)
	case StopTimedOut:
		return fmt.Sprintf("over its limit of %s", agent.RunTimeout)
	}
	return "its issue is ended and its time to finish is over"
}

// running returns the claim whose run this is, or nil: a late word of a run that
// was given up must not touch the next one.
func (s *Scheduler) running(issueID, runID string) *claim {
	c := s.claims[issueID]
	if c == nil || c.run == nil || c.run.id != runID {
		return nil
	}
	return c
}

// runStarted reports that nothing follows from it.
func (s *Scheduler) runStarted(f RunStarted) (quiet bool) {
	c := s.claims[f.IssueID]
	if c != nil && c.run != nil && c.run.id == "" && string(c.rec.RunID) != f.RunID {
		c.run.id = f.RunID
	}
	return true
}

// runEvent reports whether nothing can follow from the event.
func (s *Scheduler) runEvent(f RunEvent) (quiet bool) {
	c := s.running(f.IssueID, f.RunID)
	if c == nil {
		return true
	}
	quiet = s.happened(c.run, f.Kind)
	if f.Tokens != nil && *f.Tokens > c.run.tokens {
		c.run.tokens = *f.Tokens
		if why := s.overBudget(c); why != "" && c.run.stop == "" {
			s.stop(c, StopBudget, why)
			quiet = false
		}
	}
	return quiet
}

func (s *Scheduler) happened(r *run, kind EventKind) (quiet bool) {
	switch kind {
	case Launched:
		r.launched, r.progress = s.clock.t, s.clock.t
		return false
	case Opened:
		quiet = r.opened
		s.opened(r)
	case Progress:
		quiet = r.progressed
		s.opened(r)
		r.progressed = true
		if !quiet && s.begun { // what is read again of an adopted run proves nothing new
			s.prove(r.route.Harness)
		}
	case Asking:
		r.asking = true
		return true
	case Answered:
		r.asking, r.progress = false, s.clock.t
		return false
	case Chatter:
		return true
	}
	return quiet
}

// opened makes room for another start, if one waits for it.
func (s *Scheduler) opened(r *run) {
	s.look = s.look || s.crowded && !r.opened
	r.opened, r.progress = true, s.clock.t
}

func (s *Scheduler) runEnded(f RunEnded) {
	c := s.claims[f.IssueID]
	if c == nil || c.run == nil || f.Outcome == nil {
		return
	}
	// A start whose id was never told can end all the same, but not with the end of
	// the run before it.
	early := c.run.id == "" && f.RunID != string(c.rec.RunID)
	if c.run.id != f.RunID && !early {
		return
	}
	c.run.id = f.RunID
	s.end(c, f.Outcome, f.Fingerprint)
}

func (s *Scheduler) runFailedToStart(f RunFailedToStart) {
	if c := s.running(f.IssueID, ""); c != nil {
		s.end(c, &wire.Outcome{
			Outcome: wire.Failed,
			Error:   &wire.OutcomeError{Category: f.Category, Message: f.Message},
		}, "")
	}
}
