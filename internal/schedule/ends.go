package schedule

import (
	"time"

	"ostoolkit/internal/wire"
)

// again is the wait after an end that is nobody's fault, and the shortest one
// between two runs of an issue that do not belong together.
const again = 5 * time.Second

// continuation is the reason of a wait that follows a success.
const continuation = "continuation"

// sentence is what follows from an end.
type sentence struct {
	reason  string // for the record; "" is the key of the table
	park    bool
	release bool
	backoff bool          // the streak goes up, and the wait follows from it
	wait    time.Duration // otherwise
	free    bool          // as if the run had not been: no attempt, no run, no streak
	keep    bool          // the next run carries the same attempt
	worked  bool          // the agent had its say: the brake looks at what it left
}

// sentences has a line for every outcome, for every category of a failure and of a
// cancellation, and for every cause of a stop.
var sentences = map[string]sentence{
	wire.Succeeded:      {reason: continuation, wait: time.Second, worked: true},
	wire.Stalled:        {backoff: true, worked: true},
	wire.TimedOut:       {backoff: true, worked: true},
	wire.InputRequired:  {park: true},
	wire.BudgetExceeded: {park: true},
	wire.RateLimited:    {wait: time.Second, free: true},
	wire.Interrupted:    {backoff: true, keep: true},

	wire.CauseProvider:      {backoff: true},
	wire.CauseContextWindow: {backoff: true},
	wire.CauseNoAnswer:      {backoff: true},
	wire.CausePeerDied:      {backoff: true},
	wire.CauseHookFailed:    {backoff: true},
	wire.CausePrompt:        {backoff: true},
	wire.CauseInternal:      {backoff: true},
	wire.CauseProtocol:      {backoff: true},
	StopLaunch:              {backoff: true},

	wire.CauseAuth:        {wait: time.Second, free: true},
	wire.CausePermission:  {wait: time.Second, free: true},
	wire.CauseNotFound:    {wait: time.Second, free: true},
	wire.CauseUnavailable: {wait: time.Second, free: true},
	wire.CauseConfig:      {wait: time.Second, free: true},
	wire.CauseState:       {park: true},
	wire.CauseBusy:        {wait: again, free: true},
	wire.CauseSuperseded:  {wait: again, free: true},

	wire.CauseOperator: {park: true},
	wire.CauseTracker:  {release: true},
	wire.CauseShutdown: {wait: again, free: true},
}

// causeOf names the line of an outcome: itself, or its category.
func causeOf(o *wire.Outcome) string {
	if o.Outcome != wire.Failed && o.Outcome != wire.Cancelled {
		return o.Outcome
	}
	if o.Error != nil {
		return o.Error.Category
	}
	return ""
}

// sentenceOf returns what follows from o for a run that was told to stop for the
// cause stop, or was not. A run that got to its own end in spite of it keeps that,
// but an operator's and the tracker's word stand in any case.
func sentenceOf(o *wire.Outcome, stop string) sentence {
	key := causeOf(o)
	cut := o.Outcome == wire.Cancelled || o.Outcome == wire.Interrupted
	if stop == StopOperator || stop == StopTracker || stop != "" && cut {
		key = stop
	}
	v, ok := sentences[key]
	switch {
	case ok:
	case o.Outcome == wire.Cancelled:
		key = wire.CauseOperator
		v = sentences[key]
	default:
		key = wire.CauseInternal
		v = sentences[key]
	}
	if v.reason == "" {
		v.reason = key
	}
	return v
}

// end is the one path of every end: a run that ended, one that did not start, and
// one that was found ended.
func (s *Scheduler) end(c *claim, o *wire.Outcome, fingerprint string) {
	v := sentenceOf(o, c.run.stop)
	v.free = v.free || s.cfg.DryRun
	s.account(c, o, v, fingerprint)
	s.tellEnd(c, o, v)
	s.charge(c.run.route.Harness, o)
	c.done = s.cfg.Mode == Once || s.cfg.DryRun
	s.look = true
	s.reads.ended = s.reads.asks
	s.soon()
	s.sequel(c, v)
}

// account writes the run into the issue's record.
func (s *Scheduler) account(c *claim, o *wire.Outcome, v sentence, fingerprint string) {
	rec := &c.rec
	if c.run.id != "" { // what did not begin has none, and the last one still counts
		rec.RunID = wire.Text(c.run.id)
	}
	rec.Reason, rec.Stopping = wire.Text(v.reason), ""
	tokens := c.run.tokens
	if o.Usage != nil && o.Usage.TotalTokens != nil {
		tokens = max(tokens, *o.Usage.TotalTokens)
	}
	rec.Lifetime.Tokens += tokens
	rec.Lifetime.Seconds += o.DurationMS / 1000
	if v.free {
		rec.Lifetime.Runs = max(0, rec.Lifetime.Runs-1)
		return
	}
	if !v.keep {
		rec.Attempt = following(rec.Attempt)
	}
	if v.worked {
		rec.remember(c.left(fingerprint), s.cfg.Workflow.Budget.NoProgressRuns)
	}
	if v.backoff {
		rec.Streak++
	} else {
		rec.Streak = 0
	}
}

func following(attempt *int64) *int64 {
	if attempt == nil {
		return wire.Count(1)
	}
	return wire.Count(*attempt + 1)
}

// sequel decides where the issue stands now.
func (s *Scheduler) sequel(c *claim, v sentence) {
	why := s.unwanted(c.issue)
	switch {
	case c.issue != nil && c.issue.Category == wire.CategoryTerminal:
		s.complete(c, why)
		return
	case why != "":
		s.release(c, why)
		return
	case v.release:
		s.release(c, v.reason)
		return
	}
	c.run = nil
	switch spent := s.spent(c); {
	case v.park:
		s.park(c, v.reason)
	case spent != "":
		s.park(c, spent)
	case v.backoff:
		s.wait(c, backoff(c.rec.Streak, s.cfg.Workflow.Agent.MaxRetryBackoff))
	default:
		s.wait(c, v.wait)
	}
}

// firstBackoff is the wait after the first failure in a row.
const firstBackoff = 10 * time.Second

// backoff doubles with each failure in a row, up to limit.
func backoff(streak int, limit time.Duration) time.Duration {
	d := firstBackoff
	for i := 1; i < streak && d < limit; i++ {
		d *= 2
	}
	return max(again, min(d, limit))
}

func (s *Scheduler) tellEnd(c *claim, o *wire.Outcome, v sentence) {
	l := c.loop("ended", v.reason)
	l.Outcome = o.Outcome
	if c.run.attempt != nil {
		l.Attempt = wire.Count(*c.run.attempt)
	}
	if o.Error != nil {
		l.Detail = detail(o.Error)
	}
	s.emit(l)
}
