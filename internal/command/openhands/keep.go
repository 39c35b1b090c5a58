package openhands

import (
	"context"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/openhands/spawn"
)

// keepVerb is the verb that a session with --spawn starts.
const keepVerb = "keep"

var keepUsage = cli.Usage{
	Name:     "os-openhands keep",
	Synopsis: []string{"DIR -- CMD [ARG...]"},
	About: `
Is started by the first session with --spawn, and not by people: runs the agent-server
CMD for all sessions of a state root, with its state in DIR, and ends it, with all that
it has started, after the last of them.`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage},
}

// keep is the verb.
func keep(ctx context.Context, env *cli.Env, args []string) error {
	rest, err := keepUsage.Parse(keepUsage.Flags(), args)
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return cli.WithHint(cli.Usagef("no DIR and CMD given"), "%s --help", keepUsage.Name)
	}
	return spawn.Keep(ctx, spawn.Keeping{Dir: rest[0], Command: rest[1:], Env: env.Environ, Hurry: env.Hurry()})
}
