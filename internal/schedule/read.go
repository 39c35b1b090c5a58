package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// forPoll is the purpose of the reading that Poll asks for.
const forPoll Purpose = "poll"

// sweepEvery is how often what is only remembered is read: an issue that waits for a
// review for weeks costs little, and its folder goes when it is done.
const sweepEvery = 5 * time.Minute

// afterEnd is the shortest time between two passes that ends of runs call for.
const afterEnd = time.Second

// reads is what is known of the tracker's answers and when to ask again.
type reads struct {
	under Purpose   // what the reading under way is for; "" if there is none
	asked time.Time // when it was asked for
	at    time.Duration
	ids   []string

	pollAt          time.Duration // when the next pass is due
	sweepAt         time.Duration // when a pass reads what is only remembered, too
	poll, reconcile bool          // parts of a pass that are still to be done

	barredUntil time.Duration // the tracker's limit: no reading before
	confirmAt   time.Duration // no reading for a start before: the last one failed
	trouble     string        // why the last reading failed; "" if it did not

	asks    int           // readings asked for until now
	polls   int           // polls that were answered, well or not
	polled  int           // asks at the last poll that was answered well
	ended   int           // asks at the last end of a run
	pollEnd time.Duration // when the last poll was answered
}

// step asks for the next reading of the pass, or dispatches if none is wanted. Runs,
// ends and all that waits do not depend on it: a tracker that is down or at its
// limit holds up nothing but what needs it.
func (s *Scheduler) step() {
	r := &s.reads
	if !s.begun || r.under != "" || s.closing {
		return
	}
	s.schedulePass()
	if s.clock.t >= r.barredUntil {
		if s.reconcile() || s.poll() {
			return
		}
	}
	s.dispatch()
}

func (s *Scheduler) schedulePass() {
	r := &s.reads
	if s.clock.t < r.pollAt {
		return
	}
	r.pollAt = s.clock.t + max(s.cfg.Workflow.Polling.Interval, time.Second)
	r.reconcile = true
	r.poll = s.cfg.Mode == Forever || s.cfg.Mode == UntilIdle || r.polls == 0
}

// soon brings the next pass forward, but not so that a storm of ends becomes a
// storm of polls.
func (s *Scheduler) soon() {
	s.reads.pollAt = min(s.reads.pollAt, max(s.clock.t, s.reads.pollEnd+afterEnd))
}

func (s *Scheduler) reconcile() bool {
	if !s.reads.reconcile {
		return false
	}
	s.reads.reconcile = false
	sweep := s.clock.t >= s.reads.sweepAt
	if sweep {
		s.reads.sweepAt = s.clock.t + sweepEvery
	}
	var ids []string
	for _, c := range s.sorted(func(c *claim) bool {
		return c.tracked() || sweep && c.unfinished() && s.board.byID[c.id] == nil
	}) {
		ids = append(ids, c.id)
	}
	if len(ids) == 0 {
		return false
	}
	s.ask(ForReconcile, ids)
	return true
}

func (s *Scheduler) poll() bool {
	if !s.reads.poll {
		return false
	}
	s.reads.poll = false
	s.asking(forPoll, nil)
	s.act(Poll{})
	return true
}

func (s *Scheduler) ask(purpose Purpose, ids []string) {
	s.asking(purpose, ids)
	s.act(ReadIDs{IDs: ids, Purpose: purpose})
}

func (s *Scheduler) asking(purpose Purpose, ids []string) {
	r := &s.reads
	r.under, r.asked, r.at, r.ids = purpose, s.now, s.clock.t, ids
	r.asks++
}

// answered ends the reading under way and returns its purpose.
func (s *Scheduler) answered() Purpose {
	purpose := s.reads.under
	s.reads.under = ""
	s.look = true
	return purpose
}

