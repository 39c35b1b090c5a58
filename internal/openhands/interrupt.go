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
	letters []*session.Letter
	end     *session.Ending // of the run, where no text waits to start the next turn
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
		t.halt.accept(d)
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
		t.halt.refuse(d, err.Error())
		t.halt.sent, t.halt.failed = false, true
	case err == nil:
		t.halt.granted = true
		t.halt.accept(d)
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
	h.letters, h.end = append(h.letters, l), l.Ending()
	d.inbox.Sent(l)
	d.interrupt()
	if h.granted {
		h.accept(d)
	}
}

// Stop implements session.Steered.
func (d *driver) Stop(end *session.Ending) { d.fail(end) }

func (h *halt) accept(d *driver) {
	for _, l := range h.letters {
		d.inbox.Accepted(l, d.turn.id)
	}
	h.letters = nil
}

func (h *halt) refuse(d *driver, reason string) {
	for _, l := range h.letters {
		d.inbox.Refused(l, reason)
	}
	h.letters, h.end = nil, nil
}

// ended settles the requests at the end of the turn, whose answer may come later.
func (h *halt) ended(d *driver, interrupted bool) {
	if interrupted {
		h.accept(d)
		return
	}
	h.refuse(d, "the turn ended by itself")
}
