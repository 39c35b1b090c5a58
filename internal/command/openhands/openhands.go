// Package openhands is the command os-openhands: it turns flags, WORKFLOW.md and
// workspace records into sessions of internal/openhands, and their outcomes into an exit
// status. Its verb send puts a request into the mailbox of such a session, check tells
// what would keep one from working.
//
// The protocol is in internal/openhands, what the harnesses have in common in
// internal/harness. It keeps no state; Main is called once for a process.
package openhands

import (
	"context"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands/spawn"
)

// Main runs os-openhands and returns its exit status.
func Main(env *cli.Env) int { return cli.Main(usage.Name, env, start) }

func start(ctx context.Context, env *cli.Env) error {
	verb, args := "", env.Args
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "send":
		return harness.Send(ctx, env, usage.Name, args)
	case "check":
		return check(ctx, env, args)
	case keepVerb:
		return keep(ctx, env, args)
	}
	o, err := parse(env.Args)
	if err != nil {
		return err
	}
	d := driver{options: o}
	if !o.Prompted() {
		d.kept = make(map[string]*spawn.Server)
	}
	defer d.leaveServers(env)
	return harness.Run(ctx, env, o.Options, d)
}
