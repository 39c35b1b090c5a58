package openhands

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
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

	client  *client
	server  *server // nil: somebody else's
	secrets redactor
	link    *link
	frames  <-chan frame    // nil: no socket is followed
	stop    <-chan struct{} // a polite stop; nil once heard
	gone    <-chan struct{} // the reader of stdout has gone; nil once heard

	jobs    chan func()
	work    sync.WaitGroup
	workCtx context.Context
	endWork context.CancelFunc

	conv    *session.Conversation
	agent   wire.Peer
	id      string // of the conversation
	resumed bool   // it is an earlier run's
	log     journal
	reach   reach
	inbox   *session.Inbox
	queued  *session.Letter // the text of the next turn, where an interrupt has found one
	asked   *asked          // what waits for leave; nil: nothing
	steers  int             // messages that are not answered
	posted  []posted        // messages that are not seen in the log
	tools   map[string]*call
	model   wire.Model
	turn    *turn
	turns   int64
	answer  string // the text of the last turn's end
	end     *session.Ending
	started time.Time
}

func newDriver(ctx context.Context, cfg Config) (*driver, error) {
	d := &driver{
		cfg: cfg, em: cfg.Emitter,
		clocks:  session.Clocks{Limits: cfg.Limits},
		budget:  cfg.Budget,
		asleep:  session.Suspension{Slept: cfg.Slept},
		ticker:  time.NewTicker(session.Tick),
		secrets: newRedactor(cfg.secrets()),
		stop:    ctx.Done(),
		gone:    cfg.Emitter.Gone(),
		jobs:    make(chan func()),
		log:     journal{seen: make(map[string]bool)},
		tools:   make(map[string]*call),
		turn:    &turn{},
		agent:   wire.Peer{Name: Harness},
		model:   wire.Model{Requested: wire.Text(cfg.Agent.Model)},
		started: cfg.Now(),
	}
	d.workCtx, d.endWork = context.WithCancel(context.WithoutCancel(ctx))
	return d, nil
}

// release ends what the session started besides the server.
func (d *driver) release() {
	d.endWork()
	d.work.Wait()
	d.ticker.Stop()
	if d.client != nil {
		d.client.close()
	}
}

// session opens the conversation and makes the turns.
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
	end := plan.Run(ctx, d.conv.Seeded, d.runTurn)
	if end.FinishedBy == session.FinishedByAgent && d.turn.bare {
		end.FinishedBy = finishedByMessage
	}
	return end
}

// connect makes the client, and the server where that is ours.
func (d *driver) connect() error {
	if d.cfg.Server.Spawn != nil {
		if err := d.spawn(); err != nil {
			return err
		}
	}
	c, err := newClient(d.cfg.Server, newTracer(d.cfg.Trace, d.cfg.Now, d.secrets), d.secrets)
	if err != nil {
		return err
	}
	d.client = c
	return nil
}

// step waits for the next thing that happens, at the latest the next tick, and deals
// with it. An error is the *session.Ending of the session, which the caller must give
// up for.
func (d *driver) step() error {
	select {
	case f, ok := <-d.frames:
		d.heard(f, ok)
	case <-d.inbox.C():
		d.inbox.Deliver()
	case job := <-d.jobs:
		job()
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
	if end := d.clocks.Advance(now); end != nil {
		if end.Outcome == wire.Stalled {
			end.Detail = d.lastKnown()
			d.em.Emit(wire.EventStalled, &wire.Notice{Message: end.Message}, nil)
		}
		d.fail(end)
	}
	d.watchServer()
	step := d.clocks.Step()
	d.inbox.Tick(step)
	d.watch(step)
}

// post hands a job to the session's goroutine, unless ctx ends before.
func (d *driver) post(ctx context.Context, job func()) {
	select {
	case d.jobs <- job:
	case <-ctx.Done():
	}
}

// send makes a request beside the session; then gets its answer in the session's
// goroutine, unless the session is over before.
func (d *driver) send(r request, then func(gjson.Result, error)) {
	ctx, c := d.workCtx, d.client
	d.work.Go(func() {
		result, err := c.do(ctx, r)
		d.post(ctx, func() { then(result, err) })
	})
}

// call makes a request and waits for its answer; all else goes on meanwhile. The error
// is the *session.Ending of the session, or that of the request.
func (d *driver) call(r request) (gjson.Result, error) {
	var result gjson.Result
	var err error
	done := false
	d.send(r, func(got gjson.Result, failed error) { result, err, done = got, failed, true })
	for !done {
		if end := d.step(); end != nil {
			return gjson.Result{}, end
		}
	}
	return result, err
}

// sleep lets the session go on for a while.
func (d *driver) sleep(wait time.Duration) error {
	for due := d.clocks.Elapsed() + wait; d.clocks.Elapsed() < due; {
		if err := d.step(); err != nil {
			return err
		}
	}
	return nil
}

// pumped runs a recheck beside the session, so that frames and signals are heard
// meanwhile.
func (d *driver) pumped(recheck func(context.Context) (*wire.Issue, error)) func(context.Context) (*wire.Issue, error) {
	return func(context.Context) (*wire.Issue, error) {
		var issue *wire.Issue
		var err error
		done := false
		ctx := d.workCtx
		d.work.Go(func() {
			i, e := recheck(ctx)
			d.post(ctx, func() { issue, err, done = i, e, true })
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
	d.em.Emit(wire.EventWarning, &wire.Notice{Code: wire.Text(code), Message: d.secrets.text(message)}, nil)
}

// isEnding reports whether err ends the session, as opposed to a single request.
func isEnding(err error) bool {
	var end *session.Ending
	return errors.As(err, &end)
}
