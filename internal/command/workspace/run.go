package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/run"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// ensure is the verb: folder and after_create.
func (c *command) ensure(ctx context.Context, in wire.Record) error {
	rec, err := c.issue(in)
	if err != nil || rec == nil {
		return err
	}
	p, out, err := c.place(rec)
	if err != nil {
		return err
	}
	return c.locked(ctx, p, func(*state.Lock) error {
		if err := c.endAttempt(ctx, p); err != nil {
			return err
		}
		log := func(hook string) string { return filepath.Join(string(p.Dir), hook+".log") }
		created, _, err := c.store.Ensure(ctx, p, log)
		if err != nil {
			return fmt.Errorf("issue %q: %w", p.Issue.Identifier, err)
		}
		out.Created = created
		return c.out.Write(out)
	})
}

// endAttempt ends what is left of an ensure that was killed: its after_create must not
// go on beside ours. A workspace that is ready has no such rest, and to look through
// all processes for each would be slow.
func (c *command) endAttempt(ctx context.Context, p workspace.Place) error {
	ready, begun, err := c.store.Ready(p)
	if err != nil || ready || !begun {
		return err
	}
	swept, err := run.Sweep(ctx, p.Dir, "")
	c.warnSwept(swept)
	return err
}

// begin is the verb: settle, a new run, before_run.
func (c *command) begin(ctx context.Context, in wire.Record) error {
	rec, err := c.issue(in)
	if err != nil || rec == nil {
		return err
	}
	p, out, err := c.place(rec)
	if err != nil {
		return err
	}
	out.Created = rec.Created
	return c.locked(ctx, p, func(*state.Lock) error {
		ready, _, err := c.store.Ready(p)
		if err == nil && !ready {
			err = fmt.Errorf("issue %q: workspace %q is not ready, os-workspace ensure makes it so", p.Issue.Identifier, p.Path)
		}
		if err != nil {
			return err
		}
		life := c.life(p, out)
		if err = c.settle(ctx, life); err == nil {
			err = life.Begin("", out.Attempt)
		}
		if err != nil {
			return err
		}
		if err := life.Prepare(ctx); err != nil {
			return c.finish(ctx, life, c.failure(life, err), err)
		}
		if err := c.out.Write(out); err != nil {
			// Nobody got the record, so that nobody can end the run.
			end := life.End(ctx, life.Outcome(wire.Cancelled, wire.CauseShutdown, err.Error()))
			return errors.Join(err, stateError(end))
		}
		return nil
	})
}

// end is the verb: after_run and the outcome on disk.
func (c *command) end(ctx context.Context, in wire.Record) error {
	out, ok := in.(*wire.Outcome)
	if !ok {
		if u, ok := in.(*wire.Unknown); ok {
			return c.out.Write(u)
		}
		return nil
	}
	if out.Workspace == nil || out.RunID == "" || !out.Known() {
		return cli.Errorf(cli.StatusData, "outcome record of run %q has no workspace, no run or no known outcome", out.RunID)
	}
	entry := c.store.Entry(string(out.Workspace.Key))
	if entry.Err != nil {
		return stateError(entry.Err)
	}
	p := entry.Place()
	return c.locked(ctx, p, func(*state.Lock) error {
		life := c.life(p, p.Record())
		if err := life.Resume(out.RunID); err != nil {
			return err
		}
		swept, err := run.Sweep(ctx, p.Dir, "")
		c.warnSwept(swept)
		if err != nil {
			return err
		}
		return c.finish(ctx, life, out, nil)
	})
}

// run is the verb: one whole run.
func (c *command) run(ctx context.Context, in wire.Record) error {
	rec, err := c.issue(in)
	if err != nil || rec == nil {
		return err
	}
	p, out, err := c.place(rec)
	if err != nil {
		return c.refused(out, runID(rec), err)
	}
	if ctx.Err() != nil {
		cause := &wire.OutcomeError{Category: wire.CauseShutdown, Message: "stopped before the run was begun"}
		return errors.Join(c.unstarted(out, runID(rec), wire.Cancelled, cause), cli.Exit(cli.StatusCancelled))
	}
	begun := false
	err = c.locked(ctx, p, func(lock *state.Lock) error {
		life := c.life(p, out)
		err := c.settle(ctx, life)
		if err == nil {
			err = life.Begin(runID(rec), out.Attempt)
		}
		if err != nil {
			return err
		}
		begun = true
		outcome, err := c.supervise(ctx, life, p, lock)
		if err != nil {
			outcome = c.failure(life, err)
		}
		return c.finish(ctx, life, outcome, err)
	})
	if begun {
		return err
	}
	return c.refused(out, runID(rec), err)
}

