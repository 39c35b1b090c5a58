package loop

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// worker sees one run to its end: one that it starts, or one that it finds. Its
// goroutine owns it; halt is the owner of the driver's.
type worker struct {
	d          *driver
	issueID    string
	identifier string
	runID      string
	dir        state.Dir
	key        string
	files      startFiles
	launch     *launch       // nil: the run was found
	hooks      time.Duration // what os-workspace may take for one hook
	quiet      bool          // its harness owes no events: a script of somebody's

	once  sync.Once
	stop  chan struct{} // closed by halt; the rest is set before
	grace time.Duration
	cause string // one of schedule's Stop… words
}

// launch is what a run is started with.
type launch struct {
	record []byte // the workspace record
	argv   []string
}

// halt tells the run to end. Another call changes nothing.
func (w *worker) halt(a schedule.Stop) {
	w.once.Do(func() {
		w.grace, w.cause = a.Grace, a.Cause
		close(w.stop)
	})
}

// see returns the last fact of the run, or nil if ctx ended first: the run goes on
// then without us.
func (w *worker) see(ctx context.Context) schedule.Fact {
	first, err := w.supervisor(ctx)
	if err != nil {
		category := wire.CauseState
		if cli.Status(err) == cli.StatusConfig { // a program is missing
			category = wire.CauseConfig
		}
		w.d.warnAbout("clean up the start of "+w.identifier, w.files.remove())
		return schedule.RunFailedToStart{IssueID: w.issueID, Category: category, Message: err.Error()}
	}
	if w.launch != nil {
		w.d.fact(schedule.RunStarted{IssueID: w.issueID, RunID: w.runID})
	}
	over := make(chan struct{})
	var follower sync.WaitGroup
	follower.Go(func() { w.follow(ctx, over) })
	out := w.end(ctx, first)
	close(over)
	follower.Wait()
	if ctx.Err() != nil {
		return nil
	}
	w.d.warnAbout("clean up after "+w.runID, w.files.remove())
	return schedule.RunEnded{IssueID: w.issueID, RunID: w.runID, Outcome: out, Fingerprint: w.fingerprint()}
}

// end waits for the supervisor and for whoever has the lock after it, and finds out
// how the run ended.
func (w *worker) end(ctx context.Context, first *keeper) *wire.Outcome {
	if !w.wait(ctx, first) {
		return nil
	}
	if !exists(string(w.dir.Run(w.runID))) {
		return w.unbegun(first)
	}
	for range settleTries {
		if out := w.written(); out != nil {
			return out
		}
		// A killed supervisor leaves its harness the lock.
		if !w.wait(ctx, w.heir(ctx)) {
			return nil
		}
		if out := w.written(); out != nil {
			return out
		}
		if w.conclude(ctx); ctx.Err() != nil {
			return nil
		}
	}
	return w.outcome(wire.Interrupted, wire.CauseInternal, "the run's end could not be written down; the next run does it")
}

// settleTries bounds how often somebody else may take the lock while we settle.
const settleTries = 5

// keeper is who keeps a run going.
type keeper struct {
	done   <-chan struct{}
	signal func(syscall.Signal)
	exit   func() (proc.Exit, bool) // after done; false: nobody knows
}

