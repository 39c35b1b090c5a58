package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/run"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// drainWait bounds the wait for a reader of stdout once we have been told to stop.
const drainWait = time.Second

// session makes one session in the workspace of rec. Its error carries the exit
// status; an outcome has been printed unless the error says something.
func (c *Command) session(ctx context.Context, rec *wire.Workspace) error {
	a, err := c.attach(ctx, rec)
	if err != nil {
		return err
	}
	place := session.Place{Workspace: rec, RunID: a.Life.RunID(), Run: a.Life.RunDir(), State: state.Dir(rec.StateDir), Log: a.Log}
	em, err := session.NewEmitter(place, c.output())
	if err != nil {
		out := a.Life.Outcome(wire.Failed, wire.CauseState, err.Error())
		return errors.Join(cli.Errorf(cli.StatusState, "%w", err), a.Finish(ctx, out))
	}
	out, err := c.run(ctx, place, em, a.Swept)
	if out == nil {
		end := session.EndingOf(err)
		out, err = a.Life.Outcome(wire.Failed, end.Category, end.Message), cli.WithHint(cli.Errorf(cli.StatusTemporary, "%s", end.Message),
			"%s", c.driver.BusyHint())
	}
	if finishErr := a.Finish(ctx, out); finishErr != nil {
		c.Env.Warnf("%s, which cannot be written down: %v", ended(out), finishErr)
	}
	if closeErr := c.drain(ctx, em); closeErr != nil {
		c.Env.Warnf("print the events: %v", closeErr)
	}
	if err != nil {
		return err
	}
	return cli.Exit(out.ExitStatus())
}

// ended says how a run has ended, for people.
func ended(out *wire.Outcome) string {
	text := "the run has ended as " + out.Outcome
	if out.Error != nil {
		text += " (" + out.Error.Message + ")"
	}
	return text
}

// attach finds out for which run the session is made; see run.Attach.
func (c *Command) attach(ctx context.Context, rec *wire.Workspace) (*run.Attachment, error) {
	a, err := run.Attach(ctx, rec, run.Host{Getenv: c.Env.Getenv, Stdout: c.Env.Stdout, Now: c.Env.Now, Rand: c.Env.Rand})
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, state.ErrBusy), errors.Is(err, run.ErrSuperseded):
		return nil, cli.Errorf(cli.StatusTemporary, "workspace %q: %w", rec.Key, err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, cli.Errorf(cli.StatusState, "workspace %q: %w", rec.Key, err)
}

// output says where the records go. Where a person watches both streams on one
// screen, the events are said once, in words.
func (c *Command) output() session.Output {
	o := session.Output{
		Stdout:  c.Env.Stdout,
		Raw:     c.Options.Raw,
		Secrets: append(c.driver.Secrets(c), session.Values(c.Env.Environ, session.Withheld(c.Workflow.Tracker.Secrets, nil))...),
		Now:     c.Env.Now,
		Warn:    c.Env.Warnf,
	}
	if !c.Options.Quiet && isTerminal(c.Env.Stderr) {
		o.People, o.Brief = c.Env.Stderr, isTerminal(c.Env.Stdout)
	}
	return o
}

// drain waits until stdout has everything; once we are told to stop, not for long.
func (c *Command) drain(ctx context.Context, em *session.Emitter) error {
	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(drainWait, cancel) })
	defer stop()
	return em.Close(limited)
}

// run makes the session between the begin and the end of its run. The outcome is nil
// where the session belongs to somebody else.
func (c *Command) run(ctx context.Context, place session.Place, em *session.Emitter, swept []proc.Process) (*wire.Outcome, error) {
	for _, p := range swept {
		em.Emit(wire.EventWarning, &wire.Notice{Code: "swept", Message: fmt.Sprintf("process %d of an earlier run was ended", p.Pid)}, nil)
	}
	begun := c.Env.Now()
	out, err := c.drive(ctx, place, em)
	var end *session.Ending
	if out != nil || !errors.As(err, &end) || end.Silent() {
		return out, err
	}
	out, err = place.Outcome(session.Result{
		End: end, Model: wire.Model{Requested: wire.Text(c.Model(place.Workspace))}, Started: begun, Ended: c.Env.Now(),
	})
	return out, errors.Join(err, em.Outcome(out))
}

// drive lets the driver make the session, with a private TMPDIR and the trace.
func (c *Command) drive(ctx context.Context, place session.Place, em *session.Emitter) (*wire.Outcome, error) {
	j := &Job{Place: place, Emitter: em}
	if c.Options.DryRun {
		return c.driver.Session(ctx, c, j)
	}
	temp, err := makeTemp(place.RunID)
	if err != nil {
		return nil, session.Failf(wire.CauseState, "make the agent's TMPDIR: %v", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // the end of the run does it again and tells
	if c.Options.Trace != "" {
		f, err := os.OpenFile(c.path(c.Options.Trace), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return nil, session.Failf(wire.CauseState, "open the trace: %v", err)
		}
		defer func() { _ = f.Close() }()
		j.Trace = f
	}
	return c.driver.Session(ctx, c, j)
}

// makeTemp makes the run's private TMPDIR. One that is there already is taken over
// only if it is ours and a folder, since /tmp is everybody's.
func makeTemp(runID string) (string, error) {
	dir := state.TempDir(runID)
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, os.ErrExist) {
		return dir, err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !fi.IsDir() || !ownedByUs(fi) {
		return "", &state.Refusal{Path: dir, Reason: "is there already and not ours"}
	}
	return dir, os.Chmod(dir, 0o700)
}