func (s *Scheduler) polled(f Polled) {
	if s.answered() != forPoll {
		return
	}
	r := &s.reads
	r.polls++
	r.polled, r.pollEnd, r.trouble = r.asks, s.clock.t, ""
	s.show(f.Issues, r.asked, f.Complete)
	s.emitTick()
}

// show brings issues to the board and to their claims. A poll that is complete takes
// off the board what it does not show, except what is about to be retried: that is
// read by id, which tells for certain.
func (s *Scheduler) show(issues []*wire.Issue, read time.Time, all bool) {
	s.board.shown++
	var claimed []*wire.Issue
	for _, issue := range issues {
		c := s.claims[issue.ID]
		if c != nil {
			claimed = append(claimed, issue)
		}
		s.learnFrom(issue)
		shown, changed := s.board.put(issue, read)
		if shown != nil {
			shown.claim = c
		}
		if changed {
			shown.code, shown.why = s.obstacle(issue)
		}
	}
	if all {
		s.board.sweep(s.leaves)
	}
	for _, issue := range claimed {
		if c := s.claims[issue.ID]; c != nil {
			s.observe(c, issue)
		}
	}
}

// leaves reports whether an issue that a poll does not show goes off the board. What
// became of one that is remembered is asked for at once.
func (s *Scheduler) leaves(id string) bool {
	c := s.claims[id]
	if c == nil {
		return true
	}
	if c.unfinished() && !c.held() {
		c.unread, s.reads.reconcile = true, true
	}
	return !c.waiting
}

func (s *Scheduler) read(f Read) {
	purpose, read := s.answered(), s.reads.asked
	s.reads.trouble = ""
	if purpose == ForStart {
		// However long the answer took: a start cannot come closer to its reading.
		read = s.now
	}
	for _, id := range s.reads.ids {
		if c := s.board.byID[id]; c != nil && purpose == ForStart {
			c.silent = true
		}
	}
	s.show(f.Issues, read, false)
	for _, id := range f.Gone {
		s.board.remove(id)
		if c := s.claims[id]; c != nil {
			s.missing(c)
		}
	}
}

// pollFailed keeps what is known and asks again with the next pass.
func (s *Scheduler) pollFailed(f Failure) {
	s.answered()
	s.reads.polls++
	s.reads.pollEnd = s.clock.t
	s.trouble(f)
}

// readFailed keeps what is known. A pass goes on without a failed reconcile, so
// that one bad id cannot hold up the polls; starts wait for the next pass.
func (s *Scheduler) readFailed(f Failure) {
	if s.answered() == ForStart {
		s.reads.confirmAt = s.reads.pollAt
	}
	s.trouble(f)
}

func (s *Scheduler) trouble(f Failure) {
	r := &s.reads
	if wait := f.RetryAt.Sub(s.now); !f.RetryAt.IsZero() && wait > 0 {
		r.barredUntil = max(r.barredUntil, s.clock.t+wait)
		r.pollAt = r.barredUntil
	}
	told := fmt.Sprintf("%s: %s", f.Category, f.Message)
	if told == r.trouble {
		return
	}
	r.trouble = told
	s.emit(wire.Loop{Event: "tracker_error", Reason: wire.Text(told), DueAt: f.RetryAt})
}

func (s *Scheduler) emitTick() {
	var t struct {
		Issues  int `json:"issues"`
		Running int `json:"running"`
		Waiting int `json:"waiting"`
		Parked  int `json:"parked"`
	}
	t.Issues = len(s.board.byID)
	for _, c := range s.claims {
		switch {
		case c.run != nil:
			t.Running++
		case c.waiting:
			t.Waiting++
		case c.rec.Parked != nil:
			t.Parked++
		}
	}
	s.emit(wire.Loop{Event: "tick", Detail: detail(t)})
}

// detail encodes the plain values that this package puts into records.
func detail(v any) json.RawMessage {
	b, err := wire.Encode(v)
	if err != nil {
		return nil // numbers and strings always encode
	}
	return b
}
