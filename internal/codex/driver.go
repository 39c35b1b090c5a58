package codex

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	maxStrays    = 1000             // lines that are no frames, before the first frame
	drainLimit   = time.Second      // for frames still in the pipe of a server that ended
	systemError  = 30 * time.Second // from a systemError to the end of its turn
	maxToolCalls = 64               // tool calls that may be under way or wait
	toolWorkers  = 4                // tools that run at once
)

// driver is the state of one session. Everything in it belongs to the goroutine of
// Run; others hand it functions through jobs.
type driver struct {
	cfg    Config
	em     *session.Emitter
	clocks session.Clocks
	meter  session.Meter
	budget session.Budget
	asleep session.Suspension
	ticker *time.Ticker

	peer   *peer
	frames <-chan frame
	stop   <-chan struct{} // a polite stop; nil once heard
	gone   <-chan struct{} // the reader of stdout has gone; nil once heard
	exited <-chan struct{} // the server's process has ended; nil once heard
	fading bool            // it is going: its last frames are waited for
	faded  time.Duration   // since then
	why    string          // what became of the server

	jobs    chan func()
	work    sync.WaitGroup
	workCtx context.Context
	endWork context.CancelFunc
	slots   chan struct{}
	tools   int // calls under way or waiting

	nextID int64
	calls  map[string]*call
	framed bool // a frame has arrived
	strays int

	conv      *session.Conversation
	agent     wire.Peer
	thread    string
	resumed   bool // the thread is an earlier run's
	inbox     *session.Inbox
	queued    *session.Letter   // the text of the next turn, where an interrupt has found one
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
	end       *session.Ending
	started   time.Time
}

func newDriver(ctx context.Context, cfg Config) *driver {
	d := &driver{
		cfg: cfg, em: cfg.Emitter,
		clocks:  session.Clocks{Limits: cfg.Limits},
		budget:  cfg.Budget,
		asleep:  session.Suspension{Slept: cfg.Slept},
		ticker:  time.NewTicker(session.Tick),
		stop:    ctx.Done(),
		gone:    cfg.Emitter.Gone(),
		jobs:    make(chan func()),
		slots:   make(chan struct{}, toolWorkers),
		calls:   make(map[string]*call),
		asks:    make(map[string]*asked),
		turn:    &turn{},
		agent:   wire.Peer{Name: Harness},
		model:   wire.Model{Requested: wire.Text(cfg.Thread.Model)},
		started: cfg.Now(),
	}
	if cfg.Goal != "" {
		d.goal = &goal{}
	}
	d.workCtx, d.endWork = context.WithCancel(context.WithoutCancel(ctx))
	return d
}

// release ends what the session started besides the server.
func (d *driver) release() {
	d.endWork()
	d.work.Wait()
	d.ticker.Stop()
}

// session opens the thread and makes the turns.
func (d *driver) session(ctx context.Context) *session.Ending {
	d.em.Emit(wire.EventSessionPlanned, d.cfg.planned(), nil)
	d.inbox = session.OpenInbox(d.cfg.Place, d.em, d, session.InboxOptions{Harness: Harness, Now: d.cfg.Now, Watch: d.cfg.Watch})
	if err := d.connect(); err != nil {
		return session.EndingOf(err)
	}
	if err := d.open(); err != nil {
		return session.EndingOf(err)
	}
	plan := d.cfg.Plan
	if plan.Recheck != nil {
		plan.Recheck = d.pumped(plan.Recheck)
	}
	plan.Queued = d.nextQueued
	plan.Warn = func(err error) { d.warn("recheck", err.Error()) }
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
	case <-d.inbox.C():
		d.inbox.Deliver()
	case job := <-d.jobs:
		job()
	case err := <-d.peer.conn.broken:
		d.fade(fmt.Sprintf("codex app-server does not take its input: %v", err))
	case <-d.exited:
		d.exited = nil
		d.fade("codex app-server ended")
	case now := <-d.ticker.C:
		d.tick(now)
	case <-d.stop:
		d.stop = nil
		d.fail(session.Cancelled(wire.CauseShutdown, "the session was told to stop"))
	case <-d.gone:
		d.gone = nil
		d.fail(session.Cancelled(wire.CauseShutdown, "nobody reads the events any more"))
	}
	if d.end != nil {
		return d.end
	}
	return nil
}

// fail ends the session; the first reason stands.
func (d *driver) fail(end *session.Ending) {
	if d.end == nil {
		d.end = end
	}
}

// tick advances the clocks.
func (d *driver) tick(now time.Time) {
	d.asleep.Tell(d.em)
	if d.inbox.Asking() {
		d.clocks.Progress()
	}
	if end := d.clocks.Advance(now); end != nil && !d.doubtLogin(end) {
		if end.Outcome == wire.Stalled {
			d.em.Emit(wire.EventStalled, &wire.Notice{Message: end.Message}, nil)
		}
		d.fail(end)
	}
	step := d.clocks.Step()
	d.inbox.Tick(step)
	d.waitGoal(step)
	if d.fading && d.frames != nil {
		if d.faded += step; d.faded >= drainLimit {
			d.lost()
			return
		}
	}
	if d.turn.running() && d.turn.broken {
		if d.turn.ailing += step; d.turn.ailing > systemError {
			d.fail(d.turn.failure(d))
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
	d.fail(&session.Ending{Outcome: wire.Failed, Category: wire.CausePeerDied, Message: why, Detail: d.peer.logNote()})
}

// post hands a job to the session's goroutine, unless the session is over.
func (d *driver) post(job func()) {
	select {
	case d.jobs <- job:
	case <-d.workCtx.Done():
	}
}

// pumped runs a recheck beside the session, so that frames and signals are heard
// meanwhile.
func (d *driver) pumped(recheck func(context.Context) (*wire.Issue, error)) func(context.Context) (*wire.Issue, error) {
	return func(ctx context.Context) (*wire.Issue, error) {
		var issue *wire.Issue
		var err error
		done := false
		d.work.Go(func() {
			i, e := recheck(d.workCtx)
			d.post(func() { issue, err, done = i, e, true })
		})
		for !done {
			if end := d.step(); end != nil {
				return nil, end
			}
		}
		return issue, err
	}
}

func (d *driver) warn(code, message string) {
	d.em.Emit(wire.EventWarning, &wire.Notice{Code: wire.Text(code), Message: message}, nil)
}
