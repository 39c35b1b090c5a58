package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// apart is how far two readings must lie apart to agree that an issue is gone.
const apart = 2 * time.Second

// observe brings a new reading of a claimed issue.
func (s *Scheduler) observe(c *claim, issue *wire.Issue) {
	before := c.issue
	c.goneAt, c.unread, c.lost = 0, false, false
	c.identifier = issue.Identifier
	if c.held() {
		c.issue = issue
	}
	switch {
	case c.run != nil:
		s.follow(c, before)
	case issue.Category == wire.CategoryTerminal:
		s.complete(c, s.unwanted(issue))
	case !c.held():
	case s.unwanted(issue) != "":
		s.release(c, s.unwanted(issue))
	case c.rec.Parked != nil:
		s.compare(c)
	}
}

// follow is observe for a running issue. Usually it is the agent itself that moved
// its issue to an ended state, so its turn may finish in peace.
func (s *Scheduler) follow(c *claim, before *wire.Issue) {
	s.transition(c, before)
	grace := s.cfg.Workflow.Agent.TerminalGrace
	switch why := s.unwanted(c.issue); {
	case c.issue.Category == wire.CategoryTerminal && grace > 0:
		if c.run.terminal == 0 {
			c.run.terminal = s.clock.t + grace
			s.tell(c, "reconciled", why+": its turn may finish")
		}
	case why != "":
		s.stop(c, StopTracker, why)
	default:
		c.run.terminal = 0
		s.note(c)
	}
}

// transition interrupts a run whose issue made one of the moves that ask for it.
func (s *Scheduler) transition(c *claim, before *wire.Issue) {
	if before == nil || fold(before.State) == fold(c.issue.State) || c.run.stop != "" {
		return
	}
	for _, t := range s.cfg.Workflow.Agent.InterruptWhen {
		if fold(t.From) == fold(before.State) && fold(t.To) == fold(c.issue.State) {
			s.act(Interrupt{IssueID: c.id, RunID: c.run.id, From: before.State, To: c.issue.State})
			s.tell(c, "interrupt_requested", fmt.Sprintf("%s -> %s", before.State, c.issue.State))
			return
		}
	}
}

// note says once that a run goes on although something blocks its issue now.
func (s *Scheduler) note(c *claim) {
	code, why := s.blocked(c.issue)
	if code != "" && !c.noted {
		s.tell(c, "reconciled", why+": its run goes on")
	}
	c.noted = code != ""
}

// missing brings a reading that did not show the issue.
func (s *Scheduler) missing(c *claim) {
	switch {
	case !c.held():
		c.unread, c.lost = false, true
	case c.run != nil && c.run.stop != "": // it ends already
	case c.goneAt == 0:
		c.goneAt = s.clock.t
	case s.clock.t-c.goneAt < apart:
	case c.run != nil:
		c.goneAt = 0 // it is known now
		s.stop(c, StopTracker, "gone from the tracker")
	default:
		s.release(c, "gone from the tracker")
	}
}

// compare lifts a parking if the issue changed. The first reading after it only
// gives the look to compare with, if it was asked for after it.
func (s *Scheduler) compare(c *claim) {
	now := mark(c.issue)
	switch p := c.rec.Parked; {
	case p.Mark == now:
	case p.Mark != "":
		s.lift(c, "the issue changed")
	case s.reads.at >= c.parkedAt:
		p.Mark = now
		s.save(c)
	}
}

// mark is a digest of what makes a change of an issue a real one.
func mark(issue *wire.Issue) wire.Text {
	b, err := json.Marshal([]any{
		fold(issue.State), issue.UpdatedAt, issue.Title, issue.Description,
		issue.Priority, issue.Labels, issue.AssigneeID, issue.BlockedBy,
	})
	if err != nil {
		return wire.Text(issue.State)
	}
	sum := sha256.Sum256(b)
	return wire.Text(hex.EncodeToString(sum[:8]))
}
