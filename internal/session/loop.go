package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"ostoolkit/internal/wire"
)

// Loop is the part of a session that no peer's protocol shapes: its clocks, its mailbox,
// the work beside it, and its end. A driver embeds it and, in a select of its own, waits
// for its peer and for Inbox.C, Jobs and Ticks: that is one step of the session.
//
// Post and Beside may be called from other goroutines; all else belongs to the session's.
type Loop struct {
	Clocks Clocks
	Inbox  *Inbox  // set by OpenInbox
	Queued *Letter // the text of the next turn, where an interrupt has found one
	End    *Ending // nil while the session goes on

	cfg    Config
	em     *Emitter
	begun  time.Time
	asleep Suspension
	ticker *time.Ticker
	jobs   chan func()
	work   sync.WaitGroup
	ctx    context.Context // of the work beside the session
	cancel context.CancelFunc
}

// NewLoop begins a session. Cancelling ctx is a polite stop of it, and so is a stdout
// that nobody reads any more. Close ends it.
func NewLoop(ctx context.Context, cfg Config) *Loop {
	l := &Loop{
		Clocks: Clocks{Limits: cfg.Limits},
		cfg:    cfg,
		em:     cfg.Emitter,
		begun:  cfg.Now(),
		asleep: Suspension{Slept: cfg.Slept},
		ticker: time.NewTicker(Tick),
		jobs:   make(chan func()),
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.Beside(func(work context.Context) {
		select {
		case <-ctx.Done():
			l.stopped("the session was told to stop")
		case <-l.em.Gone():
			l.stopped("nobody reads the events any more")
		case <-work.Done():
		}
	})
	return l
}

func (l *Loop) stopped(why string) {
	l.Post(func() { l.Fail(Cancelled(wire.CauseShutdown, why)) })
}

// OpenInbox takes the mailbox over for a driver of that harness; see OpenInbox.
func (l *Loop) OpenInbox(harness string, driver Steered) {
	l.Inbox = OpenInbox(l.cfg.Place, l.em, driver, InboxOptions{Harness: harness, Now: l.cfg.Now, Watch: l.cfg.Watch})
}

// Jobs brings what Post was given, to be called.
func (l *Loop) Jobs() <-chan func() { return l.jobs }

// Ticks is ready when it is time to Tick.
func (l *Loop) Ticks() <-chan time.Time { return l.ticker.C }

// Fail ends the session; the first reason stands.
func (l *Loop) Fail(end *Ending) {
	if l.End == nil {
		l.End = end
	}
}

// Err is the end of the session as an error, nil while it goes on.
func (l *Loop) Err() error {
	if l.End == nil {
		return nil
	}
	return l.End
}

// Conclude closes the mailbox and writes down how the session ended. over says that no
// turn runs; see Inbox.Close. What is still to be told of r, Conclude adds.
func (l *Loop) Conclude(over bool, r Result) (*wire.Outcome, error) {
	r.Undelivered = l.Inbox.Close(over)
	r.Started, r.Ended = l.begun, l.cfg.Now()
	out, err := l.cfg.Place.Outcome(r)
	return out, errors.Join(err, l.em.Outcome(out))
}

// Warn prints a warning.
func (l *Loop) Warn(code, message string) {
	l.em.Emit(wire.EventWarning, &wire.Notice{Code: wire.Text(code), Message: message}, nil)
}

// Tick advances the clocks and returns the ending of a limit that is passed, or nil;
// whether that ends the session is for the driver to say, see Exceeded. The clocks of
// the mailbox are advanced by Inbox.Tick, after that.
func (l *Loop) Tick(now time.Time) *Ending {
	l.asleep.Tell(l.em)
	if l.Inbox.Asking() {
		l.Clocks.Progress()
	}
	return l.Clocks.Advance(now)
}

// Exceeded ends the session because of a limit that is passed.
func (l *Loop) Exceeded(end *Ending) {
	if end.Outcome == wire.Stalled {
		l.em.Emit(wire.EventStalled, &wire.Notice{Message: end.Message}, nil)
	}
	l.Fail(end)
}

// Post hands a job to the session's goroutine, and waits until it is taken, unless the
// session is over before.
func (l *Loop) Post(job func()) {
	select {
	case l.jobs <- job:
	case <-l.ctx.Done():
	}
}

// Beside runs do beside the session. Its context ends with the session, which waits for
// it.
func (l *Loop) Beside(do func(context.Context)) {
	l.work.Go(func() { do(l.ctx) })
}

// Context is that of the work beside the session.
func (l *Loop) Context() context.Context { return l.ctx }

// After has a job called in the session's goroutine after wait, unless the session is
// over before.
func (l *Loop) After(wait time.Duration, job func()) {
	l.Beside(func(ctx context.Context) {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			l.Post(job)
		case <-ctx.Done():
		}
	})
}

// Cancel tells the work beside the session to end.
func (l *Loop) Cancel() { l.cancel() }

// Close ends the work beside the session and waits for it. It may be called twice.
func (l *Loop) Close() {
	l.cancel()
	l.work.Wait()
	l.ticker.Stop()
}

// Until takes step after step until done says so. An error is a step's.
func Until(step func() error, done func() bool) error {
	for !done() {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Await runs do beside the session and takes step after step until it has ended. The
// error is a step's, which is the *Ending of the session, or else that of do.
func Await[T any](l *Loop, step func() error, do func(context.Context) (T, error)) (T, error) {
	var result T
	var err error
	done := false
	l.Beside(func(ctx context.Context) {
		r, failed := do(ctx)
		l.Post(func() { result, err, done = r, failed, true })
	})
	if end := Until(step, func() bool { return done }); end != nil {
		var none T
		return none, end
	}
	return result, err
}

// Plan lets p take part in the session: the issue is read beside it, and texts that wait
// start turns.
func (l *Loop) Plan(p Plan, step func() error) Plan {
	if again := p.Recheck; again != nil {
		p.Recheck = func(context.Context) (*wire.Issue, error) { return Await(l, step, again) }
	}
	p.Queued = l.next
	p.Warn = func(err error) { l.Warn("recheck", err.Error()) }
	return p
}

// next returns the text that is to start the next turn.
func (l *Loop) next() *Letter {
	found := l.Queued
	if l.Queued = nil; found == nil {
		found = l.Inbox.Next()
	}
	return found
}

// Halted is what becomes of the session once h has ended a turn: it goes on, nil, where
// a text waits to start the next one.
func (l *Loop) Halted(h *Halt) error {
	if l.Queued = l.Inbox.Next(); l.Queued != nil {
		return nil
	}
	return h.End
}
