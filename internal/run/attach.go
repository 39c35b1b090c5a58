package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// Attachment is a harness's hold on the run that it works for.
type Attachment struct {
	Life *Life
	// Log gets what the harness prints, where its stdout is not the run's log already.
	Log   *state.Log
	Swept []proc.Process // what an earlier run had left alive

	lock *state.Lock
	own  bool // the run was begun here, and is ended here
}

// Host is what Attach takes from the process around it.
type Host struct {
	Getenv func(string) string
	Stdout io.Writer // compared with the log where it is a file
	Now    func() time.Time
	Rand   io.Reader
}

// Attach finds out for whom a harness works. Under a supervisor (OS_LOCK_FD and
// OS_RUN_ID) it takes the lock over; with a run in the record but no supervisor it
// takes the lock itself; without a run it begins one of its own, after it has settled
// what an earlier one left. A held lock matches state.ErrBusy, a run that is not the
// newest ErrSuperseded; nothing was touched then.
func Attach(ctx context.Context, rec *wire.Workspace, h Host) (*Attachment, error) {
	a := &Attachment{Life: &Life{Workspace: rec, Now: h.Now, Rand: h.Rand}}
	err := a.take(ctx, rec, h)
	if err == nil {
		err = a.openLog(h.Stdout)
	}
	if err != nil && a.own {
		err = errors.Join(err, a.Life.End(ctx, a.Life.Outcome(wire.Failed, wire.CauseState, err.Error())))
	}
	if err != nil {
		return nil, errors.Join(err, a.lock.Release())
	}
	return a, nil
}

func (a *Attachment) take(ctx context.Context, rec *wire.Workspace, h Host) (err error) {
	dir := state.Dir(rec.StateDir)
	supervised := rec.Run != nil && h.Getenv("OS_LOCK_FD") != "" && h.Getenv("OS_RUN_ID") == rec.Run.ID
	switch {
	case supervised:
		a.lock, err = state.Inherit(h.Getenv("OS_LOCK_FD"), dir.Lock())
	case rec.Run == nil:
		if err = dir.Make(); err == nil {
			a.lock, err = state.Acquire(ctx, dir.Lock())
		}
	default:
		a.lock, err = state.Acquire(ctx, dir.Lock())
	}
	if err != nil {
		return err
	}
	if rec.Run != nil {
		return a.Life.Resume(rec.Run.ID)
	}
	return a.begin(ctx, rec)
}

func (a *Attachment) begin(ctx context.Context, rec *wire.Workspace) (err error) {
	if _, a.Swept, err = a.Life.Settle(ctx); err != nil {
		return err
	}
	if err := a.Life.Begin("", rec.Attempt); err != nil {
		return err
	}
	a.own = true
	return a.Life.Prepare(ctx)
}

func (a *Attachment) openLog(stdout io.Writer) error {
	log, err := state.OpenLog(a.Life.RunDir().Events())
	if err != nil {
		return err
	}
	if sameFile(stdout, log.File()) {
		return log.Close()
	}
	a.Log = log
	return nil
}

func sameFile(w io.Writer, f *os.File) bool {
	out, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	one, err1 := out.Stat()
	two, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// Finish ends the run where it was begun here, and lets the lock go. The harness
// has printed out already; what fails here must not unsay it.
func (a *Attachment) Finish(ctx context.Context, out *wire.Outcome) error {
	var errs []error
	if a.own {
		_, err := Sweep(ctx, a.Life.dir(), "")
		errs = append(errs, err, a.Life.End(ctx, out))
	}
	if a.Log != nil {
		errs = append(errs, a.Log.Close())
	}
	return errors.Join(append(errs, a.lock.Release())...)
}

// Direct returns the record of a session in any folder, without tracker and
// workflow. Its state lies beside that of all others, under the folder's name; in a
// folder that os-workspace made it is the issue's own, so that the same lock counts.
func Direct(cwd, xdgStateHome, home string) (*wire.Workspace, error) {
	path, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return nil, fmt.Errorf("resolve working folder: %w", err)
	}
	if rec := managed(path); rec != nil {
		return rec, nil
	}
	key, err := state.Key(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	dir := state.DefaultRoot(path, xdgStateHome, home).Issue(key)
	return &wire.Workspace{Key: key, Path: path, StateDir: string(dir)}, nil
}

// ours tells whether the file is our user's. In a folder like /tmp anybody can write an
// owner file that leads to a mailbox of his.
func ours(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

func managed(path string) *wire.Workspace {
	var owner state.Owner
	file := filepath.Join(filepath.Dir(path), state.OwnerFile)
	if err := state.ReadJSON(file, &owner); err != nil || owner.UID != os.Getuid() || !ours(file) {
		return nil
	}
	dir := state.Root(owner.StateRoot).Issue(filepath.Base(path))
	var m workspace.Manifest
	if err := state.ReadJSON(dir.IssueFile(), &m); err != nil || m.Path != path {
		return nil
	}
	issue := &wire.Issue{ID: m.ID, Identifier: m.Identifier, Title: m.Title, State: m.State}
	return &wire.Workspace{Issue: issue, Key: m.Key, Path: path, StateDir: string(dir)}
}
