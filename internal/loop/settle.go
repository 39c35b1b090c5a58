package loop

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// hookLimit bounds os-workspace where it runs one hook.
func (d *driver) hookLimit() time.Duration { return d.flow.Hooks.Timeout + time.Minute }

// written returns the outcome of the run as it was written down, or nil where the
// run has not been ended.
func (w *worker) written() *wire.Outcome {
	m, err := readRun(w.dir)
	if err != nil {
		return w.outcome(wire.Failed, wire.CauseState, err.Error())
	}
	if m != nil && m.RunID == w.runID && m.Status != runEnded {
		return nil
	}
	var out wire.Outcome
	err = state.ReadJSON(w.dir.Run(w.runID).Outcome(), &out)
	switch {
	case err == nil && out.Known():
		return w.complete(&out)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return w.lastWord()
	}
	return w.outcome(wire.Failed, wire.CauseState, err.Error())
}

// fingerprint of what the run left in its folder, or "" where nobody took it.
func (w *worker) fingerprint() string {
	m, err := readRun(w.dir)
	if err != nil || m == nil || m.RunID != w.runID || m.Status != runEnded {
		return ""
	}
	return m.Fingerprint
}

// conclude has os-workspace end a run that its owner left open. The lock is free, as
// far as one can see.
func (w *worker) conclude(ctx context.Context) {
	line, err := wire.Marshal(w.lastWord())
	if err != nil {
		w.d.warnAbout("end "+w.identifier, err)
		return
	}
	r, err := w.d.programs.ask(ctx, w.hooks, append(line, '\n'), "os-workspace", "end", "--workflow", w.d.programs.workflow)
	defer r.close()
	if err != nil && ctx.Err() == nil {
		w.d.warnAbout("end "+w.identifier, err)
	}
}

// lastWord is the outcome in the run's log, or a made-up one.
func (w *worker) lastWord() *wire.Outcome {
	out, _, err := state.LastOutcome(w.dir.Run(w.runID).Events(), w.runID)
	if err != nil || out == nil {
		out = w.outcome(wire.Interrupted, wire.CauseInternal, "the owner of the run died and left no outcome")
		out.Resumable = true
	}
	return w.complete(out)
}

// complete fills in what the outcome of a script may leave out.
func (w *worker) complete(out *wire.Outcome) *wire.Outcome {
	out.IssueID = cmp.Or(out.IssueID, wire.Text(w.issueID))
	out.Identifier = cmp.Or(out.Identifier, wire.Text(w.identifier))
	if out.Workspace == nil {
		out.Workspace = w.place()
	}
	return out
}

func (w *worker) place() *wire.WorkspaceRef {
	return &wire.WorkspaceRef{Key: wire.Text(w.key), StateDir: wire.Text(w.dir)}
}

// outcome is one that no harness printed.
func (w *worker) outcome(outcome, category, message string) *wire.Outcome {
	return &wire.Outcome{
		Time: wire.At(w.d.Now()), RunID: w.runID, IssueID: wire.Text(w.issueID), Identifier: wire.Text(w.identifier),
		Outcome: outcome, Error: &wire.OutcomeError{Category: category, Message: message}, Workspace: w.place(),
	}
}

// unbegun is the outcome of a start that came to nothing: os-workspace says why by its
// output, by its status, or not at all.
func (w *worker) unbegun(k *keeper) *wire.Outcome {
	exit, known := k.exit()
	said := w.stderr()
	if out := w.refusal(); out != nil {
		return out
	}
	switch status := exit.Status(); {
	case !known, known && status == cli.StatusTemporary:
		return w.outcome(wire.Failed, wire.CauseBusy, said)
	case exit.Signal != 0:
		return w.outcome(wire.Interrupted, wire.CauseInternal, "os-workspace was ended by "+exit.String()+" before it had begun")
	case status == cli.StatusState:
		return w.outcome(wire.Failed, wire.CauseState, said)
	case status == cli.StatusConfig, status == cli.StatusNoInput:
		return w.outcome(wire.Failed, wire.CauseConfig, said)
	}
	return w.outcome(wire.Failed, wire.CauseInternal, said)
}

// unbegun reports whether an outcome stands for a start that another run was in the
// way of. Such a one has no outcome record.
func unbegun(o *wire.Outcome) bool {
	return o.Outcome == wire.Failed && o.Error != nil &&
		(o.Error.Category == wire.CauseBusy || o.Error.Category == wire.CauseSuperseded)
}

// refusal is the outcome that os-workspace printed for a run that it did not begin.
func (w *worker) refusal() *wire.Outcome {
	f, err := os.Open(w.files.out())
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // read only
	var last *wire.Outcome
	r := &reply{out: f}
	if err := r.records("", func(rec wire.Record) {
		if out, ok := rec.(*wire.Outcome); ok && out.Error != nil && out.Error.Category == wire.CauseState {
			last = out
		}
	}); err != nil || last == nil {
		return nil
	}
	last.RunID = w.runID
	return last
}

func (w *worker) stderr() string {
	f, err := os.Open(w.files.err())
	if err != nil {
		return "os-workspace said nothing"
	}
	defer func() { _ = f.Close() }() // read only
	r := &reply{stderr: proc.Tail(f, maxReason)}
	if strings.TrimSpace(r.stderr) == "" {
		return "os-workspace said nothing"
	}
	return r.reason()
}
