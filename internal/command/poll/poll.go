// Package poll is the command os-poll: it asks a tracker and prints issue records,
// or lets an agent use the tracker's tools.
//
// It is the one package that knows all adapters. It starts no program, writes no
// file by itself and decides nothing about runs. Nothing here is safe for
// concurrent use; a process runs one command.
package poll

import (
	"context"

	"ostoolkit/internal/cli"
)

// Main runs os-poll and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-poll", env, run) }

func run(ctx context.Context, env *cli.Env) error {
	if len(env.Args) > 0 {
		switch rest := env.Args[1:]; env.Args[0] {
		case "tool":
			return tool(ctx, env, rest)
		case "secrets":
			return secrets(env, rest)
		case "check":
			return check(ctx, env, rest)
		case "comment":
			return comment(ctx, env, rest)
		}
	}
	return list(ctx, env, env.Args)
}
