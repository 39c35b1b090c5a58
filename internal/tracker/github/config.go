package github

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
)

const defaultEndpoint = "https://api.github.com"

// repoVar names the repository where the workflow does not.
const repoVar = "GITHUB_REPO"

// tokenVars hold the token where the workflow has none, the first that is set.
func tokenVars() []string { return []string{"GITHUB_TOKEN", "GH_TOKEN"} }

var repoForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`)

// config is tracker.provider, checked.
type config struct {
	endpoint   string // without a slash at its end
	repo       string // owner/name
	token      string
	assignee   string            // a login, "me", or ""
	stateLabel map[string]string // label, folded -> state
	priority   map[string]int64  // label, folded -> priority
	trusted    []string          // logins
	pulls      bool              // look up linked pull requests
}

func readConfig(c tracker.Config) (config, error) {
	s := settings{c: c}
	cfg := config{
		endpoint: strings.TrimRight(cmp.Or(s.text("endpoint"), s.text("api_url"), defaultEndpoint), "/"),
		repo:     cmp.Or(s.text("repo"), s.fromEnv("repo", repoVar)),
		token:    cmp.Or(s.text("token"), s.text("api_key"), s.fromEnv("token", tokenVars()...)),
		assignee: s.text("assignee"),
		trusted:  slices.Concat(s.names("trusted_authors"), c.TrustedAuthors),
		pulls:    s.yes("linked_pull_requests"),
	}
	if tracker.Fold(cfg.assignee) == "me" {
		cfg.assignee = "me"
	}
	cfg.stateLabel, cfg.priority = s.stateLabels(), s.priorities()
	if s.err != nil {
		return cfg, s.err
	}
	return cfg, cmp.Or(cfg.check(), cfg.checkStates(c.Rules))
}

func (c *config) check() error {
	u, err := url.Parse(c.endpoint)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return tracker.Errorf(tracker.InvalidConfig, "tracker.provider.endpoint is not the address of an API, like %s", defaultEndpoint)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return tracker.Errorf(tracker.InvalidConfig, "tracker.provider.endpoint %q is not https, and the token would be sent to it", c.endpoint)
	case c.repo == "":
		e := tracker.Errorf(tracker.InvalidConfig, "tracker.provider.repo is missing, and %s is not set", repoVar)
		e.Hint = "it is owner/name, as in the repository's address"
		return e
	case !repoForm.MatchString(c.repo) || slices.ContainsFunc(strings.Split(c.repo, "/"), dots):
		return tracker.Errorf(tracker.InvalidConfig, "tracker.provider.repo %q is not owner/name", c.repo)
	case c.token == "":
		e := tracker.Errorf(tracker.MissingSecret, "no GitHub token: tracker.provider.token and %s are empty", strings.Join(tokenVars(), ", "))
		e.Hint = "export GITHUB_TOKEN=…, a token that may read and write issues"
		return e
	}
	return nil
}

func dots(segment string) bool { return segment == "." || segment == ".." }

func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// checkStates refuses states that no issue can be in: their list would be empty for
// ever, and look like a repository without work.
func (c *config) checkStates(rules tracker.Rules) error {
	known := []string{stateOpen, stateClosed}
	known = append(known, slices.Sorted(maps.Values(c.stateLabel))...)
	for _, state := range slices.Concat(rules.Active, rules.Terminal) {
		if !tracker.Contains(known, state) {
			e := tracker.Errorf(tracker.InvalidConfig, "no issue of GitHub's can be in the state %q", strings.TrimSpace(state))
			e.Hint = fmt.Sprintf("states are %s; tracker.provider.state_labels adds more", strings.Join(slices.Compact(known), ", "))
			return e
		}
	}
	switch {
	case !tracker.Contains(rules.Terminal, stateClosed):
		return tracker.Errorf(tracker.InvalidConfig, "tracker.terminal_states lacks %q, the state of every closed issue without a label for another", stateClosed)
	case tracker.Contains(rules.Terminal, stateOpen):
		return tracker.Errorf(tracker.InvalidConfig, "tracker.terminal_states has %q: nothing would ever be active", stateOpen)
	}
	return nil
}

// settings reads tracker.provider and keeps the first error.
type settings struct {
	c   tracker.Config
	err error
}

func (s *settings) text(key string) string {
	switch v := s.c.Provider[key].(type) {
	case nil:
	case string:
		return strings.TrimSpace(v)
	default:
		s.fail("tracker.provider.%s is not a text", key)
	}
	return ""
}

// fromEnv returns the first of variables that is set, unless the workflow has a word on
// key: an empty variable that it names means that there is no value.
func (s *settings) fromEnv(key string, variables ...string) string {
	if s.c.Getenv == nil || s.c.Missing[key] != "" {
		return ""
	}
	for _, name := range variables {
		if v := strings.TrimSpace(s.c.Getenv(name)); v != "" {
			return v
		}
	}
	return ""
}

func (s *settings) yes(key string) bool {
	v, ok := s.c.Provider[key].(bool)
	if !ok && s.c.Provider[key] != nil {
		s.fail("tracker.provider.%s is neither true nor false", key)
	}
	return v
}

func (s *settings) names(key string) []string {
	var out []string
	switch list := s.c.Provider[key].(type) {
	case nil:
	case []any:
		for _, v := range list {
			name, ok := v.(string)
			if !ok || strings.TrimSpace(name) == "" {
				s.fail("tracker.provider.%s holds something that is not a name", key)
			}
			out = append(out, strings.TrimSpace(name))
		}
	default:
		s.fail("tracker.provider.%s is not a list of names", key)
	}
	return out
}

// stateLabels reads {STATE: LABEL}.
func (s *settings) stateLabels() map[string]string {
	out := map[string]string{}
	for state, label := range s.table("state_labels") {
		name, ok := label.(string)
		switch folded := tracker.Fold(name); {
		case !ok || folded == "" || tracker.Fold(state) == "":
			s.fail("tracker.provider.state_labels: %q has no label", state)
		case tracker.Fold(state) == stateOpen || tracker.Fold(state) == stateClosed:
			s.fail("tracker.provider.state_labels: %q is GitHub's own state", state)
		case out[folded] != "":
			s.fail("tracker.provider.state_labels: the label %q stands for two states", name)
		default:
			out[folded] = strings.TrimSpace(state)
		}
	}
	return out
}

// priorities reads {LABEL: NUMBER}.
func (s *settings) priorities() map[string]int64 {
	out := map[string]int64{}
	for label, v := range s.table("priority_labels") {
		var n int64
		if _, err := fmt.Sscanf(fmt.Sprint(v), "%d", &n); err != nil || fmt.Sprint(n) != fmt.Sprint(v) {
			s.fail("tracker.provider.priority_labels: %q has no whole number", label)
		}
		out[tracker.Fold(label)] = n
	}
	return out
}

func (s *settings) table(key string) map[string]any {
	t, ok := s.c.Provider[key].(map[string]any)
	if !ok && s.c.Provider[key] != nil {
		s.fail("tracker.provider.%s is not a table", key)
	}
	return t
}

func (s *settings) fail(format string, args ...any) {
	if s.err == nil {
		s.err = tracker.Errorf(tracker.InvalidConfig, format, args...)
	}
}
