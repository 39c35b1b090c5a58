// Package run is the life of one run of an issue: settle what an earlier run left,
// begin, supervise a harness, end. It alone writes run.json and outcome.json.
//
// It does not choose issues (os-loop does) and does not speak to agents (the
// harnesses do). Everything here wants the lock held by the caller, and a
// Life belongs to one goroutine.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// The values of Manifest.Status.
const (
	Preparing = "preparing" // the run has its id; hooks are running
	Prepared  = "prepared"  // ready for its harness
	Running   = "running"   // the harness was started
	Ended     = "ended"
)

// Manifest is run.json: the newest run of an issue. Its owner is whoever holds the
// issue's lock; with the lock free and a status other than Ended, the owner died.
type Manifest struct {
	RunID     string                 `json:"run_id"`
	Attempt   *int64                 `json:"attempt"`
	Status    string                 `json:"status"`
	Outcome   wire.Text              `json:"outcome"`
	StartedAt wire.Time              `json:"started_at"`
	EndedAt   wire.Time              `json:"ended_at"`
	Detail    wire.Text              `json:"detail"`
	PID       *int64                 `json:"pid"`       // of the harness
	PIDStart  wire.Text              `json:"pid_start"` // with it, the process for certain
	Hooks     []workspace.HookResult `json:"hooks"`
	// Fingerprint of the folder at the end of the run; "" where nobody knows it.
	Fingerprint wire.Text `json:"fingerprint"`
}

// Hooks runs the hook of that name, or returns nil where there is none.
type Hooks func(ctx context.Context, name, log string, facts map[string]string) *workspace.HookResult

// Life leads the runs of one issue.
type Life struct {
	Workspace *wire.Workspace // issue, key, path and state_dir count
	Hooks     Hooks           // nil: no hooks
	// Fingerprint tells two states of the folder apart; nil: they do not matter.
	Fingerprint func(context.Context) (string, error)
	Now         func() time.Time
	Rand        io.Reader

	manifest Manifest
}

// sweepLimit bounds how long the processes of an earlier run may take to be gone
// after SIGKILL. A process in an uninterruptible wait is the one way to reach it.
const sweepLimit = 30 * time.Second

// ErrSuperseded is the error of a harness or of an end whose run is not the newest
// one any more, or has ended.
var ErrSuperseded = errors.New("superseded")

func (l *Life) dir() state.Dir { return state.Dir(l.Workspace.StateDir) }

// RunDir is the folder of the run that was begun or resumed.
func (l *Life) RunDir() state.RunDir { return l.dir().Run(l.manifest.RunID) }

// RunID is the id of the run that was begun or resumed.
func (l *Life) RunID() string { return l.manifest.RunID }

// ReadManifest returns run.json of an issue, or nil where it never ran.
func ReadManifest(dir state.Dir) (*Manifest, error) {
	var m Manifest
	err := state.ReadJSON(dir.RunFile(), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.RunID == "" {
		return nil, fmt.Errorf("%q is damaged: it has no run_id", dir.RunFile())
	}
	return &m, nil
}

// Recorded returns the outcome that a run has left on disk, or nil: from outcome.json,
// whose owner died in after_run, or else its last word in the log, whose supervisor
// died before the harness did.
func Recorded(dir state.Dir, runID string) (*wire.Outcome, error) {
	if out := written(dir, runID); out != nil {
		return out, nil
	}
	out, _, err := state.LastOutcome(dir.Run(runID).Events(), runID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return out, nil
}

// written returns the outcome that whoever ended the run has written down, or nil.
func written(dir state.Dir, runID string) *wire.Outcome {
	var out wire.Outcome
	err := state.ReadJSON(dir.Run(runID).Outcome(), &out)
	if err != nil || out.RunID != runID || !out.Known() {
		return nil
	}
	return &out
}

func (l *Life) save() error { return state.WriteJSON(l.dir().RunFile(), l.manifest) }

// Resume takes up the run of this id where its begin left it. It is an ErrSuperseded
// if the newest run is another one or has ended; so has one whose outcome is written
// down, though whoever did that died over after_run.
func (l *Life) Resume(runID string) error {
	m, err := ReadManifest(l.dir())
	if err != nil {
		return err
	}
	switch {
	case m == nil:
		return fmt.Errorf("run %q was never begun: %w", runID, ErrSuperseded)
	case m.RunID != runID:
		return fmt.Errorf("run %q was followed by %q: %w", runID, m.RunID, ErrSuperseded)
	case m.Status == Ended, written(l.dir(), runID) != nil:
		return fmt.Errorf("run %q has ended: %w", runID, ErrSuperseded)
	}
	l.manifest = *m
	return nil
}

// Sweep ends every process of the runs but those of the run keep ("" for
// none), and of its hooks; it returns what it ended. Those that we descend from are
// spared: whoever ends a run from inside it is not what it has left behind.
func Sweep(ctx context.Context, dir state.Dir, keep string) ([]proc.Process, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	ended, err := proc.Sweep(ctx, marked(dir, keep))
	if err != nil {
		return ended, fmt.Errorf("end what an earlier run left: %w", err)
	}
	return ended, nil
}

// marked matches the processes of the runs, but not of the run keep, and of its
// hooks: they carry its OS_STATE_DIR and an OS_RUN_ID or OS_HOOK. A shell whose user
// has set OS_STATE_DIR for convenience is none of them.
func marked(dir state.Dir, keep string) func(env func(string) string) bool {
	return func(env func(string) string) bool {
		if env("OS_STATE_DIR") != string(dir) {
			return false
		}
		id := env("OS_RUN_ID")
		return (id != "" || env("OS_HOOK") != "") && (keep == "" || id != keep)
	}
}

// cleanTemp removes the private TMPDIR of a run. It is the agent's to fill, so that
// folders without write permission are opened first.
func cleanTemp(runID string) error {
	dir := state.TempDir(runID)
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !fi.IsDir() {
		return &state.Refusal{Path: dir, Reason: "is not a folder"}
	}
	if err == nil {
		err = state.RemoveTree(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the run's temp folder: %w", err)
	}
	return nil
}
