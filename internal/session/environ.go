package session

import (
	"slices"
	"strings"
)

// tokenNames are variables that commonly hold credentials of trackers and code
// hosts. An agent that needs one gets it by name, with --env or agent.env. What a
// model provider asks for is not here: the agent needs it.
var tokenNames = []string{
	"ASANA_ACCESS_TOKEN", "ASANA_TOKEN", "ATLASSIAN_API_TOKEN",
	"GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_PAT", "GITHUB_TOKEN",
	"GITLAB_ACCESS_TOKEN", "GITLAB_TOKEN", "GLAB_TOKEN",
	"JIRA_API_TOKEN", "JIRA_TOKEN", "LINEAR_ACCESS_TOKEN", "LINEAR_API_KEY", "LINEAR_TOKEN",
	"NPM_TOKEN", "SLACK_BOT_TOKEN", "SLACK_TOKEN",
}

// lockVariable names the descriptor of the lock, which is closed in an agent.
// OS_RUN_ID and OS_STATE_DIR stay, since the sweep recognises what a run left behind
// by them.
const lockVariable = "OS_LOCK_FD"

// Withheld returns the variables that no agent inherits: those that the tracker
// section takes its secrets from and the usual token names, without the names in
// allow.
func Withheld(secrets, allow []string) []string {
	names := slices.Concat(secrets, tokenNames)
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(allow, n) })
	return append(names, lockVariable)
}

// Values returns the values that names have in environ, to be taken out of
// summaries.
func Values(environ, names []string) []string {
	var values []string
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); slices.Contains(names, name) && value != "" {
			values = append(values, value)
		}
	}
	return values
}
