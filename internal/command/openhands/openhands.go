// Package openhands is the command os-openhands. In this build it prints its help
// and its version only: the driver of an OpenHands agent-server is not part of it.
//
// It keeps no state; Main is called once for a process.
package openhands

import (
	"context"

	"ostoolkit/internal/cli"
)

// Main runs os-openhands and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-openhands", env, run) }

func run(_ context.Context, env *cli.Env) error {
	u := usage()
	if _, err := u.Parse(u.Flags(), env.Args); err != nil {
		return err
	}
	return cli.WithHint(
		cli.Errorf(cli.StatusUnavailable, "this build has no agent-server driver"),
		"os-codex keeps the same contract and is ready to use")
}

func usage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-openhands",
		Synopsis: []string{""},
		About: `
Drives one conversation of an OpenHands agent-server, under the same contract as
os-codex. This build has no agent-server driver: every call but --help and
--version ends with status 69.`,
		Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusUnavailable},
	}
}
