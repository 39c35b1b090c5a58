package tracker

// SecretNames returns the environment variables that trackers and code hosts take
// tokens from. No agent and no hook inherits them, whatever tracker is in use: a token
// is worth the same to whoever reads it. It is the one list of them, for os-poll
// secrets as for the harnesses.
func SecretNames() []string {
	return []string{
		"ASANA_ACCESS_TOKEN", "ASANA_PAT", "ASANA_TOKEN",
		"ATLASSIAN_API_TOKEN", "JIRA_API_TOKEN", "JIRA_PAT", "JIRA_TOKEN",
		"GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_PAT", "GITHUB_TOKEN",
		"CI_JOB_TOKEN", "GITLAB_ACCESS_TOKEN", "GITLAB_PAT", "GITLAB_TOKEN", "GLAB_TOKEN",
		"LINEAR_ACCESS_TOKEN", "LINEAR_API_KEY", "LINEAR_CLIENT_ID", "LINEAR_CLIENT_SECRET", "LINEAR_OAUTH_TOKEN", "LINEAR_TOKEN",
	}
}
