package linear

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// callTool runs linear_graphql and returns what an agent sees.
func callTool(t *testing.T, p *Project, query string, vars map[string]any) (string, error) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	if err != nil {
		t.Fatal(err)
	}
	record, err := p.Tools()[0].Call(t.Context(), tracker.Call{Args: args})
	if record == nil {
		return "", err
	}
	line, encodeErr := wire.Marshal(record)
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	return string(line), err
}

// twoProjects has ENG-1 in the project and OPS-1 in another one.
func twoProjects(t *testing.T) (*lab, map[string]string) {
	t.Helper()
	l := newLab(t, `{"projects": [{"slug": "0c79b11b75ea"}, {"slug": "other"}], "issues": [{"identifier": "ENG-1", "comments": [{"body": "mine"}]},
	  {"identifier": "OPS-1", "project": "other", "comments": [{"body": "theirs"}]}, {"identifier": "ENG-2"}]}`)
	ids := map[string]string{}
	for key, slug := range map[string]string{"ENG-1": testSlug, "OPS-1": "other"} {
		p := l.open(map[string]any{"project_slug": slug})
		issue := list(t, p, "Todo").Issues
		for _, i := range issue {
			ids[i.Identifier] = i.ID
		}
		comments, _, err := p.Comments(t.Context(), key, []string{""})
		if err != nil || len(comments) != 1 {
			t.Fatalf("comments of %s: %v, %v", key, comments, err)
		}
		ids[key+"/comment"] = comments[0].ID
		scope, err := p.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids[slug] = scope.ID
	}
	return l, ids
}

const (
	update  = `mutation M($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success issue { title } } }`
	comment = `mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success comment { id body } } }`
)

func TestToolInScope(t *testing.T) {
	l, ids := twoProjects(t)
	p := l.open(nil)
	for _, c := range []struct {
		query string
		vars  map[string]any
		want  string
	}{
		{update, map[string]any{"id": "ENG-1", "input": map[string]any{"title": "new"}}, `"success":true`},
		{update, map[string]any{"id": ids["ENG-1"], "input": map[string]any{"title": "new"}}, `"title":"new"`},
		{`mutation($i: String = "eng-1") { issueUpdate(id: $i, input: {title: "newer"}) { success } }`, nil, `"success":true`},
		{comment, map[string]any{"input": map[string]any{"issueId": "ENG-1", "body": "said"}}, `"body":"said"`},
		{`mutation($c: String!) { commentUpdate(id: $c, input: {body: "changed"}) { comment { body } } }`, map[string]any{"c": ids["ENG-1/comment"]}, `"body":"changed"`},
		{`mutation { attachmentLinkGitHubPR(issueId: "ENG-1", url: "https://github.com/o/r/pull/1") { success } }`, nil, `"success":true`},
		{`{ issue(id: "ENG-1") { ...f } } fragment f on Issue { team { states(first: 9) { nodes { name } } } }`, nil, `"Todo"`},
		{`{ issues(filter: {project: {slugId: {eq: "0c79b11b75ea"}}, title: {contains: "x"}}, first: 5) { nodes { id } } }`, nil, `"nodes":[]`},
		{`{ viewer { id displayName } }`, nil, `"robot"`},
	} {
		got, err := callTool(t, p, c.query, c.vars)
		if err != nil || !strings.Contains(got, c.want) || !strings.HasPrefix(got, `{"status":200,"headers":{"x-complexity":"`) {
			t.Errorf("%s with %v:\n%s\n%v", c.query, c.vars, got, err)
		}
	}
}

func TestToolOutOfScope(t *testing.T) {
	l, ids := twoProjects(t)
	p, config := l.open(nil), l.config(nil)
	config.ToolScopeAny = true
	wide, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		vars  map[string]any
		valid bool // it works with the scope any
	}{
		{update, map[string]any{"id": "OPS-1", "input": map[string]any{"title": "x"}}, true},
		{update, map[string]any{"id": ids["OPS-1"], "input": map[string]any{"title": "x"}}, true},
		{update, map[string]any{"id": "ENG-1", "input": map[string]any{"projectId": ids["other"]}}, true},
		{`mutation { a: issueUpdate(id: "ENG-1", input: {title: "x"}) { success } b: issueUpdate(id: "OPS-1", input: {title: "x"}) { success } }`, nil, true},
		{`mutation { ...m } fragment m on Mutation { issueUpdate(id: "OPS-1", input: {title: "x"}) { success } }`, nil, true},
		{`mutation { ... on Mutation { issueUpdate(id: "OPS-1", input: {title: "x"}) { success } } }`, nil, true},
		{`mutation($i: String = "OPS-1") { issueUpdate(id: $i, input: {title: "x"}) { success } }`, nil, true},
		{comment, map[string]any{"input": map[string]any{"issueId": "OPS-1", "body": "x"}}, true},
		{`mutation($c: String!) { commentUpdate(id: $c, input: {body: "x"}) { success } }`, map[string]any{"c": ids["OPS-1/comment"]}, true},
		{`mutation { issueArchive(id: "ENG-2") { success } }`, nil, true},
		{`mutation { issueCreate(input: {teamId: "x", title: "y"}) { success } }`, nil, false},
		{fmt.Sprintf(`mutation { issueCreate(input: {projectId: %q, teamId: "x", title: "y"}) { success } }`, ids["other"]), nil, false},
		{`{ issue(id: "OPS-1") { title } }`, nil, true},
		{`{ comment(id: "` + ids["OPS-1/comment"] + `") { body } }`, nil, true},
		{`{ issues(first: 5) { nodes { title } } }`, nil, true},
		{`{ issues(filter: {or: [{project: {slugId: {eq: "0c79b11b75ea"}}}]}, first: 5) { nodes { title } } }`, nil, true},
		{`{ issues(filter: {project: {slugId: {eq: "0c79b11b75ea"}}, or: [{}]}, first: 5) { nodes { title } } }`, nil, true},
		{`{ issues(filter: {project: {slugId: {eq: "other"}}}, first: 5) { nodes { title } } }`, nil, true},
		{`{ issue(id: "ENG-1") { project { issues(first: 5) { nodes { title } } } } }`, nil, true},
		{`{ projects(first: 5) { nodes { name } } }`, nil, true},
	} {
		before := l.count("")
		got, err := callTool(t, p, c.query, c.vars)
		if err == nil || got != "" {
			t.Errorf("%s with %v is let through: %s", c.query, c.vars, got)
		}
		for _, r := range l.requests()[before:] {
			if !strings.HasPrefix(r.Operation, "Os") {
				t.Errorf("%s was sent", c.query)
			}
		}
		if _, err := callTool(t, wide, c.query, c.vars); (err == nil) != c.valid {
			t.Errorf("%s with the scope any: %v", c.query, err)
		}
	}
}