// wait returns true once the keeper has ended. A stop is asked for politely, then at
// once, then forced.
func (w *worker) wait(ctx context.Context, k *keeper) bool {
	select {
	case <-k.done:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	case <-w.stop:
	}
	for _, r := range w.ladder(k) {
		if !r.step() {
			continue
		}
		timer := time.NewTimer(r.wait)
		select {
		case <-k.done:
		case <-ctx.Done():
		case <-r.hurry:
		case <-timer.C:
		}
		timer.Stop()
		if ended(k.done) || ctx.Err() != nil {
			return ctx.Err() == nil
		}
	}
	// Only a process that the kernel holds back gets here.
	select {
	case <-k.done:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// rung is one step of a stop. step reports whether it could be done.
type rung struct {
	step  func() bool
	wait  time.Duration
	hurry <-chan struct{} // the next one at once
}

func (w *worker) ladder(k *keeper) []rung {
	send := func(sig syscall.Signal) func() bool {
		return func() bool {
			k.signal(sig)
			return true
		}
	}
	hurry := w.d.Hurry
	return []rung{
		{func() bool { return !ended(hurry) && w.sayWhy() }, w.grace, hurry},
		{send(syscall.SIGTERM), w.grace + slack + w.hooks, hurry},
		// A second signal means now. It is another one: two of the same may arrive as one.
		{send(syscall.SIGINT), killWait + w.hooks, nil},
		{send(syscall.SIGKILL), killWait, nil},
	}
}

// sayWhy stops a session through its mailbox, so that its outcome names the cause: a
// signal only ever says shutdown. It reports whether there is a turn to be stopped.
func (w *worker) sayWhy() bool {
	if w.cause != schedule.StopOperator && w.cause != schedule.StopTracker || !w.listens() {
		return false
	}
	o := mailbox.SendOptions{Kinds: mailbox.SessionKinds, Now: w.d.Now, Rand: w.d.Rand}
	_, err := mailbox.Send(w.d.ctx, w.dir.Mailbox(), mailbox.Request{Kind: mailbox.Stop, Reason: w.cause}, o)
	return err == nil // else a signal does it
}

// listens reports whether a turn of this run reads its mailbox, as any program may.
func (w *worker) listens() bool {
	active, err := mailbox.ReadActive(w.dir.Mailbox())
	return err == nil && active != nil && active.RunID == w.runID
}

const (
	slack    = 5 * time.Second // what a supervisor takes beyond its grace, its harness's KILL included
	killWait = 10 * time.Second
)

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// supervisor starts os-workspace run, or finds the one that an earlier os-loop
// started.
func (w *worker) supervisor(ctx context.Context) (*keeper, error) {
	if w.launch == nil {
		return w.found(ctx, w.files.in(), func(sig syscall.Signal) { w.signalHolders(w.files.in(), sig) }), nil
	}
	child, err := w.startSupervisor(ctx)
	if err != nil {
		return nil, err
	}
	return &keeper{
		done:   child.Done(),
		signal: func(sig syscall.Signal) { w.d.warnAbout("stop "+w.identifier, child.Signal(sig)) },
		exit:   func() (proc.Exit, bool) { return child.Exit(), true },
	}, nil
}

func (w *worker) startSupervisor(ctx context.Context) (*proc.Child, error) {
	if err := state.WriteFile(w.files.in(), w.launch.record); err != nil {
		return nil, err
	}
	lock, err := state.Acquire(ctx, w.files.in())
	if err != nil {
		return nil, err
	}
	// Closed, never unlocked: the supervisor's copy keeps the lock.
	defer func() { _ = lock.File().Close() }()
	out, err := os.OpenFile(w.files.out(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the supervisor writes to its own
	errs, err := os.OpenFile(w.files.err(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errs.Close() }() // as above
	child, err := proc.Start(proc.Spec{
		Argv: w.launch.argv, Dir: w.d.programs.dir, Env: w.d.Environ,
		Stdin: lock.File(), Stdout: out, Stderr: errs, Session: true,
	})
	if err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	return child, nil
}

// heir is whoever holds the issue's lock.
func (w *worker) heir(ctx context.Context) *keeper {
	return w.found(ctx, w.dir.Lock(), w.signalHeir)
}

// found is the keeper of a locked file.
func (w *worker) found(ctx context.Context, lock string, signal func(syscall.Signal)) *keeper {
	done := make(chan struct{})
	w.d.tasks.Go(func() {
		defer close(done)
		w.d.warnAbout("wait for "+w.identifier, awaitFree(ctx, lock))
	})
	return &keeper{done: done, signal: signal, exit: func() (proc.Exit, bool) { return proc.Exit{}, false }}
}

// awaitFree returns once nobody holds the lock, or when ctx ends.
func awaitFree(ctx context.Context, lock string) error {
	for {
		holders, err := proc.Holders(lock)
		if err != nil || len(holders) == 0 {
			return err
		}
		for _, h := range holders {
			if err := proc.Await(ctx, h); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// signalHeir tells the harness; what shares the lock with it besides is only ended by
// force.
func (w *worker) signalHeir(sig syscall.Signal) {
	m, err := readRun(w.dir)
	harness := proc.Process{}
	if err == nil && m != nil && m.RunID == w.runID {
		harness = proc.Process{Pid: m.PID, Started: m.PIDStart, Name: "harness"}
	}
	if harness.Pid == 0 || sig == syscall.SIGKILL || !proc.Alive(harness.Pid, harness.Started) {
		w.signalHolders(w.dir.Lock(), sig)
		return
	}
	w.d.warnAbout("stop "+w.identifier, proc.SignalTo(harness, sig))
}

func (w *worker) signalHolders(lock string, sig syscall.Signal) {
	holders, err := proc.Holders(lock)
	w.d.warnAbout("stop "+w.identifier, err)
	for _, h := range holders {
		w.d.warnAbout("stop "+w.identifier, proc.SignalTo(h, sig))
	}
}
