package schedule

import (
	"time"

	"ostoolkit/internal/wire"
)

// recover takes up one issue where the last scheduler left it: its run goes on, or
// its end is counted unless it was; else it is parked, waits, or only remembers.
func (s *Scheduler) recover(f Recovered) {
	if s.begun || s.claims[f.IssueID] != nil {
		return
	}
	c := &claim{id: f.IssueID, identifier: f.Identifier, rec: f.Record.copy(), unread: true}
	s.claims[c.id] = c
	switch last := f.Run; {
	case last != nil && last.Alive:
		s.adopt(c, f.Issue, last)
	case last != nil && last.Outcome != nil && last.ID != string(c.rec.RunID):
		s.settle(c, f.Issue, last)
	case c.rec.Parked != nil:
		c.issue = f.Issue
	case !c.rec.DueAt.IsZero():
		c.issue = f.Issue
		c.waiting, c.due = true, s.clock.t+s.remaining(c.rec.DueAt)
	}
}

// adopt goes on with a run. Its log is read again from the start, so that the
// events bring back what was known of it. Whether a stop reached it is not known;
// another one does no harm.
func (s *Scheduler) adopt(c *claim, issue *wire.Issue, last *LastRun) {
	s.takeUp(c, issue, last)
	s.tell(c, "adopted", "its run goes on")
	if cause := c.run.stop; cause != "" {
		s.act(Stop{IssueID: c.id, RunID: c.run.id, Cause: cause, Grace: s.cfg.Grace})
	}
}

// settle counts an end that came while nobody looked.
func (s *Scheduler) settle(c *claim, issue *wire.Issue, last *LastRun) {
	s.takeUp(c, issue, last)
	s.end(c, last.Outcome, last.Fingerprint)
	// A read by id comes before anything else, whatever the end said.
	c.unread = true
}

func (s *Scheduler) takeUp(c *claim, issue *wire.Issue, last *LastRun) {
	c.issue = issue
	c.rec.DueAt, c.rec.Parked = wire.Time{}, nil
	if c.rec.Attempt == nil {
		c.rec.Attempt = last.Attempt
	}
	c.run = &run{id: last.ID, attempt: last.Attempt, route: last.Route, stop: string(c.rec.Stopping)}
}

// remaining is the time until a due time on disk. A wall clock that was set back
// must not make it longer than any wait can be.
func (s *Scheduler) remaining(due wire.Time) time.Duration {
	most := max(firstBackoff, s.cfg.Workflow.Agent.MaxRetryBackoff)
	return min(max(0, due.Sub(s.now)), most)
}
