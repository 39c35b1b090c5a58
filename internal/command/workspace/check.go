package workspace

import (
	"cmp"
	"fmt"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/run"
	"ostoolkit/internal/workspace"
)

// check is the verb. It opens nothing: to open the roots would make and claim them.
func (c *command) check(places workspace.Config) error {
	status, err := c.checkWorkflow()
	if err != nil {
		return err
	}
	i := workspace.Inspect(places)
	if i.Store != nil {
		c.store = i.Store
		if err := c.checkRuns(i); err != nil {
			i.Say(workspace.FindingError, "locks", "%v", err)
		}
	}
	for _, f := range i.Findings {
		if f.Level == workspace.FindingError {
			status = cmp.Or(status, cli.StatusState)
		}
		if _, err := fmt.Fprintf(c.env.Stdout, "%s %s: %s\n", f.Level, f.Name, f.Text); err != nil {
			return err
		}
	}
	return cli.Exit(status)
}

// checkWorkflow tells of the settings that have no effect.
func (c *command) checkWorkflow() (status int, err error) {
	say := func(level, format string, args ...any) error {
		_, err := fmt.Fprintf(c.env.Stdout, "%s workflow: %s\n", level, fmt.Sprintf(format, args...))
		return err
	}
	for _, w := range c.flow.Warnings {
		if err := say(workspace.FindingError, "%s", w); err != nil {
			return cli.StatusConfig, err
		}
		status = cli.StatusConfig
	}
	if status != cli.StatusOK {
		return status, nil
	}
	return status, say(workspace.FindingOK, "%s", cmp.Or(c.flow.Path, "none; defaults stand"))
}

// checkRuns tells of the runs in flight, and of those whose owner died.
func (c *command) checkRuns(i *workspace.Inspection) error {
	entries, holders, err := c.survey()
	if err != nil {
		return err
	}
	held := 0
	for _, e := range entries {
		if e.Err != nil {
			continue // told already
		}
		owners := holders[e.Dir.Lock()]
		if len(owners) > 0 {
			held++
			i.Say(workspace.FindingOK, "locks", "%s is held by %s", e.Manifest.Identifier, names(owners))
		}
		m, err := run.ReadManifest(e.Dir)
		switch {
		case err != nil:
			i.Say(workspace.FindingError, "runs", "%v", err)
		case m != nil && m.Status != run.Ended && len(owners) == 0:
			i.Say(workspace.FindingWarning, "runs", "run %s of %s has no owner any more; the next run or remove of the issue settles it", m.RunID, e.Manifest.Identifier)
		}
	}
	if held == 0 {
		i.Say(workspace.FindingOK, "locks", "none is held")
	}
	return nil
}

func names(owners []proc.Process) string {
	var all []string
	for _, p := range owners {
		all = append(all, fmt.Sprintf("process %d (%s)", p.Pid, p.Name))
	}
	return strings.Join(all, ", ")
}
