package codex

import (
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
)

// halt is what is under way to end a turn early.
type halt struct {
	session.Halt
	early bool // the server was told before it had said that the turn runs
}

// interrupt asks the server, once, to end the turn. A turn that has no id yet, or that
// the server has not begun, is ended as soon as it can be.
func (d *driver) interrupt() {
	t := d.turn
	t.halt.Wanted = true
	if !t.active || t.halt.Sent || t.id == "" {
		return
	}
	t.halt.Sent, t.halt.early = true, !t.begun
	c := d.send(methodInterrupt, d.interruptParams(t))
	c.then = func(_ gjson.Result, err error) { d.interruptAnswered(t, err) }
}

func (d *driver) interruptParams(t *turn) map[string]string {
	return map[string]string{"threadId": d.thread, "turnId": t.current()}
}

func (d *driver) interruptAnswered(t *turn, err error) {
	found := staleTurn(err)
	switch {
	case err == nil:
		t.halt.Granted = true
		t.halt.Accept(d.Inbox, d.turn.id)
	case !t.active: // it has ended by itself
	case found != "" && t.target == "":
		t.target, t.halt.Sent = found, false
		d.interrupt()
	case strings.Contains(err.Error(), noActiveTurn) && t.halt.early:
		t.halt.Sent = false // turnRuns asks again, or has been here already
		if t.begun {
			d.interrupt()
		}
	default:
		t.halt.Refuse(d.Inbox, err.Error())
	}
}

// turnRuns takes the server's word that the turn runs.
func (d *driver) turnRuns(id string) {
	d.turn.begun = true
	d.turnBegan(id)
	if d.turn.halt.Wanted {
		d.interrupt()
	}
}

// Interrupt implements session.Steered.
func (d *driver) Interrupt(l *session.Letter) {
	d.turn.halt.Take(d.Inbox, l, d.turn.active, d.turn.id, d.interrupt)
}

// Stop implements session.Steered.
func (d *driver) Stop(end *session.Ending) { d.Fail(end) }
