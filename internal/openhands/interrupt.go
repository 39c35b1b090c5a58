package openhands

import (
	"net/http"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
)

// halt is what is under way to end a turn early.
type halt struct {
	wanted  bool // its end is asked for
	sent    bool // and the server was told
	granted bool // the server does it
	failed  bool // it could not be told
	session.Halt
}

// interrupt asks the server, once, to end the turn. What waits for leave is declined
// instead, since an interrupt would change nothing there.
func (d *driver) interrupt() {
	t := d.turn
	t.halt.wanted = true
	if !t.active || t.halt.sent || d.id == "" {
		return
	}
	t.halt.sent, t.halt.failed = true, false
	if d.asked != nil {
		t.halt.granted = true
		t.halt.Accept(d.inbox, d.turn.id)
		d.answerAsked(false, "the turn is being ended", declined, false)
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
		t.halt.Refuse(d.inbox, err.Error())
		t.halt.sent, t.halt.failed = false, true
	case err == nil:
		t.halt.granted = true
		t.halt.Accept(d.inbox, d.turn.id)
		if t.active && t.check == 0 {
			t.check = d.clocks.Elapsed() + session.Tick
		}
	}
}

// Interrupt implements session.Steered.
func (d *driver) Interrupt(l *session.Letter) {
	if !d.turn.active {
		d.inbox.Refused(l, "no turn runs")
		return
	}
	h := &d.turn.halt
	h.Add(d.inbox, l)
	d.interrupt()
	if h.granted {
		h.Accept(d.inbox, d.turn.id)
	}
}

// Stop implements session.Steered.
func (d *driver) Stop(end *session.Ending) { d.fail(end) }
