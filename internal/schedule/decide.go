package schedule

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// Code is a decision on one issue in one word.
type Code string

// The codes. All but CodeStart are reasons for not starting an issue.
const (
	CodeStart          Code = "start"
	CodeRunning        Code = "running"
	CodeParked         Code = "parked"
	CodeDue            Code = "due"  // its time has not come
	CodeDone           Code = "done" // had the one run that this mode gives
	CodeBlocker        Code = "blocker"
	CodeUnknownBlocker Code = "unknown_blocker"
	CodeChild          Code = "child"
	CodeCycle          Code = "cycle"
	CodeLabel          Code = "label"
	CodeUndispatchable Code = "undispatchable"
	CodeRoute          Code = "route"
	CodeConfig         Code = "config"
	CodeClosing        Code = "closing"
	CodeDraining       Code = "draining"
	CodePaused         Code = "paused"
	CodeHeld           Code = "held"       // until somebody does something about it
	CodeHeldFor        Code = "held_until" // for a time
	CodeSlots          Code = "slots"
	CodeStateSlots     Code = "state_slots"
	CodeBackendSlots   Code = "backend_slots"
	CodeStarts         Code = "starts" // too many are starting
	CodeUnread         Code = "unread" // could not be read again
)

// quiet reports whether another record has told this reason already, or it is over
// in a moment. Like passing it is asked for each issue of each dispatch, which a map
// would be too slow for.
func (c Code) quiet() bool {
	switch c {
	case CodeRunning, CodeParked, CodeDue, CodeDone, CodeConfig,
		CodeClosing, CodeDraining, CodePaused, CodeStarts:
		return true
	}
	return false
}

// passing reports whether a reason goes away by itself.
func (c Code) passing() bool {
	switch c {
	case CodeRunning, CodeDue, CodeSlots, CodeStateSlots,
		CodeBackendSlots, CodeStarts, CodeUnread, CodePaused, CodeHeldFor:
		return true
	}
	return false
}

// Decision is what is decided on one issue, and why.
type Decision struct {
	IssueID, Identifier string
	Code                Code
	Reason              string     // for people; of a start, why this route
	Attempt             *int64     // of the run that would be next, or is under way
	DueAt               wire.Time  // with CodeDue
	Route               wire.Route // with CodeStart, and with reasons that are looked at later
}

// Plan returns what a dispatch would decide now on every issue of the board, in
// the order of dispatch. It changes nothing.
func (s *Scheduler) Plan(now time.Time) []Decision {
	list := make([]Decision, 0, len(s.board.byID))
	s.decide(now, func(_ *candidate, d *Decision) { list = append(list, *d) })
	return list
}

// decide goes over the board once. An issue that is to start takes its slots before
// the next one is looked at. The Decision is good until each returns.
func (s *Scheduler) decide(now time.Time, each func(*candidate, *Decision)) {
	s.arrange()
	u := s.usage()
	routes := newRouter(s.cfg.Workflow.Routing)
	var d Decision
	for _, c := range s.board.order {
		d = Decision{IssueID: c.id, Identifier: c.identifier}
		if !s.refused(c, now, &u, routes, &d) {
			d.Code, d.Reason = CodeStart, string(d.Route.Reason)
			u.take(c.issue.State, &run{route: d.Route})
		}
		each(c, &d)
	}
}

// refused looks for a reason not to start an issue. The first one counts, the most
// lasting ones come first.
func (s *Scheduler) refused(c *candidate, now time.Time, u *usage, routes *router, d *Decision) bool {
	if s.claimed(c.claim, d) || d.because(s.board.obstacleOf(c)) {
		return true
	}
	var err error
	if d.Route, err = routes.route(c.issue); err != nil {
		return d.because(CodeRoute, err.Error())
	}
	d.Route.DryRun = s.cfg.DryRun
	backend := d.Route.Harness
	return d.because(s.gate()) || d.because(s.withheld(backend, u)) ||
		d.because(u.full(&s.cfg, c.issue.State, backend)) || d.because(s.unread(c, now))
}

// because takes a reason not to start, if there is one.
func (d *Decision) because(code Code, reason string) bool {
	if code == "" {
		return false
	}
	d.Code, d.Reason = code, reason
	return true
}

// claimed decides on an issue that is claimed already.
func (s *Scheduler) claimed(c *claim, d *Decision) bool {
	if c == nil {
		return false
	}
	d.Attempt = c.rec.Attempt
	switch {
	case c.run != nil && c.run.stop != "":
		return d.because(CodeRunning, "stopping: "+c.run.stop)
	case c.run != nil:
		return d.because(CodeRunning, "running")
	case c.rec.Parked != nil:
		return d.because(CodeParked, "parked: "+c.rec.Parked.Reason)
	case c.done:
		return d.because(CodeDone, "had its run")
	case c.waiting && c.due > s.clock.t:
		d.DueAt = wire.At(s.clock.wall(c.due))
		return d.because(CodeDue, fmt.Sprintf("%s, due at %s", c.rec.Reason, d.DueAt.Format(time.RFC3339)))
	}
	return false
}

// unread returns why an issue cannot be read once more before it starts, or "".
func (s *Scheduler) unread(c *candidate, now time.Time) (Code, string) {
	r := &s.reads
	if c.fresh(now) || !c.silent && s.clock.t >= r.confirmAt && s.clock.t >= r.barredUntil {
		return "", ""
	}
	return CodeUnread, "the tracker cannot be read again"
}

// gate returns why nothing at all may start.
func (s *Scheduler) gate() (Code, string) {
	switch {
	case s.closing:
		return CodeClosing, "shutting down"
	case s.draining:
		return CodeDraining, "draining"
	case s.broken != "":
		return CodeConfig, s.broken
	case s.paused:
		return CodePaused, "paused"
	}
	return "", ""
}

// dispatch starts what can start. What was read too long ago is asked for first,
// all of it at once; the dispatch is done again with the answer.
func (s *Scheduler) dispatch() {
	if !s.look || s.cfg.Mode == PlanOnly {
		return
	}
	s.look, s.later, s.crowded = false, 0, false
	var ask []string
	s.decide(s.now, func(c *candidate, d *Decision) {
		switch {
		case d.Code != CodeStart:
			s.skip(c, d)
		case c.fresh(s.now):
			c.told = ""
			s.start(c.issue, d.Route)
		default:
			ask = append(ask, c.id)
		}
	})
	if len(ask) > 0 {
		s.ask(ForStart, ask)
	}
}

// skip prints a reason once, until there is another.
func (s *Scheduler) skip(c *candidate, d *Decision) {
	if d.Code.passing() {
		s.later++
	}
	s.crowded = s.crowded || d.Code == CodeStarts
	if d.Code.quiet() || c.told == d.Reason {
		return
	}
	c.told = d.Reason
	s.emit(wire.Loop{
		Event:      "skipped",
		IssueID:    wire.Text(d.IssueID),
		Identifier: wire.Text(d.Identifier),
		Reason:     wire.Text(d.Reason),
	})
}
