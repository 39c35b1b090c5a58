package session

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// Tick is how often a session looks at its clocks.
const Tick = 200 * time.Millisecond

// Limits bound a session. 0 is no limit.
type Limits struct {
	Total time.Duration // the whole run
	Turn  time.Duration // one turn
	Stall time.Duration // without progress
}

// Clocks count towards Limits. A tick adds at most twice its own length, so that a
// stopped or suspended process, or a starved machine, costs nothing.
type Clocks struct {
	Limits Limits

	last               time.Time
	step               time.Duration
	total, turn, stall time.Duration
	inTurn             bool
}

// Progress restarts the stall clock. Retry chatter and messages of our own are no
// progress.
func (c *Clocks) Progress() { c.stall = 0 }

// Turn starts or stops the clock of a turn.
func (c *Clocks) Turn(running bool) {
	c.inTurn, c.turn = running, 0
	c.Progress()
}

// Advance adds the time since the last call and returns the ending of the first
// limit that is passed, or nil. now must have a monotonic reading to survive a
// change of the wall clock.
func (c *Clocks) Advance(now time.Time) *Ending {
	if c.last.IsZero() {
		c.last = now
	}
	c.step = min(max(0, now.Sub(c.last)), 2*Tick)
	c.last = now
	c.total += c.step
	c.stall += c.step
	if c.inTurn {
		c.turn += c.step
	}
	switch l := c.Limits; {
	case passed(c.total, l.Total):
		return timedOut("the run is over its limit of %s", l.Total)
	case passed(c.turn, l.Turn):
		return timedOut("the turn is over its limit of %s", l.Turn)
	case c.inTurn && passed(c.stall, l.Stall):
		return &Ending{Outcome: wire.Stalled, Category: wire.Stalled, Message: fmt.Sprintf("no progress for %s", l.Stall)}
	}
	return nil
}

// Elapsed returns the time that all calls of Advance have added: the session's own
// clock, for limits that are none of Limits.
func (c *Clocks) Elapsed() time.Duration { return c.total }

// Step returns what the last Advance has added, for other clocks of the session.
func (c *Clocks) Step() time.Duration { return c.step }

func passed(d, limit time.Duration) bool { return limit > 0 && d >= limit }

func timedOut(format string, limit time.Duration) *Ending {
	return &Ending{Outcome: wire.TimedOut, Category: wire.TimedOut, Message: fmt.Sprintf(format, limit)}
}
