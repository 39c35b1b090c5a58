package poll

import (
	"io"
	"slices"
	"strings"

	"ostoolkit/internal/cli"
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

// usualSecrets are the token variables that trackers' own tools read. They are kept
// from agents whatever tracker is in use: a token is worth the same to whoever reads it.
func usualSecrets() []string {
	return []string{
		"ASANA_ACCESS_TOKEN", "ASANA_PAT", "ASANA_TOKEN",
		"ATLASSIAN_API_TOKEN", "JIRA_API_TOKEN", "JIRA_PAT", "JIRA_TOKEN",
		"GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_PAT", "GITHUB_TOKEN",
		"CI_JOB_TOKEN", "GITLAB_ACCESS_TOKEN", "GITLAB_PAT", "GITLAB_TOKEN",
		"LINEAR_ACCESS_TOKEN", "LINEAR_API_KEY", "LINEAR_CLIENT_SECRET", "LINEAR_OAUTH_TOKEN",
	}
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
	names := slices.Concat(usualSecrets(), flow.Tracker.Secrets)
	for _, a := range adapters() {
		names = append(names, a.Secrets...)
	}
	slices.Sort(names)
	_, err = io.WriteString(env.Stdout, strings.Join(slices.Compact(names), "\n")+"\n")
	return err
}
