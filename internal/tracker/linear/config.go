package linear

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"ostoolkit/internal/tracker"
)

// Where Linear is, and the variables that settings are taken from where the workflow
// has none.
const (
	defaultEndpoint = "https://api.linear.app/graphql"
	keyVar          = "LINEAR_API_KEY"
	assigneeVar     = "LINEAR_ASSIGNEE"
	clientIDVar     = "LINEAR_CLIENT_ID"
	clientSecretVar = "LINEAR_CLIENT_SECRET"
)

// Sizes of the pages of a list where the workflow has none: a small board costs little,
// and a long list takes few requests.
const (
	firstPage = 20
	laterPage = roomyPage
)

// config is tracker.provider, checked.
type config struct {
	endpoint     string
	tokenURL     string
	key          string
	keyVar       string // where it comes from, or should
	clientID     string
	clientSecret string
	slugs        []string // the forms of the project's slug
	team         string   // a key, or ""
	assignee     string   // a user id, "me", or ""
	firstPage    int
	laterPage    int
}

func readConfig(c tracker.Config) (config, error) {
	s := settings{c: c}
	cfg := config{
		endpoint:  cmp.Or(s.text("endpoint", ""), defaultEndpoint),
		tokenURL:  s.text("token_url", ""),
		key:       s.text("api_key", keyVar),
		keyVar:    cmp.Or(c.Missing["api_key"], keyVar),
		slugs:     slugForms(s.text("project_slug", "")),
		team:      s.text("team", ""),
		assignee:  s.text("assignee", assigneeVar),
		firstPage: firstPage, laterPage: laterPage,
	}
	if cfg.key == "" {
		cfg.clientID, cfg.clientSecret = s.text("client_id", clientIDVar), s.text("client_secret", clientSecretVar)
	}
	if size := s.count("page_size"); size > 0 {
		cfg.firstPage, cfg.laterPage = size, size
	}
	if s.err != nil {
		return cfg, s.err
	}
	return cfg, cfg.check()
}

func (c *config) check() error {
	switch {
	case len(c.slugs) == 0:
		e := tracker.Errorf(tracker.InvalidConfig, "tracker.provider.project_slug is missing")
		e.Hint = "it is the last part of the project's address, like my-project-0123456789ab"
		return e
	case c.key == "" && (c.clientID == "" || c.clientSecret == ""):
		e := tracker.Errorf(tracker.MissingSecret, "no Linear API key: tracker.provider.api_key is empty, and so is %s", c.keyVar)
		e.Hint = fmt.Sprintf("export %s=…, or %s and %s for an application", c.keyVar, clientIDVar, clientSecretVar)
		return e
	}
	endpoint, err := address("endpoint", c.endpoint)
	if err != nil {
		return err
	}
	if c.tokenURL == "" {
		c.tokenURL = endpoint.Scheme + "://" + endpoint.Host + "/oauth/token"
	}
	_, err = address("token_url", c.tokenURL)
	return err
}

// address reads a URL that a secret is sent to: encrypted, but on this machine.
func address(key, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.%s: %q is not an https address", key, redactedURL(u, text))
	}
	local := u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1"
	if u.Scheme == "http" && !local {
		return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.%s: %q is not encrypted, and the key would be sent to it", key, text)
	}
	return u, nil
}

func redactedURL(u *url.URL, text string) string {
	if u != nil {
		return u.Redacted()
	}
	before, _, _ := strings.Cut(text, "@")
	return before
}

// slugForms returns what a project's slug may be called: as given, and its last part.
// The end of a project's address is its name and its slug, and people paste that.
func slugForms(slug string) []string {
	if slug == "" {
		return nil
	}
	last := slug[strings.LastIndexByte(slug, '-')+1:]
	if last == "" || last == slug {
		return []string{slug}
	}
	return []string{slug, last}
}

// settings reads tracker.provider and keeps the first error.
type settings struct {
	c   tracker.Config
	err error
}

// given tells whether the workflow names a value, or a variable that should hold one.
func (s *settings) given(key string) bool {
	_, value := s.c.Provider[key]
	_, variable := s.c.Missing[key]
	return value || variable
}

// text returns a setting without the blanks around it. Where the workflow has none it
// is that of the environment.
func (s *settings) text(key, variable string) string {
	switch v := s.c.Provider[key].(type) {
	case string:
		if text := strings.TrimSpace(v); text != "" || variable != assigneeVar {
			return text
		}
		s.fail("tracker.provider.%s is blank", key)
	case nil:
		if variable != "" && !s.given(key) {
			return strings.TrimSpace(s.c.Getenv(variable))
		}
	default:
		s.fail("tracker.provider.%s is not a text", key)
	}
	return ""
}

func (s *settings) count(key string) int {
	v, ok := s.c.Provider[key]
	if !ok || v == nil {
		return 0
	}
	n := 0
	if _, err := fmt.Sscanf(fmt.Sprint(v), "%d", &n); err != nil || n < 1 || n > maxPage || fmt.Sprint(n) != fmt.Sprint(v) {
		s.fail("tracker.provider.%s: %v is not a number from 1 to %d", key, v, maxPage)
	}
	return n
}

func (s *settings) fail(format string, args ...any) {
	if s.err == nil {
		s.err = tracker.Errorf(tracker.InvalidConfig, format, args...)
	}
}
