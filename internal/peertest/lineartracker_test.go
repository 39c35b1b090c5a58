package peertest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
)

const linearKey = "lin_api_test"

func startLinear(t *testing.T, data string) *peertest.Linear {
	t.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	l, err := peertest.StartLinear(peertest.LinearOptions{Data: []byte(data), Key: linearKey, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// askLinear sends a query and returns the status, the headers and the body.
func askLinear(t *testing.T, l *peertest.Linear, key, query string) (int, http.Header, string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, out.String()
}

// The price of these queries was worked out by hand from Linear's published rule; that of
// the last one is known from a second program.
func TestLinearComplexity(t *testing.T) {
	l := startLinear(t, `{"projects": [{"slug": "p"}]}`)
	info := "pageInfo { hasNextPage endCursor }"
	for query, want := range map[string]string{
		"{ viewer { id } }":                         "2", // 1 + 0.1, rounded up
		"{ issues(first: 10) { nodes { id } } }":    "11",
		"{ issues { nodes { id state { name } } }}": "110", // 50 × (1 + 0.1 + 1.1)
		`{ issues(filter: {project: {slugId: {eq: "p"}}}, orderBy: createdAt, first: 50) { nodes {
		  id identifier title description priority branchName url createdAt updatedAt archivedAt trashed state { name type }
		  assignee { id } team { key } parent { id identifier } projectMilestone { id name }
		  labels(first: 10) { nodes { name } ` + info + ` }
		  inverseRelations(first: 10) { nodes { type issue { id identifier state { name type } } } ` + info + ` }
		  children(first: 10, includeArchived: true) { nodes { id identifier state { name type } } ` + info + ` }
		  attachments(first: 5) { nodes { url sourceType } ` + info + ` } } ` + info + ` } }`: "6355",
	} {
		if status, header, body := askLinear(t, l, linearKey, query); status != http.StatusOK || header.Get("X-Complexity") != want {
			t.Errorf("%s: status %d, complexity %q, want %s\n%s", query, status, header.Get("X-Complexity"), want, body)
		}
	}
}

func TestLinearRefuses(t *testing.T) {
	l := startLinear(t, `{"projects": [{"slug": "p"}], "quota": {"requests": 2, "complexity": 1000}}`)
	for _, c := range []struct {
		key, query string
		status     int
		code       string
	}{
		{"", "{ viewer { id } }", 401, "AUTHENTICATION_ERROR"},
		{"Bearer " + linearKey + "x", "{ viewer { id } }", 401, "AUTHENTICATION_ERROR"},
		{linearKey, "{ viewer { nothing } }", 400, "GRAPHQL_VALIDATION_FAILED"},
		{linearKey, `{ issue(id: "A-1") { inverseRelations(filter: {}) { nodes { id } } } }`, 400, "GRAPHQL_VALIDATION_FAILED"},
		{linearKey, "query($id: ID!) { issue(id: $id) { id } }", 400, "GRAPHQL_VALIDATION_FAILED"},
		{linearKey, "{ issues(first: 250) { nodes { labels { nodes { id } } } } }", 400, "INPUT_ERROR"},
		{linearKey, `{ issues(filter: {id: {in: ["no id"]}}, first: 1) { nodes { id } } }`, 200, ""}, // no issue to look at
		{linearKey, `{ issue(id: "A-1") { id } }`, 200, "INPUT_ERROR"},
		{linearKey, "{ viewer { id } }", 400, "RATELIMITED"},
	} {
		status, header, body := askLinear(t, l, c.key, c.query)
		if status != c.status || c.code != "" && !strings.Contains(body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: status %d, want %d and %s\n%s", c.query, status, c.status, c.code, body)
		}
		if c.code == "RATELIMITED" && header.Get("X-RateLimit-Requests-Reset") != "1767358800000" { // in an hour
			t.Errorf("reset %q", header.Get("X-RateLimit-Requests-Reset"))
		}
	}
}