func TestToolArguments(t *testing.T) {
	l, _ := twoProjects(t)
	p := l.open(nil)
	sent := l.count("")
	for _, query := range []string{"", "  ", "{", "{ viewer { id } } { viewer { id } }", "query A { viewer { id } } query B { viewer { id } }",
		"subscription { x }", "fragment f on Issue { id }", "{ viewer { ...f } } fragment f on User { ...f }", "{ viewer { ...none } }",
		`{ issue(id: 5) { id } }`, `{ issue { id } }`, `{ issue(id: "not a name") { id } }`} {
		got, err := callTool(t, p, query, nil)
		wantCategory(t, err, tracker.BadArguments)
		if got != "" {
			t.Errorf("%q: %s", query, got)
		}
	}
	for _, raw := range []string{`{"query":"{ viewer { id } }","operation":"x"}`, `{"query":7}`, `{"query":"{ viewer { id } }"}{}`, `[]`} {
		_, err := p.Tools()[0].Call(t.Context(), tracker.Call{Args: json.RawMessage(raw)})
		wantCategory(t, err, tracker.BadArguments)
	}
	if n := l.count(""); n != sent {
		t.Errorf("%d requests for wrong arguments", n-sent)
	}
}

// What Linear refuses comes back with its own words, and is a failure.
func TestToolShowsRefusals(t *testing.T) {
	l, _ := twoProjects(t)
	p := l.open(nil)
	got, err := callTool(t, p, `{ viewer { nothing } }`, nil)
	wantCategory(t, err, tracker.BadResponse)
	if !strings.Contains(got, `"status":400`) || !strings.Contains(got, "Cannot query field") {
		t.Errorf("a schema rejection: %s", got)
	}
	l.fail(`[{"code": "RATELIMITED", "header": {"Retry-After": "60"}}]`)
	sent := l.count("")
	got, err = callTool(t, p, `{ viewer { id } }`, nil)
	wantCategory(t, err, tracker.RateLimited)
	if !strings.Contains(got, `"retry-after":"60"`) || l.count("") != sent+1 {
		t.Errorf("a limit, after %d requests: %s", l.count("")-sent, got)
	}
	l.fail(`[{"body": "` + strings.Repeat("x", remote.MaxResult+9) + `"}]`)
	got, err = callTool(t, p, `{ viewer { id } }`, nil)
	if err == nil || !strings.Contains(got, `"truncated":true`) || len(got) > remote.MaxResult+4096 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestComments(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1", "comments": [
	  {"body": "## Codex Workpad\nold", "updated_at": "2026-01-02T00:00:00.000Z"}, {"body": "hello", "updated_at": "2026-01-09T00:00:00.000Z"},
	  {"body": "  ## Codex Workpad\nnew", "updated_at": "2026-01-03T00:00:00.000Z"},
	  {"body": "## Codex Workpad\nanswer", "reply": true, "updated_at": "2026-01-08T00:00:00.000Z"},
	  {"body": "## Codex Workpad\nsettled", "resolved": true, "updated_at": "2026-01-07T00:00:00.000Z"},
	  {"body": "see ## Codex Workpad", "updated_at": "2026-01-06T00:00:00.000Z"}]}`))
	p := l.open(nil)
	markers := []string{"## Codex Workpad", "## Agent Harness Workpad"}
	all, found, err := p.Comments(t.Context(), "eng-1", markers)
	latest := tracker.LatestMarked(all, markers)
	if err != nil || !found || latest == nil || !strings.HasSuffix(latest.Body, "new") {
		t.Errorf("latest %+v of %d, %t, %v", latest, len(all), found, err)
	}
	for _, name := range []string{"ENG-9", "no name"} {
		if _, found, err := p.Comments(t.Context(), name, markers); found || err != nil {
			t.Errorf("%s: %t, %v", name, found, err)
		}
	}
}
