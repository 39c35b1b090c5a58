package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// Settle ends the run that an owner who died left open, if there is one: its
// processes first, so that its log is final, then the run itself, by its log's last
// outcome if it has one, else as interrupted. It returns that outcome, or nil.
//
// Called from inside such a run, by an agent that outlived its owner, it is refused as
// state.ErrBusy: that agent is at work, and we cannot end those that wait for us.
func (l *Life) Settle(ctx context.Context) (*wire.Outcome, []proc.Process, error) {
	if proc.Inside(marked(l.dir(), "")) {
		return nil, nil, fmt.Errorf("this command was started inside a run of the same issue, which is %w", state.ErrBusy)
	}
	swept, err := Sweep(ctx, l.dir(), "")
	if err == nil {
		err = l.dir().Tidy()
	}
	if err != nil {
		return nil, swept, err
	}
	m, err := ReadManifest(l.dir())
	if err != nil || m == nil || m.Status == Ended {
		return nil, swept, err
	}
	l.manifest = *m
	out, err := Recorded(l.dir(), l.RunID())
	if err == nil {
		err = l.RunDir().Tidy()
	}
	if err != nil {
		return nil, swept, err
	}
	if out == nil {
		out = l.Outcome(wire.Interrupted, "", "the owner of the run died and left no outcome")
		out.Resumable = true
	}
	return out, swept, l.End(ctx, out)
}

// Begin makes a new run and writes it down before anything of it happens. id is the
// caller's name for it, "" for one made here; an id that was used before is an
// ErrSuperseded, so that a start that comes late or twice does nothing. attempt is the
// caller's count of attempts; nil counts on from the run before.
func (l *Life) Begin(id string, attempt *int64) error {
	before, err := ReadManifest(l.dir())
	if err != nil {
		return err
	}
	if before != nil && before.Status != Ended {
		return fmt.Errorf("run %q has not been settled", before.RunID)
	}
	if attempt == nil {
		attempt = nextAttempt(before)
	}
	now := l.Now()
	if id, err = l.newID(id, now); err != nil {
		return err
	}
	l.manifest = Manifest{RunID: id, Attempt: attempt, Status: Preparing, StartedAt: wire.At(now), Hooks: []workspace.HookResult{}}
	if err := l.RunDir().Make(); err != nil {
		return err
	}
	l.Workspace.Attempt = attempt
	l.Workspace.Run = &wire.RunRef{ID: id, Attempt: attempt, StartedAt: wire.At(now)}
	return l.save()
}

func (l *Life) newID(id string, now time.Time) (string, error) {
	if id == "" {
		return state.NewRunID(now, l.Rand)
	}
	if err := state.CheckRunID(id); err != nil {
		return "", err
	}
	if _, err := os.Lstat(string(l.dir().Run(id))); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("run %q was begun before: %w", id, ErrSuperseded)
	}
	return id, nil
}

// nextAttempt keeps the attempt of a run that was cut off through no fault of its
// own, and counts on from every other.
func nextAttempt(before *Manifest) *int64 {
	switch {
	case before == nil:
		return nil
	case before.Outcome == wire.Interrupted, before.Outcome == wire.Cancelled, before.Outcome == wire.RateLimited:
		return before.Attempt
	case before.Attempt == nil:
		return wire.Count(1)
	default:
		return wire.Count(*before.Attempt + 1)
	}
}

// Prepare runs before_run and writes record.json. A hook that fails is a
// *workspace.HookError; the run is still open then, and End has to be told.
func (l *Life) Prepare(ctx context.Context) error {
	if err := l.hook(ctx, "before_run", nil); err != nil {
		return err
	}
	line, err := wire.Marshal(l.Workspace)
	if err != nil {
		return err
	}
	if err := state.WriteFile(l.RunDir().Record(), append(line, '\n')); err != nil {
		return err
	}
	l.manifest.Status = Prepared
	return l.save()
}

// Record adds the results of hooks that ran outside, such as after_create.
func (l *Life) Record(results ...workspace.HookResult) error {
	if len(results) == 0 {
		return nil
	}
	l.manifest.Hooks = append(l.manifest.Hooks, results...)
	return l.save()
}

