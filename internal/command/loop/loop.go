// Package loop is the command os-loop. In this build it prints its help and its
// version only: the scheduler is not part of it.
//
// It keeps no state; Main is called once for a process.
package loop

import (
	"context"

	"ostoolkit/internal/cli"
)

// Main runs os-loop and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-loop", env, run) }

func run(_ context.Context, env *cli.Env) error {
	u := usage()
	if _, err := u.Parse(u.Flags(), env.Args); err != nil {
		return err
	}
	return cli.WithHint(
		cli.Errorf(cli.StatusUnavailable, "this build has no scheduler"),
		"os-poll --ready | os-workspace run -- os-codex")
}

func usage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop",
		Synopsis: []string{""},
		About: `
Composes the other commands: slots, retries, reconciliation. This build has no
scheduler: every call but --help and --version ends with status 69. One pass over
the board is a pipeline:

  os-poll --ready | os-workspace run -- os-codex`,
		Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusUnavailable},
		Notes:    map[int]string{cli.StatusUnavailable: "this build has no scheduler"},
	}
}
