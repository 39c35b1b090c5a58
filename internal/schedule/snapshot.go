package schedule

import (
	"maps"
	"slices"
	"time"

	"ostoolkit/internal/wire"
)

// Snapshot is the state for people and for state.json.
type Snapshot struct {
	Running  []Entry   `json:"running"`
	Waiting  []Entry   `json:"waiting"`
	Parked   []Entry   `json:"parked"`
	Skipped  []Skipped `json:"skipped"` // active issues that nobody claims
	Holds    []Hold    `json:"holds"`
	Paused   bool      `json:"paused"`
	Draining bool      `json:"draining"`
	Closing  bool      `json:"closing"`
	Config   wire.Text `json:"config_error"`
	Tracker  wire.Text `json:"tracker_error"`
	NextPoll wire.Time `json:"next_poll_at"`
}

// Entry is one claimed issue.
type Entry struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"identifier"`
	Title      wire.Text `json:"title"`
	URL        wire.Text `json:"url"`
	State      wire.Text `json:"state"`
	RunID      wire.Text `json:"run_id"`
	Attempt    *int64    `json:"attempt"`
	Streak     int       `json:"streak"`
	Harness    wire.Text `json:"harness"`
	Reason     wire.Text `json:"reason"` // why it waits, is parked or is stopping
	DueAt      wire.Time `json:"due_at"`
	ParkedAt   wire.Time `json:"parked_at"`
	Asking     bool      `json:"asking"` // it waits for a person's answer
	Lifetime   Lifetime  `json:"lifetime"`
	Tokens     int64     `json:"tokens"` // of the run under way
}

// Skipped is one issue that could be run and is not.
type Skipped struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"identifier"`
	Code       Code   `json:"code"`
	Reason     string `json:"reason"`
}

// Snapshot returns the state at now. It shares nothing with the scheduler.
func (s *Scheduler) Snapshot(now time.Time) Snapshot {
	v := Snapshot{
		Running: []Entry{}, Waiting: []Entry{}, Parked: []Entry{}, Skipped: []Skipped{}, Holds: []Hold{},
		Paused: s.paused, Draining: s.draining, Closing: s.closing,
		Config: wire.Text(s.broken), Tracker: wire.Text(s.reads.trouble),
	}
	if s.begun {
		v.NextPoll = wire.At(s.clock.wall(s.reads.pollAt))
	}
	for _, c := range s.sorted((*claim).held) {
		switch e := c.entry(); {
		case c.run != nil:
			v.Running = append(v.Running, e)
		case c.waiting:
			v.Waiting = append(v.Waiting, e)
		default:
			v.Parked = append(v.Parked, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.holds)) {
		v.Holds = append(v.Holds, s.holds[name].Hold)
	}
	s.decide(now, func(c *candidate, d *Decision) {
		if d.Code != CodeStart && (c.claim == nil || !c.claim.held()) {
			v.Skipped = append(v.Skipped, Skipped{d.IssueID, d.Identifier, d.Code, d.Reason})
		}
	})
	return v
}

func (c *claim) entry() Entry {
	e := Entry{
		IssueID: c.id, Identifier: c.identifier, Attempt: c.rec.copy().Attempt,
		Streak: c.rec.Streak, Reason: c.rec.Reason, DueAt: c.rec.DueAt, Lifetime: c.rec.Lifetime,
	}
	if c.issue != nil {
		e.Title, e.URL, e.State = wire.Text(c.issue.Title), c.issue.URL, wire.Text(c.issue.State)
	}
	if c.rec.Parked != nil {
		e.Reason, e.ParkedAt = wire.Text(c.rec.Parked.Reason), c.rec.Parked.At
	}
	if r := c.run; r != nil {
		e.RunID, e.Harness, e.Reason = wire.Text(r.id), wire.Text(r.route.Harness), wire.Text(r.stop)
		e.Asking, e.Tokens = r.asking, r.tokens
	}
	return e
}