// runID is the id that the record gives to the run that is to be, or "".
func runID(rec *wire.Workspace) string {
	if rec.Run == nil {
		return ""
	}
	return rec.Run.ID
}

// supervise brings the folder up and sees the harness through.
func (c *command) supervise(ctx context.Context, life *run.Life, p workspace.Place, lock *state.Lock) (*wire.Outcome, error) {
	log := life.RunDir().HookLog
	if err := state.MakeDir(filepath.Dir(log("after_create"))); err != nil {
		return nil, err
	}
	created, results, err := c.store.Ensure(ctx, p, log)
	life.Workspace.Created = created
	if err := errors.Join(err, life.Record(results...)); err != nil {
		return nil, err
	}
	if err := life.Prepare(ctx); err != nil {
		return nil, err
	}
	c.follow(life)
	return life.Supervise(ctx, run.Harness{
		Argv: c.argv, Dir: c.env.Dir, Environ: c.env.Environ, Workflow: c.flow.Path,
		Lock: lock, Grace: c.grace, Hurry: c.env.Hurry(),
	})
}

// settle ends what an earlier run left, and tells of it.
func (c *command) settle(ctx context.Context, life *run.Life) error {
	out, swept, err := life.Settle(ctx)
	c.warnSwept(swept)
	if err != nil || out == nil {
		return err
	}
	c.env.Warnf("run %s had no owner any more and was settled as %s", out.RunID, out.Outcome)
	return c.out.Write(out)
}

func (c *command) warnSwept(swept []proc.Process) {
	for _, p := range swept {
		c.env.Warnf("ended process %d (%s), which an earlier run had left", p.Pid, p.Name)
	}
}

// failure is the outcome of a run that came to an end before or beside its harness.
func (c *command) failure(life *run.Life, err error) *wire.Outcome {
	var hook *workspace.HookError
	var start *run.StartError
	category := wire.CauseState
	switch {
	case errors.As(err, &hook) && hook.Result.Status == workspace.HookCancelled:
		return life.Outcome(wire.Cancelled, wire.CauseShutdown, inOne(err))
	case errors.As(err, &hook):
		category = wire.CauseHookFailed
	case errors.As(err, &start):
		category = wire.CauseUnavailable
	}
	return life.Outcome(wire.Failed, category, inOne(err))
}

// finish ends the run and prints its outcome. Where the end cannot be written down
// that and the first cause are one message.
func (c *command) finish(ctx context.Context, life *run.Life, out *wire.Outcome, cause error) error {
	endErr := life.End(ctx, out)
	if endErr != nil {
		endErr = cli.Errorf(cli.StatusState, "write down the end of run %s: %s", out.RunID, inOne(cause, endErr))
	} else if cause != nil {
		endErr = cli.Errorf(out.ExitStatus(), "issue %q: %w", out.Identifier, cause)
	}
	c.followedUp()
	err := c.out.Write(out)
	c.told = c.told || err == nil
	if endErr == nil && (err == nil || errors.Is(err, cli.ErrStdoutClosed)) {
		endErr = cli.Exit(out.ExitStatus())
	}
	return errors.Join(err, endErr)
}

// inOne says in one line what led to what.
func inOne(errs ...error) string {
	return strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; ")
}

// refused is the end of a run that could not even be begun: an outcome is printed,
// nothing on disk is touched. Without a record, and where the issue is only busy,
// there is none.
func (c *command) refused(rec *wire.Workspace, id string, err error) error {
	if rec == nil || cli.Status(err) != cli.StatusState {
		return err
	}
	cause := &wire.OutcomeError{Category: wire.CauseState, Message: err.Error()}
	return errors.Join(err, c.unstarted(rec, id, wire.Failed, cause))
}

// unstarted prints the outcome of a run that never was. id is the caller's name for the
// run, or "".
func (c *command) unstarted(rec *wire.Workspace, id, outcome string, cause *wire.OutcomeError) (err error) {
	now := c.env.Now()
	if state.CheckRunID(id) != nil {
		if id, err = state.NewRunID(now, c.env.Rand); err != nil {
			return err
		}
	}
	out := &wire.Outcome{
		Time: wire.At(now), RunID: id, Outcome: outcome, Error: cause,
		IssueID: wire.Text(rec.Issue.ID), Identifier: wire.Text(rec.Issue.Identifier),
		Workspace: &wire.WorkspaceRef{Key: wire.Text(rec.Key), Path: wire.Text(rec.Path), StateDir: wire.Text(rec.StateDir)},
	}
	err = c.out.Write(out)
	c.told = c.told || err == nil
	return err
}
