package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Harness is the command that a supervisor runs.
type Harness struct {
	Argv     []string // a name with a slash is relative to Dir
	Dir      string   // what Argv[0] is relative to
	Environ  []string // what it inherits; OS_* run variables are added
	Workflow string   // WORKFLOW.md, or ""
	Lock     *state.Lock
	Grace    time.Duration // between a stop that is passed on and SIGKILL
	Hurry    <-chan struct{}
}

// slack is what a harness gets beyond its own grace before it is killed.
const slack = 2 * time.Second

// Supervise runs a harness on the prepared run and returns its outcome: the one that
// it printed, or one made from how it ended. After it nothing of the run is alive, but
// for what runs below the keeper of a shared thing: that ends what a killed harness has
// left there by itself.
// The first stop (ctx) is passed on as SIGTERM, the second (Hurry) kills.
func (l *Life) Supervise(ctx context.Context, h Harness) (*wire.Outcome, error) {
	child, err := l.start(h)
	if err != nil {
		return nil, err
	}
	stopped, saveErr := false, l.running(child)
	if saveErr != nil {
		child.Stop(nil, child.Send(syscall.SIGKILL, sweepLimit))
	} else {
		stopped = l.wait(ctx, child, h)
	}
	sweep, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	// The harness ended first; what it left behind goes before its log is judged.
	_, killErr := proc.KillDescendants(sweep, keepers(l.dir().Root())...)
	_, sweepErr := Sweep(ctx, l.dir(), "")
	if err := errors.Join(saveErr, killErr, sweepErr); err != nil {
		return nil, err
	}
	select {
	case <-child.Done():
	default:
		return nil, fmt.Errorf("end harness: process %d is still there %v after it was killed", child.Pid(), sweepLimit)
	}
	return l.judge(child.Exit(), stopped)
}

// keepers are those who look after what other runs of the state root use too: a harness
// may have started one, which ends with the last of these runs.
func keepers(root state.Root) []int {
	var pids []int
	for _, k := range root.Keepers() {
		if proc.Alive(k.PID, k.PIDStart) {
			pids = append(pids, k.PID)
		}
	}
	return pids
}

func (l *Life) start(h Harness) (*proc.Child, error) {
	getenv := func(key string) string { return lookup(h.Environ, key) }
	program, err := proc.LookPath(h.Argv[0], h.Dir, getenv)
	if err != nil {
		return nil, &StartError{err}
	}
	if err := proc.Subreap(); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	files, closeAll, err := l.open()
	defer closeAll()
	if err != nil {
		return nil, err
	}
	child, err := proc.Start(proc.Spec{
		Argv: append([]string{program}, h.Argv[1:]...),
		Dir:  l.Workspace.Path,
		Env:  l.environ(h),

		Stdin: files[0], Stdout: files[1], Stderr: files[2],
		Extra: []*os.File{h.Lock.File()},
	})
	if err != nil {
		return nil, &StartError{err}
	}
	return child, nil
}

// running writes down that the harness was started.
func (l *Life) running(child *proc.Child) error {
	l.manifest.Status = Running
	l.manifest.PID, l.manifest.PIDStart = wire.Count(int64(child.Pid())), wire.Text(child.Started())
	return l.save()
}

// StartError is the error of a harness that could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return fmt.Sprintf("start harness: %v", e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// open opens the record, the event log and harness.log of the run.
func (l *Life) open() (files [3]*os.File, closeAll func(), err error) {
	closeAll = func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // the child has its own; nothing was written here
			}
		}
	}
	dir := l.RunDir()
	if files[0], err = os.Open(dir.Record()); err != nil {
		return files, closeAll, fmt.Errorf("open record: %w", err)
	}
	for i, path := range []string{dir.Events(), dir.HarnessLog()} {
		log, err := state.OpenLog(path)
		if err != nil {
			return files, closeAll, err
		}
		files[i+1] = log.File()
	}
	return files, closeAll, nil
}

func (l *Life) environ(h Harness) []string {
	return proc.Environ(h.Environ, nil, map[string]string{
		"OS_RUN_ID":    l.RunID(),
		"OS_STATE_DIR": l.Workspace.StateDir,
		"OS_WORKSPACE": l.Workspace.Path,
		"OS_WORKFLOW":  cmp.Or(h.Workflow, os.DevNull), // never a WORKFLOW.md that lies in the workspace
		"OS_LOCK_FD":   "3",
	})
}

func lookup(environ []string, key string) string {
	return (&cli.Env{Environ: environ}).Getenv(key)
}

// wait passes a stop on and sees the harness to its end.
func (l *Life) wait(ctx context.Context, child *proc.Child, h Harness) (stopped bool) {
	select {
	case <-child.Done():
		return false
	case <-ctx.Done():
	}
	child.Stop(h.Hurry,
		child.Send(syscall.SIGTERM, h.Grace+slack),
		child.Send(syscall.SIGKILL, sweepLimit))
	return true
}

// judge returns the outcome that the harness printed, or what its end stands for.
func (l *Life) judge(exit proc.Exit, stopped bool) (*wire.Outcome, error) {
	out, _, err := state.LastOutcome(l.RunDir().Events(), l.RunID())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	switch {
	case out != nil:
		return out, nil
	case stopped:
		out = l.Outcome(wire.Cancelled, wire.CauseShutdown, "the supervisor was told to stop")
		out.Resumable = true
	case exit.Signal != 0:
		out = l.Outcome(wire.Interrupted, wire.CauseInternal, fmt.Sprintf("the harness was ended by %s and left no outcome", exit))
		out.Resumable = true
	case exit.Code == 0:
		out = l.Outcome(wire.Succeeded, "", "")
	default:
		out = l.Outcome(wire.Failed, wire.CauseInternal, fmt.Sprintf("the harness ended with %s and left no outcome", exit))
	}
	out.FinishedBy = "harness"
	return out, nil
}
