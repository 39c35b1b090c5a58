package openhands

import (
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// shutdown ends the turn, then the requests and the socket, then the server where that
// is ours. All of it takes at most the grace and two seconds.
func (d *driver) shutdown(end *session.Ending) {
	d.Fail(end)
	if d.client != nil && d.turn.active {
		d.quietTurn(d.cfg.Grace / 2)
	}
	d.Close()
	d.stopServer()
}

// quietTurn interrupts the running turn and waits for its end.
func (d *driver) quietTurn(limit time.Duration) {
	d.turn.armed, d.turn.ran, d.turn.halt.Sent = true, true, false
	d.interrupt()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for d.turn.active && !d.turn.halt.failed {
		select {
		case f, ok := <-d.frames:
			d.heard(f, ok)
		case job := <-d.Jobs():
			job()
		case now := <-d.Ticks():
			d.Clocks.Advance(now)
			if c := d.turn.check; c > 0 && d.Clocks.Elapsed() >= c {
				d.confirm()
			}
		case <-timer.C:
			return
		case <-d.cfg.Hurry:
			return
		}
	}
}

// conclude writes down how the session ended.
func (d *driver) conclude(end *session.Ending) (*wire.Outcome, error) {
	d.closeConversation(end)
	end.Message = d.secrets.text(end.Message)
	// What is not answered may come to the server yet; the next run finds out.
	return d.Conclude(!d.turn.active && d.steers == 0, session.Result{
		End: end, Session: d.id, Turns: d.turns, FinalText: d.answer,
		Usage: d.meter.Own(), Model: d.model, Peer: &d.agent,
		Resumable: d.conv != nil && d.conv.Seeded,
	})
}

func (d *driver) closeConversation(end *session.Ending) {
	if d.conv == nil {
		return
	}
	d.conv.Status, d.conv.Usage = end.Outcome, d.meter.Total()
	if err := d.saveConversation(); err != nil {
		d.cfg.Warn("%v", err)
	}
}
