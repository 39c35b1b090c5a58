package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
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
func (c *command) session(ctx context.Context, rec *wire.Workspace) error {
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
			"end the Codex that has the thread open, or begin a new one with --resume never")
	}
	if finishErr := a.Finish(ctx, out); finishErr != nil {
		c.env.Warnf("%s, which cannot be written down: %v", ended(out), finishErr)
	}
	if closeErr := c.drain(ctx, em); closeErr != nil {
		c.env.Warnf("print the events: %v", closeErr)
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
func (c *command) attach(ctx context.Context, rec *wire.Workspace) (*run.Attachment, error) {
	a, err := run.Attach(ctx, rec, run.Host{Getenv: c.env.Getenv, Stdout: c.env.Stdout, Now: c.env.Now, Rand: c.env.Rand})
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
func (c *command) output() session.Output {
	o := session.Output{
		Stdout:  c.env.Stdout,
		Raw:     c.options.raw,
		Secrets: session.Values(c.env.Environ, session.Withheld(c.workflow.Tracker.Secrets, nil)),
		Now:     c.env.Now,
		Warn:    c.env.Warnf,
	}
	if !c.options.quiet && isTerminal(c.env.Stderr) {
		o.People, o.Brief = c.env.Stderr, isTerminal(c.env.Stdout)
	}
	return o
}

// drain waits until stdout has everything; once we are told to stop, not for long.
func (c *command) drain(ctx context.Context, em *session.Emitter) error {
	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(drainWait, cancel) })
	defer stop()
	return em.Close(limited)
}

// run makes the session between the begin and the end of its run. The outcome is nil
// where the thread belongs to somebody else.
func (c *command) run(ctx context.Context, place session.Place, em *session.Emitter, swept []proc.Process) (*wire.Outcome, error) {
	for _, p := range swept {
		em.Emit(wire.EventWarning, &wire.Notice{Code: "swept", Message: fmt.Sprintf("process %d of an earlier run was ended", p.Pid)}, nil)
	}
	begun := c.env.Now()
	refuse := func(end *session.Ending) (*wire.Outcome, error) {
		now := c.env.Now()
		out, err := place.Outcome(session.Result{End: end, Model: wire.Model{Requested: wire.Text(c.model(place.Workspace))}, Started: begun, Ended: now})
		return out, errors.Join(err, em.Outcome(out))
	}
	cfg, end := c.config(place, em)
	if end != nil {
		return refuse(end)
	}
	if c.options.dryRun {
		return codex.DryRun(cfg)
	}
	temp, err := makeTemp(place.RunID)
	if err != nil {
		return refuse(session.Failf(wire.CauseState, "make the agent's TMPDIR: %v", err))
	}
	defer func() { _ = os.RemoveAll(temp) }() // the end of the run does it again and tells
	trace, err := c.openTrace()
	if err != nil {
		return refuse(session.Failf(wire.CauseState, "open the trace: %v", err))
	}
	if trace != nil {
		defer func() { _ = trace.Close() }()
		cfg.Trace = trace
	}
	if cfg.Tools, end = c.openTools(ctx, place); end != nil {
		return refuse(end)
	}
	return codex.Run(ctx, cfg)
}

func (c *command) openTrace() (io.WriteCloser, error) {
	if c.options.trace == "" {
		return nil, nil
	}
	return os.OpenFile(c.path(c.options.trace), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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
