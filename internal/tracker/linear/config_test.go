package linear

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
)

// Case P11: what would be an empty filter is refused before any request.
func TestConfigIsRefused(t *testing.T) {
	whole := map[string]any{"api_key": testKey, "project_slug": testSlug}
	for _, c := range []struct {
		key   string
		value any
		want  tracker.Category
	}{
		{"project_slug", "", tracker.InvalidConfig},
		{"project_slug", "  ", tracker.InvalidConfig},
		{"project_slug", int64(7), tracker.InvalidConfig},
		{"api_key", " ", tracker.MissingSecret},
		{"endpoint", "ftp://example.com", tracker.InvalidConfig},
		{"endpoint", "http://example.com/graphql", tracker.InvalidConfig},
		{"endpoint", "https://user:hush@example.com/graphql", tracker.InvalidConfig},
		{"token_url", "api.linear.app", tracker.InvalidConfig},
		{"assignee", " ", tracker.InvalidConfig},
		{"page_size", int64(251), tracker.InvalidConfig},
		{"page_size", int64(0), tracker.InvalidConfig},
		{"page_size", "many", tracker.InvalidConfig},
	} {
		provider := map[string]any{}
		for k, v := range whole {
			provider[k] = v
		}
		provider[c.key] = c.value
		_, err := Open(tracker.Config{Provider: provider, Getenv: func(string) string { return "" }, Now: time.Now})
		wantCategory(t, err, c.want, c.key)
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), testKey)) {
			t.Errorf("a secret is in the message: %v", err)
		}
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	env := map[string]string{keyVar: " " + testKey, assigneeVar: "me"}
	c := tracker.Config{Provider: map[string]any{"project_slug": testSlug}, Getenv: func(k string) string { return env[k] }, Now: time.Now}
	p, err := Open(c)
	if err != nil || p.key != testKey || p.assignee != "me" || p.endpoint != defaultEndpoint {
		t.Errorf("%+v, %v", p, err)
	}
	// The variable that the workflow names is the one that counts.
	c.Missing = map[string]string{"api_key": "MY_KEY"}
	_, err = Open(c)
	wantCategory(t, err, tracker.MissingSecret, "MY_KEY")
	delete(env, keyVar)
	env[clientIDVar], env[clientSecretVar] = "app", testSecret
	if p, err = Open(c); err != nil || p.tokenURL != "https://api.linear.app/oauth/token" {
		t.Errorf("an application: %v", err)
	}
}

func TestSecretsAreNamed(t *testing.T) {
	for _, name := range Adapter().Secrets {
		if name != clientIDVar && !slices.Contains(tracker.SecretNames(), name) {
			t.Errorf("%s is not among the usual names", name)
		}
	}
}
