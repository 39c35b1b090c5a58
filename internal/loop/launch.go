package loop

import (
	"fmt"

	"github.com/google/shlex"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// ours are the harnesses of this toolkit, which take flags and print events.
var ours = map[string]string{"codex": "os-codex", "openhands": "os-openhands"}

// newRun prepares a run. The run's id is made here and goes into the record, so that
// a start that comes late or twice does nothing.
func (d *driver) newRun(a schedule.Start) (*worker, error) {
	id, err := state.NewRunID(d.Now(), d.Rand)
	if err != nil {
		return nil, err
	}
	harness, err := harnessArgv(d.flow, &d.Schedule, a)
	if err != nil {
		return nil, err
	}
	w, err := d.newWorker(a.Issue.ID, a.Issue.Identifier, id, a.Route.Harness)
	if err != nil {
		return nil, err
	}
	route := a.Route
	line, err := wire.Marshal(&wire.Workspace{
		Issue: a.Issue, Key: w.key, StateDir: string(w.dir), Attempt: a.Attempt,
		Run: &wire.RunRef{ID: id, Attempt: a.Attempt}, Route: &route,
	})
	if err != nil {
		return nil, err
	}
	argv := []string{"os-workspace", "run", "--workflow", d.flow.Path, "--grace", d.Schedule.Grace.String(), "--"}
	w.launch = &launch{record: append(line, '\n'), argv: append(argv, harness...)}
	return w, nil
}

func (d *driver) newWorker(issueID, identifier, runID, harness string) (*worker, error) {
	key, err := state.Key(identifier)
	if err != nil {
		return nil, err
	}
	_, scripted := d.flow.Routing.Commands[harness]
	return &worker{
		d: d, issueID: issueID, identifier: identifier, runID: runID,
		dir: d.Root.Issue(key), key: key, files: d.startFiles(runID),
		hooks: d.hookLimit(), quiet: scripted, stop: make(chan struct{}),
	}, nil
}

// harnessArgv is the command that runs the agent. The route is in the record; only
// what is not there becomes a flag.
func harnessArgv(flow *workflow.Workflow, cfg *schedule.Config, a schedule.Start) ([]string, error) {
	if command, ok := flow.Routing.Commands[a.Route.Harness]; ok {
		argv, err := shlex.Split(command)
		if err == nil && len(argv) == 0 {
			err = fmt.Errorf("it is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("command of harness %q: %v", a.Route.Harness, err)
		}
		return argv, nil
	}
	program, ok := ours[a.Route.Harness]
	if !ok {
		return nil, fmt.Errorf("harness %q is not known", a.Route.Harness)
	}
	argv := []string{program, "--grace", cfg.Grace.String(), "--recheck", "os-poll --ids-from -"}
	if !a.Resume {
		argv = append(argv, "--resume", "never")
	}
	if a.Route.DryRun {
		argv = append(argv, "--dry-run")
	}
	return argv, nil
}

// HarnessCommand is the command line of a harness, or "" where nobody knows one.
func HarnessCommand(flow *workflow.Workflow, name string) string {
	if command, ok := flow.Routing.Commands[name]; ok {
		return command
	}
	return ours[name]
}
