package session

import (
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
)

// otherTokens are variables that commonly hold credentials of other services. An agent
// that needs one gets it by name, with --env or agent.env. What a model provider asks
// for is not here: the agent needs it.
var otherTokens = []string{"NPM_TOKEN", "SLACK_BOT_TOKEN", "SLACK_TOKEN"}

// lockVariable names the descriptor of the lock, which is closed in an agent.
// OS_RUN_ID and OS_STATE_DIR stay, since the sweep recognises what a run left behind
// by them.
const lockVariable = "OS_LOCK_FD"

// Withheld returns the variables that no agent inherits: those that the tracker
// section takes its secrets from, those of all trackers and the usual token names,
// without the names in allow.
func Withheld(secrets, allow []string) []string {
	names := slices.Concat(secrets, tracker.SecretNames(), otherTokens)
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
