package openhands

import (
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/session"
)

// halt is what is under way to end a turn early.
type halt struct {
	session.Halt
	failed bool // the server could not be told
	raced  bool // a text was on its way, which may let the agent run again
	since  time.Duration
}

// interrupt asks the server, once, to end the turn. What waits for leave is declined
// instead, since an interrupt would change nothing there.
func (d *driver) interrupt() {
	t := d.turn
	t.halt.Wanted = true
	if !t.active || !t.armed && d.asked == nil || t.telling || t.halt.Sent || d.id == "" {
		return
	}
	t.halt.Sent, t.halt.failed = true, false
	t.halt.raced, t.halt.since = d.steers > 0, d.Clocks.Elapsed()
	if d.asked != nil {
		t.halt.Granted = true
		t.halt.Accept(d.Inbox, d.turn.id)
		d.answerAsked(false, "the turn is being ended", approval.Declined, false)
		return
	}
	d.send(requestInterrupt(d.id), func(_ gjson.Result, err error) {
		switch statusOf(err) {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			d.warn("pause", "agent-server cannot interrupt, and is asked to pause")
			d.send(requestPause(d.id), func(_ gjson.Result, err error) { d.interrupted(t, err) })
			return
		}
		d.interrupted(t, err)
	})
}

func (d *driver) interrupted(t *turn, err error) {
	switch {
	case err != nil && t.active:
		t.halt.Refuse(d.Inbox, err.Error())
		t.halt.failed = true
	case err == nil:
		t.halt.Granted = true
		t.ran = true // if it does not run by now, that is over
		t.halt.Accept(d.Inbox, d.turn.id)
		if t.active && t.check == 0 {
			t.check = d.Clocks.Elapsed() + session.Tick
		}
		d.interruptAgain()
	}
}

// interruptAgain ends what a text has let begin that came to the server behind the
// interrupt, or may have.
func (d *driver) interruptAgain() {
	if h := &d.turn.halt; h.raced && h.Granted && d.steers == 0 {
		h.raced, h.Sent = false, false
		d.interrupt()
	}
}

// Interrupt implements session.Steered.
func (d *driver) Interrupt(l *session.Letter) {
	d.turn.halt.Take(d.Inbox, l, d.turn.active, d.turn.id, d.interrupt)
}

// Stop implements session.Steered.
func (d *driver) Stop(end *session.Ending) { d.Fail(end) }
