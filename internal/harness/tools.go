package harness

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/session"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// OpenTools lists the host-side tools that a session in place may offer.
func (c *Command) OpenTools(ctx context.Context, place session.Place) (*toolbox.Box, *session.Ending) {
	commands, dir := c.Workflow.Tools.Commands, c.Workflow.Dir
	if c.Options.Given("tools") {
		commands, dir = c.Options.Tools, c.Env.Dir
	}
	box, err := toolbox.Open(ctx, commands, toolbox.Options{
		Dir: cmp.Or(dir, c.Env.Dir), Env: c.HostEnv(), IssueFile: place.Run.Record(), Workspace: place.Workspace.Path, Warn: c.Env.Warnf,
	})
	var stop *cli.Interrupted
	switch {
	case err == nil:
		return box, nil
	case errors.As(context.Cause(ctx), &stop):
		return nil, session.Cancelled(wire.CauseShutdown, "the session was told to stop")
	case errors.Is(err, fs.ErrNotExist):
		return nil, session.Failf(wire.CauseConfig, "%v", err)
	}
	return nil, session.Failf(wire.CauseInternal, "%v", err)
}
