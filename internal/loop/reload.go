package loop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/workflow"
)

// watchBoard makes a pass begin when something changes in a folder of cards. The
// folder of an earlier workflow is watched no more.
func (d *driver) watchBoard() {
	path := ""
	if d.flow.Tracker.Kind == "folder" {
		path, _ = d.flow.Tracker.Provider["path"].(string)
	}
	if path == d.board {
		return
	}
	if d.board != "" {
		d.leaveBoard()
	}
	d.board = path
	if path == "" {
		return
	}
	var ctx context.Context
	ctx, d.leaveBoard = context.WithCancel(d.ctx)
	first := true
	d.onChange(ctx, path, watch.Options{Warn: d.Warn, Interval: d.flow.Polling.Interval}, func() {
		if first { // the hint that each watch begins with: the first poll is still to come
			first = false
			return
		}
		d.fact(schedule.Command{Kind: schedule.CommandRefresh})
	})
}

// watchWorkflow reloads when the text of WORKFLOW.md has become another. The folder is
// watched, since editors replace the file.
func (d *driver) watchWorkflow() {
	path := d.flow.Path
	last, _ := os.ReadFile(path) // a file that is gone is a change as well
	d.onChange(d.ctx, filepath.Dir(path), watch.Options{Warn: d.Warn}, func() {
		if now, changed := d.settled(path, last); changed {
			last = now
			d.send(note{fact: d.load()})
		}
	})
}

// settleTime is how long a file must stay the same before it is taken for whole: half
// of a workflow may be a workflow too.
const settleTime = 100 * time.Millisecond

// settled returns the text of a file that has changed once it does so no more.
func (d *driver) settled(path string, last []byte) (now []byte, changed bool) {
	now, _ = os.ReadFile(path) // a file that is gone is empty
	for !bytes.Equal(now, last) {
		timer := time.NewTimer(settleTime)
		select {
		case <-timer.C:
		case <-d.ctx.Done():
			timer.Stop()
			return now, false
		}
		again, _ := os.ReadFile(path) // as above
		if bytes.Equal(again, now) {
			return now, true
		}
		now = again
	}
	return now, false
}

// onChange calls do, in a goroutine of its own, after each change in a folder until
// ctx ends.
func (d *driver) onChange(ctx context.Context, dir string, o watch.Options, do func()) {
	w, err := watch.Open([]string{dir}, o)
	if err != nil {
		d.warnAbout("changes are seen at the next poll only", err)
		return
	}
	d.tasks.Go(func() {
		defer w.Close()
		for {
			select {
			case <-w.C():
				do()
			case <-ctx.Done():
				return
			}
		}
	})
}

// reload reads the workflow because somebody asked for it.
func (d *driver) reload() {
	d.tasks.Go(func() { d.send(note{fact: d.load()}) })
}

// load reads the workflow and says whether it can be used. Safe.
func (d *driver) load() schedule.Fact {
	flow, err := d.Load()
	if err == nil {
		err = Usable(flow)
	}
	if err == nil {
		err = sameRoots(d.Workflow, flow)
	}
	if err != nil {
		return schedule.ConfigBroken{Message: err.Error()}
	}
	return schedule.Reloaded{Workflow: flow}
}

// adopt makes a workflow that passed its checks the one that counts. Without the copy
// the programs would go on by the old one, so that it is not taken.
func (d *driver) adopt(r schedule.Reloaded) schedule.Fact {
	if err := d.keep(r.Workflow); err != nil {
		return schedule.ConfigBroken{Message: err.Error()}
	}
	d.flow = r.Workflow
	d.watchBoard()
	return r
}

// keep copies the text of a workflow for the programs that read the tracker and settle
// runs: they go on by it, whatever becomes of the file itself.
func (d *driver) keep(flow *workflow.Workflow) error {
	if d.Schedule.Mode == schedule.PlanOnly {
		return nil
	}
	if err := state.WriteFile(d.path(copyFile), flow.Text); err != nil {
		return fmt.Errorf("keep a copy of the workflow: %w", err)
	}
	return nil
}

// Usable refuses a workflow that loads but would take every issue for an ended one, or
// none for an active one: adopting it would stop what runs.
func Usable(w *workflow.Workflow) error {
	if w.Tracker.ActiveStates != nil && len(w.Tracker.ActiveStates) == 0 {
		return fmt.Errorf("tracker.active_states names no state that is not terminal")
	}
	if w.Tracker.TerminalStates != nil && len(w.Tracker.TerminalStates) == 0 {
		return fmt.Errorf("tracker.terminal_states names no state")
	}
	return nil
}

// sameRoots refuses a change of what is locked.
func sameRoots(first, now *workflow.Workflow) error {
	if first.Workspace.Root != now.Workspace.Root || first.Workspace.StateRoot != now.Workspace.StateRoot {
		return fmt.Errorf("workspace.root and workspace.state_root cannot change while os-loop runs: restart it")
	}
	return nil
}
