package codex

import (
	"context"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// killWait bounds the wait for processes to be gone after SIGKILL.
const killWait = 500 * time.Millisecond

// shutdown ends the server: the turn first, then its input, then the process, then
// whatever it has left. All of it takes at most the grace and two seconds.
func (d *driver) shutdown(end *session.Ending) {
	if d.peer == nil {
		return
	}
	d.Cancel()
	d.Fail(end)
	if d.frames != nil && !d.fading {
		d.interrupt() // before questions are declined, so that the agent does not go on
		d.declineAsks()
		d.quietTurn(d.cfg.Grace / 2)
	}
	d.stopServer(d.cfg.Grace / 4)
	if d.cfg.Sweep != nil {
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		d.cfg.Sweep(ctx)
	}
	d.drain()
	d.peer.conn.close()
}

// quietTurn interrupts the running turn and waits for its end.
func (d *driver) quietTurn(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for d.turn.active && d.frames != nil && !d.fading {
		if !d.hear(timer.C) {
			return
		}
	}
}

// hear deals with one frame while the session is being stopped. It reports false
// once limit is ready or somebody is in a hurry.
func (d *driver) hear(limit <-chan time.Time) bool {
	select {
	case f, ok := <-d.frames:
		if !ok {
			d.frames = nil
			return true
		}
		d.handle(&f)
	case err := <-d.peer.conn.broken:
		d.fade(err.Error())
	case <-d.exited:
		d.exited = nil
		d.fade("codex app-server ended")
	case <-limit:
		return false
	case <-d.cfg.Hurry:
		return false
	}
	return true
}

// stopServer walks down the ladder beside a loop that goes on reading, since a
// server that cannot write does not end.
func (d *driver) stopServer(wait time.Duration) {
	d.peer.conn.closeInput()
	child := d.peer.child
	if child == nil {
		return
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		child.Stop(d.cfg.Hurry,
			proc.Step{Wait: wait},
			child.Send(syscall.SIGTERM, wait),
			child.Send(syscall.SIGKILL, killWait))
	}()
	for {
		select {
		case f, ok := <-d.frames:
			if !ok {
				d.frames = nil
				continue
			}
			d.handle(&f)
		case <-stopped:
			return
		}
	}
}

// drain takes the frames that are left in the pipe of a server that has ended.
func (d *driver) drain() {
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	for d.frames != nil && d.peer.child != nil {
		select {
		case f, ok := <-d.frames:
			if !ok {
				d.frames = nil
				break
			}
			d.handle(&f)
		case <-timer.C:
			return
		case <-d.cfg.Hurry:
			return
		}
	}
}

// conclude writes down how the session ended.
func (d *driver) conclude(end *session.Ending) (*wire.Outcome, error) {
	if d.peer != nil {
		d.agent.Exit = d.peer.exit()
	}
	d.closeConversation(end)
	if end.Silent() {
		d.Inbox.Leave()
		return nil, end
	}
	return d.Conclude(!d.turn.active, session.Result{
		End: end, Session: d.thread, Turns: d.turns, FinalText: d.finalText,
		Usage: d.meter.Own(), Model: d.model, Peer: &d.agent,
		// A thread whose first turn has begun is kept, though it may want the prompt again.
		Resumable: d.conv != nil && (d.conv.Seeded || d.turn.begun),
	})
}

func (d *driver) closeConversation(end *session.Ending) {
	if d.conv == nil {
		return
	}
	d.conv.Status, d.conv.Usage = end.Outcome, d.meter.Total()
	if err := d.SaveConversation(d.conv); err != nil {
		d.cfg.Warn("%v", err)
	}
}
