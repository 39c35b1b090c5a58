package poll

import (
	"io"
	"slices"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/workflow"
)

var secretsUsage = cli.Usage{
	Name:     "os-poll secrets",
	Synopsis: []string{"[--workflow FILE]"},
	About: `Prints the names, never the values, of the environment variables that no agent and no
hook may inherit: those that the workflow's tracker section takes a value from, and
the usual token variables of trackers. One name a line, sorted.`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusConfig},
}

func secrets(env *cli.Env, args []string) error {
	fs := secretsUsage.Flags()
	path := fs.String("workflow", "", "take the configuration from `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md)")
	rest, err := secretsUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if err := unexpected(rest); err != nil {
		return err
	}
	flow, err := workflow.Open(*path, env)
	if err != nil {
		return err
	}
	names := slices.Concat(tracker.SecretNames(), flow.Tracker.Secrets)
	for _, a := range adapters() {
		names = append(names, a.Secrets...)
	}
	slices.Sort(names)
	_, err = io.WriteString(env.Stdout, strings.Join(slices.Compact(names), "\n")+"\n")
	return err
}
