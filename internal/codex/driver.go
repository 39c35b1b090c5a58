package codex

import (
	"context"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	maxStrays   = 1000             // lines that are no frames, before the first frame
	drainLimit  = time.Second      // for frames still in the pipe of a server that ended
	systemError = 30 * time.Second // from a systemError to the end of its turn
)

// driver is the state of one session. Everything in it belongs to the goroutine of
// Run; others hand it functions by Post.
type driver struct {
	*session.Loop
	cfg    Config
	em     *session.Emitter
	meter  session.Meter
	budget session.Budget

	peer   *peer
	frames <-chan frame
	exited <-chan struct{} // the server's process has ended; nil once heard
	fading bool            // it is going: its last frames are waited for
	faded  time.Duration   // since then
	why    string          // what became of the server

	nextID int64
	calls  map[string]*call
	framed bool // a frame has arrived
	strays int

	conv      *session.Conversation
	agent     wire.Peer
	thread    string
	resumed   bool              // the thread is an earlier run's
	asks      map[string]*asked // questions that wait for the mailbox, by our id
	userItem  string            // the newest user item that was seen
	steers    int               // that are not answered
	model     wire.Model
	turn      *turn
	goal      *goal // nil: the run has none
	turns     int64
	finalText string
	limits    gjson.Result // the newest rate limits
	login     login
}

func newDriver(ctx context.Context, cfg Config) *driver {
	d := &driver{
		Loop: session.NewLoop(ctx, cfg.Config),
		cfg:  cfg, em: cfg.Emitter,
		budget: cfg.Budget,
		calls:  make(map[string]*call),
		asks:   make(map[string]*asked),
		turn:   &turn{},
		agent:  wire.Peer{Name: Harness},
		model:  wire.Model{Requested: wire.Text(cfg.Thread.Model)},
	}
	if cfg.Goal != "" {
		d.goal = &goal{}
	}
	return d
}

// session opens the thread and makes the turns.
func (d *driver) session(ctx context.Context) *session.Ending {
	d.em.Emit(wire.EventSessionPlanned, d.cfg.planned(), nil)
	d.OpenInbox(Harness, d)
	if err := d.connect(); err != nil {
		return session.EndingOf(err)
	}
	if err := d.open(); err != nil {
		return session.EndingOf(err)
	}
	plan := d.Plan(d.cfg.Plan, d.step)
	if d.goal == nil {
		return plan.Run(ctx, d.conv.Seeded, d.runTurn)
	}
	plan.Again = true // until the goal has ended
	return plan.Run(ctx, d.conv.Seeded, d.pursue)
}

func (d *driver) connect() error {
	dial := d.cfg.dial
	if dial == nil {
		dial = d.cfg.launch
	}
	p, err := dial()
	if err != nil {
		return err
	}
	d.peer, d.frames, d.exited = p, p.conn.frames, p.exited()
	return nil
}

// step waits for the next thing that happens, at the latest the next tick, and deals
// with it. An error is the *session.Ending of the session, which the caller must give
// up for.
func (d *driver) step() error {
	select {
	case f, ok := <-d.frames:
		if !ok {
			d.lost()
			break
		}
		d.handle(&f)
	case <-d.Inbox.C():
		d.Inbox.Deliver()
	case job := <-d.Jobs():
		job()
	case err := <-d.peer.conn.broken:
		d.fade(fmt.Sprintf("codex app-server does not take its input: %v", err))
	case <-d.exited:
		d.exited = nil
		d.fade("codex app-server ended")
	case now := <-d.Ticks():
		d.tick(now)
	}
	return d.Err()
}

// tick advances the clocks.
func (d *driver) tick(now time.Time) {
	if end := d.Tick(now); end != nil && !d.doubtLogin(end) {
		d.Exceeded(end)
	}
	step := d.Clocks.Step()
	d.Inbox.Tick(step)
	d.waitGoal(step)
	if d.fading && d.frames != nil {
		if d.faded += step; d.faded >= drainLimit {
			d.lost()
			return
		}
	}
	if d.turn.running() && d.turn.broken {
		if d.turn.ailing += step; d.turn.ailing > systemError {
			d.Fail(d.turn.failure(d))
		}
	}
}

// fade notes that the server is going: what it has written already still counts,
// since the end of a turn may be in the pipe.
func (d *driver) fade(why string) {
	if !d.fading {
		d.fading, d.why = true, why
	}
}

// lost ends the session of a server whose frames have ended.
func (d *driver) lost() {
	d.frames = nil
	exit := d.peer.await(drainLimit, d.cfg.Hurry)
	why := d.why
	if why == "" {
		why = "codex app-server closed its output"
	}
	if exit != "" {
		why = "codex app-server ended with " + exit
	}
	if d.turn.running() {
		why += " in the middle of a turn"
	}
	d.Fail(&session.Ending{Outcome: wire.Failed, Category: wire.CausePeerDied, Message: why, Detail: d.peer.logNote()})
}
