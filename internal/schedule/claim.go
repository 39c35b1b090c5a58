package schedule

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// claim is all that is known of one issue that was ever started, stopped or
// recovered. It runs (run), waits (waiting) or is parked (rec.Parked); one that does
// none of these only remembers, and its issue is an ordinary candidate.
type claim struct {
	id, identifier string
	issue          *wire.Issue // newest reading; nil while it only remembers
	rec            Record

	run      *run
	waiting  bool
	due      time.Duration // with waiting
	parkedAt time.Duration // with rec.Parked

	unread bool          // recovered, and not seen in the tracker since
	goneAt time.Duration // when it was first not to be seen; 0 if it is
	lost   bool          // remembered, and not in the tracker any more
	done   bool          // had its run in a mode that gives each issue one
	noted  bool          // its run goes on although something blocks the issue now
	gone   bool          // its folder was to be removed, and it had no run since
}

// run is one run under way.
type run struct {
	id      string // "" until its supervisor told it
	attempt *int64
	route   wire.Route
	tokens  int64

	launched   time.Duration // when its harness began; 0 before
	opened     bool          // it has a session
	progressed bool          // and the agent did something
	progress   time.Duration // when it last did
	asking     bool          // it waits for a person
	terminal   time.Duration // until when it may finish its turn, the issue being ended; 0: it is not
	stop       string        // why it was told to stop; "" if it was not
}

// claimFor returns the claim on an issue, a new one if need be.
func (s *Scheduler) claimFor(issue *wire.Issue) *claim {
	c := s.claims[issue.ID]
	if c == nil {
		c = &claim{id: issue.ID}
		s.register(c)
	}
	c.issue, c.identifier = issue, issue.Identifier
	return c
}

func (s *Scheduler) register(c *claim) {
	s.claims[c.id] = c
	if shown := s.board.byID[c.id]; shown != nil {
		shown.claim = c
	}
}

// held reports whether c keeps its issue from being an ordinary candidate.
func (c *claim) held() bool { return c.run != nil || c.waiting || c.rec.Parked != nil }

// tracked reports whether c is read by id in each pass.
func (c *claim) tracked() bool { return c.held() || c.unread }

// unfinished reports whether c remembers work that has not come to an end.
func (c *claim) unfinished() bool {
	return !c.lost && (c.rec.Attempt != nil || c.rec.Reason != "")
}

// resume reports whether an earlier session may be taken up again.
func (c *claim) resume() bool {
	return c.rec.Reason != "" && c.rec.Reason != wire.CauseContextWindow
}

func (c *claim) loop(event, reason string) wire.Loop {
	l := wire.Loop{
		Event:      event,
		IssueID:    wire.Text(c.id),
		Identifier: wire.Text(c.identifier),
		Reason:     wire.Text(reason),
	}
	if c.run != nil {
		l.RunID = wire.Text(c.run.id)
	}
	return l
}

// start gives an issue a run. What it costs is written down before it begins, so that
// no crash makes it free.
func (s *Scheduler) start(issue *wire.Issue, route wire.Route) {
	c := s.claimFor(issue)
	resume := c.resume()
	c.run, c.gone = &run{attempt: c.rec.Attempt, route: route}, false
	c.waiting, c.unread, c.noted = false, false, false
	c.rec.DueAt = wire.Time{}
	c.rec.Lifetime.Runs++
	s.save(c)
	s.act(Start{Issue: issue, Attempt: c.rec.copy().Attempt, Resume: resume, Route: route})
	l := c.loop("dispatched", fmt.Sprintf("%s: %s", route.Harness, route.Reason))
	l.Attempt = c.rec.copy().Attempt
	s.emit(l)
}

// stop tells a run to end, once.
func (s *Scheduler) stop(c *claim, cause, reason string) {
	if c.run.stop != "" {
		return
	}
	c.run.stop = cause
	c.rec.Stopping = wire.Text(cause)
	s.save(c)
	s.act(Stop{IssueID: c.id, RunID: c.run.id, Cause: cause, Grace: s.cfg.Grace})
	s.tell(c, "reconciled", "stopping: "+reason)
}

// wait makes c due after d.
func (s *Scheduler) wait(c *claim, d time.Duration) {
	c.waiting, c.due = true, s.clock.t+d
	c.rec.DueAt = wire.At(s.now.Add(d))
	s.save(c)
	l := c.loop("retry", string(c.rec.Reason))
	l.Attempt, l.DueAt = c.rec.copy().Attempt, c.rec.DueAt
	s.emit(l)
}

// park leaves c alone until it changes or somebody lifts it.
func (s *Scheduler) park(c *claim, reason string) {
	c.waiting, c.parkedAt = false, s.clock.t
	c.rec.DueAt = wire.Time{}
	c.rec.Parked = &Parked{Reason: reason, At: wire.At(s.now)}
	s.save(c)
	s.tell(c, "parked", reason)
	// The look that a change is measured against should be taken soon.
	s.reads.reconcile = true
}

// lift releases an issue that changed, or that somebody wants to go on.
func (s *Scheduler) lift(c *claim, reason string) {
	s.forgive(c)
	s.release(c, reason)
}

// forgive lets the budgets and the brake begin anew.
func (s *Scheduler) forgive(c *claim) {
	c.rec.Streak = 0
	c.rec.Fingerprints = nil
	c.rec.Forgiven = c.rec.Lifetime
}

// release is the one way out of a claim. What is remembered stays, so that the
// issue goes on where it was if it comes back.
func (s *Scheduler) release(c *claim, reason string) {
	held := c.held()
	if c.rec.Parked != nil { // whatever ends a parking is a change of the issue
		s.forgive(c)
	}
	told := c.loop("released", reason)
	c.run, c.waiting, c.unread, c.goneAt = nil, false, false, 0
	c.rec.DueAt, c.rec.Parked = wire.Time{}, nil
	c.issue = nil
	s.look = true
	s.save(c)
	if held {
		s.emit(told)
	}
}

// complete releases c for good: its issue is done, and a later life of it begins
// with a first attempt. What it has used stays counted: one that is reopened without
// end must meet its budget.
func (s *Scheduler) complete(c *claim, reason string) {
	if c.held() || c.rec.Attempt != nil || c.rec.Reason != "" {
		c.rec.Attempt, c.rec.Reason, c.rec.Streak, c.rec.Fingerprints = nil, "", 0, nil
		s.release(c, reason)
	}
	if c.rec.Lifetime.Runs > 0 && s.cfg.Workflow.Workspace.RemoveTerminal && !c.gone {
		c.gone = true
		s.act(Remove{IssueID: c.id, Identifier: c.identifier})
	}
}

// save writes what is remembered. A claim with nothing to remember is forgotten
// once it holds nothing.
func (s *Scheduler) save(c *claim) {
	if !c.rec.blank() {
		s.act(Save{IssueID: c.id, Identifier: c.identifier, Record: c.rec.copy()})
		return
	}
	if !c.held() && !c.done {
		delete(s.claims, c.id)
		s.act(Drop{IssueID: c.id, Identifier: c.identifier})
	}
}
