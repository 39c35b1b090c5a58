package openhands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"ostoolkit/internal/openhands/spawn"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// maxRestarts bounds how often a session has a server started again that has died.
const maxRestarts = 2

// ReadyLimit is how long a server of our own may take to start: it computes for 20 s on
// a slow machine before it listens, and two at once take twice as long.
const ReadyLimit = 2 * time.Minute

// server is a session's use of a server of our own. A nil one is somebody else's.
type server struct {
	use      *spawn.Server          // belongs to the job that opens it, or starts it again
	holds    map[string]*spawn.Hold // by conversation
	restarts int
	starting bool // such a job is under way
}

// spawn starts the server, or joins the sessions that use it, and waits until it
// answers.
func (d *driver) spawn() error {
	d.server = &server{starting: true, holds: make(map[string]*spawn.Hold)}
	s := d.server
	var failed error
	d.Beside(func(ctx context.Context) {
		use, err := spawn.Open(ctx, *d.cfg.Server.Spawn)
		s.use = use // also where nobody hears of it any more: stopServer leaves it then
		d.Post(func() { s.starting, failed = false, err })
	})
	if err := session.Until(d.step, func() bool { return !s.starting }); err != nil {
		return err
	}
	if failed != nil {
		return startFailure(failed)
	}
	if mine := d.cfg.Server.Spawn.Command; !slices.Equal(s.use.Command, mine) {
		d.warn("server_command", fmt.Sprintf("the agent-server that others share with us was started with %q, not %q", s.use.Command, mine))
	}
	d.cfg.Server.URL, d.cfg.Server.Key = s.use.URL, s.use.Key
	d.secrets = newRedactor(d.cfg.secrets())
	return nil
}

// startFailure is the ending of a session whose server cannot be had.
func startFailure(err error) *session.Ending {
	category := wire.CauseUnavailable
	var refusal *state.Refusal
	if errors.As(err, &refusal) || errors.Is(err, fs.ErrPermission) {
		category = wire.CauseState
	}
	return session.Failf(category, "%v", err)
}

// watchServer has a server started again that has died; the conversation is on disk.
func (d *driver) watchServer() {
	s := d.server
	if s == nil || s.starting || d.End != nil || !s.use.Gone() {
		return
	}
	died := &session.Ending{Outcome: wire.Failed, Category: wire.CausePeerDied,
		Message: "the agent-server has died", Detail: "its output is in " + spawn.LogFile(d.cfg.Server.Spawn.Dir)}
	if s.restarts++; s.restarts > maxRestarts {
		died.Message = fmt.Sprintf("the agent-server has died %d times", s.restarts)
		d.Fail(died)
		return
	}
	d.warn("server_restarted", "the agent-server has died, and is started again")
	s.starting = true
	d.Beside(func(ctx context.Context) {
		err := s.use.Again(ctx)
		d.Post(func() {
			s.starting = false
			switch {
			case err != nil:
				died.Message = fmt.Sprintf("the agent-server has died: %v", err)
				d.Fail(died)
			case s.use.URL != d.cfg.Server.URL:
				died.Message = "the agent-server has died, and its port is taken"
				d.Fail(died)
			}
		})
	})
}

// hold says that the conversation runs for us, before it does: if we are killed it does
// not go on for nobody.
func (d *driver) hold() error {
	if d.server == nil || d.server.holds[d.id] != nil {
		return nil
	}
	id := d.id
	h, err := session.Await(d.Loop, d.step, func(ctx context.Context) (*spawn.Hold, error) {
		return spawn.Take(ctx, d.cfg.Server.Spawn.Dir, id)
	})
	switch {
	case isEnding(err):
		return err
	case err != nil:
		return session.Failf(wire.CauseState, "%v", err)
	}
	d.server.holds[id] = h
	return nil
}

// stopServer leaves the server, which ends with its last session. A server that makes a
// call of a tool takes half a minute to end, so the turn was interrupted before. All
// jobs have ended.
func (d *driver) stopServer() {
	if d.server == nil || d.server.use == nil {
		return
	}
	for _, h := range d.server.holds {
		if err := h.Release(!d.turn.active); err != nil {
			d.cfg.Warn("%v", err)
		}
	}
	if err := d.server.use.CloseWithin(d.cfg.Grace/2, d.cfg.Hurry); err != nil {
		d.cfg.Warn("%v", err)
	}
}