// hook runs one hook of the run and writes its result down.
func (l *Life) hook(ctx context.Context, name string, facts map[string]string) error {
	if l.Hooks == nil {
		return nil
	}
	log := l.RunDir().HookLog(name)
	if err := state.MakeDir(filepath.Dir(log)); err != nil {
		return err
	}
	all := map[string]string{"OS_RUN_ID": l.RunID(), "OS_ATTEMPT": ""}
	if l.manifest.Attempt != nil {
		all["OS_ATTEMPT"] = fmt.Sprint(*l.manifest.Attempt)
	}
	for k, v := range facts {
		all[k] = v
	}
	r := l.Hooks(ctx, name, log, all)
	if r == nil {
		return nil
	}
	err := l.Record(*r)
	if !r.Succeeded() {
		err = errors.Join(&workspace.HookError{Result: *r}, err)
	}
	return err
}

// End writes the outcome down, runs after_run, whose failure is recorded and
// changes nothing, and closes the run. All of it is tried whatever fails. What a
// script's outcome leaves out and the run knows is filled in.
func (l *Life) End(ctx context.Context, out *wire.Outcome) error {
	l.complete(out)
	var errs []error
	if err := state.WriteJSON(l.RunDir().Outcome(), record{out}); err != nil {
		errs = append(errs, err)
	}
	if !l.ranAfterRun() {
		var failed *workspace.HookError
		err := l.hook(context.WithoutCancel(ctx), "after_run", map[string]string{"OS_OUTCOME": out.Outcome})
		if err != nil && !errors.As(err, &failed) {
			errs = append(errs, err)
		}
	}
	if err := cleanTemp(l.RunID()); err != nil {
		errs = append(errs, err)
	}
	l.fingerprint(ctx)
	l.manifest.Status, l.manifest.Outcome, l.manifest.EndedAt = Ended, wire.Text(out.Outcome), wire.At(l.Now())
	l.manifest.PID, l.manifest.PIDStart = nil, ""
	if out.Error != nil {
		l.manifest.Detail = wire.Text(out.Error.Category + ": " + out.Error.Message)
	}
	if err := l.save(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// fingerprint notes what the run leaves. A folder that cannot be looked into has none:
// that is not the run's fault, and counts neither for nor against progress.
func (l *Life) fingerprint(ctx context.Context) {
	if l.Fingerprint == nil {
		return
	}
	print, err := l.Fingerprint(context.WithoutCancel(ctx))
	if err == nil {
		l.manifest.Fingerprint = wire.Text(print)
	}
}

// record gives an outcome in a file the same form that it has in a stream.
type record struct{ out *wire.Outcome }

func (r record) MarshalJSON() ([]byte, error) { return wire.Marshal(r.out) }

// ranAfterRun tells whether after_run ran before the owner died.
func (l *Life) ranAfterRun() bool {
	for _, h := range l.manifest.Hooks {
		if h.Name == "after_run" {
			return true
		}
	}
	return false
}

// complete fills in what every outcome record has.
func (l *Life) complete(out *wire.Outcome) {
	full := l.Outcome(out.Outcome, "", "")
	if out.Time.IsZero() {
		out.Time = full.Time
	}
	if out.DurationMS == 0 {
		out.DurationMS = full.DurationMS
	}
	out.IssueID = cmp.Or(out.IssueID, full.IssueID)
	out.Identifier = cmp.Or(out.Identifier, full.Identifier)
	if out.Workspace == nil {
		out.Workspace = full.Workspace
	}
}

// Outcome returns an outcome of this run that no harness printed. category may be
// empty for an outcome that needs no cause.
func (l *Life) Outcome(outcome, category, message string) *wire.Outcome {
	now := l.Now()
	w := l.Workspace
	out := &wire.Outcome{
		Time: wire.At(now), RunID: l.RunID(), Outcome: outcome,
		DurationMS: max(0, now.Sub(l.manifest.StartedAt.Time).Milliseconds()),
		Workspace:  &wire.WorkspaceRef{Key: wire.Text(w.Key), Path: wire.Text(w.Path), StateDir: wire.Text(w.StateDir)},
	}
	if w.Issue != nil {
		out.IssueID, out.Identifier = wire.Text(w.Issue.ID), wire.Text(w.Issue.Identifier)
	}
	if w.Route != nil {
		out.Model.Requested = w.Route.Model
	}
	if category == "" && message != "" {
		category = wire.CauseInternal
	}
	if category != "" {
		out.Error = &wire.OutcomeError{Category: category, Message: message}
	}
	return out
}
