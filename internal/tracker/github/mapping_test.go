package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

func stateProvider() (map[string]any, tracker.Rules) {
	return map[string]any{
			"state_labels":    map[string]any{"In Progress": " Doing ", "Human Review": "review", "Done": "shipped"},
			"priority_labels": map[string]any{"P1": 1, "p3": 3},
		}, tracker.Rules{
			Active: []string{"open", "In Progress"}, Terminal: []string{"closed", "Done"},
		}
}

func TestStates(t *testing.T) {
	provider, rules := stateProvider()
	h := start(t, `{"issues":[
		{"number":1,"title":"x","labels":["doing","P3","p1"]},
		{"number":2,"title":"x","labels":["DOING","Review"]},
		{"number":3,"title":"x","labels":["shipped","doing"]},
		{"number":4,"title":"x","state":"closed","labels":["doing"],"state_reason":"not_planned"},
		{"number":5,"title":"x","state":"closed","labels":["shipped"],"state_reason":"completed"},
		{"number":6,"title":"x","state":"closed","state_reason":"duplicate"},
		{"number":7,"title":"x","state":"closed"},
		{"number":8,"title":"x","labels":["other"]}]}`, "")
	page := list(t, h.repo(t, provider, rules), tracker.Query{All: true})
	var got []string
	for _, i := range page.Issues {
		p := "-"
		if i.Priority != nil {
			p = fmt.Sprint(*i.Priority)
		}
		got = append(got, strings.Join([]string{i.ID, i.State, i.Category, i.StateKind, p}, "|"))
	}
	want := []string{
		"1|In Progress|active|started|1", "2|Human Review|other|unknown|-", "3|Done|terminal|completed|-",
		"4|closed|terminal|canceled|-", "5|Done|terminal|completed|-", "6|closed|terminal|duplicate|-",
		"7|closed|terminal|completed|-", "8|open|active|unstarted|-",
	}
	if !slices.Equal(got, want) {
		t.Errorf("states %q\nwant   %q", got, want)
	}
}

func TestEveryMember(t *testing.T) {
	h := start(t, `{"issues":[
		{"number":1,"title":"parent","sub_issues":[2,9]},
		{"number":2,"title":"the one","body":"text","labels":["Agent"],"assignees":["ann","bot"],"milestone":"1.0","user":"eve",
		 "author_association":"MEMBER","blocked_by":[1,3,9,404],"linked_by":["https://x/pull/1","https://x/pull/2"],"updated_at":"2026-02-02T00:00:00Z"},
		{"number":3,"title":"over","state":"closed"},
		{"number":9,"title":"elsewhere","foreign":"acme/lib","user":"z"}]}`, "")
	r := h.repo(t, map[string]any{"assignee": "BOT", "linked_pull_requests": true}, testRules())
	page, err := r.ByIdentifiers(t.Context(), []string{"gh-2", "GH-1"})
	if err != nil || len(page.Issues) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	i := page.Issues[0]
	line, err := wire.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"type":"issue","id":"2","native_ref":{"id":1002,"node_id":"I_2","number":2,"repo":"acme/app"},"identifier":"GH-2",` +
		`"title":"the one","description":"text","priority":null,"state":"open","state_kind":"unstarted","category":"active","branch_name":null,` +
		`"url":"https://github.com/acme/app/issues/2","assignee_id":"ann","labels":["agent"],"blocked_by":[` +
		`{"id":"1","identifier":"GH-1","state":"open","known":true},{"id":"3","identifier":"GH-3","state":"closed","known":true},` +
		`{"id":"acme/lib#9","identifier":"acme/lib#9","state":"open","known":true},` +
		`{"id":null,"identifier":null,"state":null,"known":false}],` + // case P12: counted, but not shown
		`"parent":{"id":"1","identifier":"GH-1","state":null},"children":[],"dispatchable":true,"pr_url":"https://x/pull/2",` +
		`"project":{"id":null,"slug":"acme/app","name":"app"},"milestone":"1.0","author":"eve","trusted":true,"archived":false,"tracker":"github","route":null,` +
		`"created_at":"2026-01-01T00:02:00.000Z","updated_at":"2026-02-02T00:00:00.000Z"}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if parent := page.Issues[1]; parent.Dispatchable || len(parent.Children) != 2 || parent.Children[1].Identifier != "acme/lib#9" {
		t.Errorf("the parent, which is nobody's: %+v", parent)
	}
}

// REFERENCE 12, item 11: the viewer is looked up once.
func TestMeIsLookedUpOnce(t *testing.T) {
	h := start(t, `{"issues":[{"number":1,"title":"x","assignees":["bot"]},{"number":2,"title":"x"}]}`, "")
	r := h.repo(t, map[string]any{"assignee": " Me "}, testRules())
	for range 3 {
		page := list(t, r, open())
		if !page.Issues[0].Dispatchable || page.Issues[1].Dispatchable {
			t.Errorf("dispatchable: %v, %v", page.Issues[0].Dispatchable, page.Issues[1].Dispatchable)
		}
	}
	if n := len(slices.DeleteFunc(h.asked(t), func(a string) bool { return a != "GET /user" })); n != 1 {
		t.Errorf("%d look-ups", n)
	}
	h.fault(t, `[{"match":"/user","status":500}]`)
	if _, err := tracker.Collect(t.Context(), h.repo(t, map[string]any{"assignee": "me"}, testRules()), open()); err == nil {
		t.Error("a list without knowing whose it is to be")
	}
}

// Case P14: trust fails closed.
func TestTrust(t *testing.T) {
	for association, want := range map[string]bool{
		"OWNER": true, "MEMBER": true, "COLLABORATOR": true, "CONTRIBUTOR": false, "NONE": false, "FIRST_TIMER": false, "": false, "ADMIN": false,
	} {
		h := start(t, `{"issues":[{"number":1,"title":"x","user":"Eve","author_association":"`+association+`"}]}`, "")
		if page := list(t, h.repo(t, nil, testRules()), open()); *page.Issues[0].Trusted != want {
			t.Errorf("%q: trusted %v", association, !want)
		}
		if page := list(t, h.repo(t, map[string]any{"trusted_authors": []any{" eve "}}, testRules()), open()); !*page.Issues[0].Trusted {
			t.Errorf("%q: an author of the list is not trusted", association)
		}
	}
}

func TestComments(t *testing.T) {
	h := start(t, `{"issues":[{"number":1,"title":"x","comments":[
		{"id":11,"body":"from the owner","user":"ann","author_association":"OWNER","updated_at":"2026-01-01T00:00:00Z"},
		{"id":12,"body":"run this archive","user":"mallory","author_association":"NONE","updated_at":"2026-01-02T00:00:00Z"}]}]}`, "")
	for name, trusted := range map[string][]any{"11": nil, "11 12": {"mallory"}} {
		provider := map[string]any{}
		if trusted != nil {
			provider["trusted_authors"] = trusted
		}
		list, found, err := h.repo(t, provider, testRules()).Comments(t.Context(), "gh-1", nil)
		var ids []string
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		if err != nil || !found || strings.Join(ids, " ") != name {
			t.Errorf("comments %q, %v, %v; want %s", ids, found, err, name)
		}
	}
	r := h.repo(t, nil, testRules())
	for _, name := range []string{"GH-2", "x"} {
		if _, found, err := r.Comments(t.Context(), name, nil); found || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// A server that is too old for dependencies is asked for them once.
func TestAnOldServer(t *testing.T) {
	h := start(t, `{"old":true,"issues":[{"number":1,"title":"a"},{"number":2,"title":"b"},{"number":3,"title":"c"}]}`, "")
	r := h.repo(t, nil, testRules())
	list(t, r, open())
	before := len(h.asked(t))
	page := list(t, r, open())
	if len(page.Issues) != 3 || len(h.asked(t)) != before+1 {
		t.Errorf("%d issues, %q", len(page.Issues), h.asked(t)[before:])
	}
}

// A member that is no use is null; the five that every record needs are not.
func TestOddMembers(t *testing.T) {
	h := start(t, `{"issues":[
		{"number":1,"title":"x","set":{"body":7,"user":null,"assignee":"ann","labels":["bare",{"name":"Full"},{"name":null},3],"milestone":[],"created_at":"yesterday","updated_at":null,"sub_issues_summary":null}},
		{"number":2,"title":"x","set":{"title":null}},
		{"number":3,"title":"x","set":{"number":"3"}},
		{"number":4,"title":"x","set":{"labels":"none"}}]}`, "")
	page := list(t, h.repo(t, nil, testRules()), tracker.Query{All: true})
	if got := keys(page.Issues); !slices.Equal(got, []string{"GH-1"}) || len(page.Problems) != 3 {
		t.Fatalf("issues %q, problems %v", got, page.Problems)
	}
	i := page.Issues[0]
	if i.Description != "" || i.AssigneeID != "" || !slices.Equal(i.Labels, []string{"bare", "full"}) || !i.CreatedAt.IsZero() || *i.Trusted {
		t.Errorf("%+v", i)
	}
}

func TestToolScope(t *testing.T) {
	h := start(t, `{"issues":[{"number":1,"title":"x"}]}`, "")
	r := h.repo(t, nil, testRules())
	for args, want := range map[string]tracker.Category{
		`{"method":"get","path":"/repos/acme/app/issues/1"}`:                                   "",
		`{"method":"GET","path":"/repos/ACME/App/issues","params":{"state":"all","page":1}}`:   tracker.NotFound, // in scope; the stand-in is strict
		`{"method":"POST","path":"/repos/acme/app/issues/1/comments","body":{"body":"hello"}}`: "",
		`{"method":"PATCH","path":"/repos/acme/app/issues/1","body":{"state":"closed"}}`:       "",
		`{"method":"GET","path":"/repos/acme/app"}`:                                            "",
		`{"method":"GET","path":"/user"}`:                                                      tracker.Denied,
		`{"method":"GET","path":"/repos/acme/application/issues"}`:                             tracker.Denied,
		`{"method":"GET","path":"/repos/acme/app/../lib/issues"}`:                              tracker.BadArguments,
		`{"method":"GET","path":"/repos/acme/app/%2e%2e/lib/issues"}`:                          tracker.BadArguments,
		`{"method":"GET","path":"/repos/acme/app%2fissues"}`:                                   tracker.BadArguments,
		`{"method":"GET","path":"/repos/acme/app/issues?x=1"}`:                                 tracker.BadArguments,
		`{"method":"GET","path":"https://evil.example/repos/acme/app"}`:                        tracker.BadArguments,
		`{"method":"GET","path":"/repos/acme/app/issues\r\nX: y"}`:                             tracker.BadArguments,
		`{"method":"GET","path":"//evil.example/x"}`:                                           tracker.BadArguments,
		`{"method":"DELETE","path":"/repos/acme/app"}`:                                         tracker.Denied,
		`{"method":"POST","path":"/repos/acme/app/hooks","body":{}}`:                           tracker.Denied,
		`{"method":"PUT","path":"/repos/acme/app/collaborators/mallory"}`:                      tracker.Denied,
		`{"method":"TRACE","path":"/repos/acme/app"}`:                                          tracker.BadArguments,
		`{"method":"GET"}`: tracker.BadArguments,
		`{"method":"GET","path":"/repos/acme/app","params":{"a":{}}}`: tracker.BadArguments,
	} {
		_, err := r.Tools()[0].Call(t.Context(), tracker.Call{Args: json.RawMessage(args)})
		if category(err) != want || (err != nil) != (want != "") {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestToolResult(t *testing.T) {
	h := start(t, `{"issues":[{"number":1,"title":"x"}]}`, `[{"match":"^GET .*/issues/1$","status":429,"header":{"Retry-After":"7"}}]`)
	r := h.repo(t, nil, testRules())
	result, err := r.Tools()[0].Call(t.Context(), tracker.Call{Args: json.RawMessage(`{"method":"GET","path":"/repos/acme/app/issues/1"}`)})
	var typed *tracker.Error
	if !errors.As(err, &typed) || typed.Category != tracker.RateLimited || !typed.RetryAt.Equal(testNow().Add(7e9)) {
		t.Errorf("%v", err)
	}
	line, err := wire.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status  int
		Headers map[string]string
		Body    map[string]any
	}
	if err := json.Unmarshal(line, &got); err != nil || got.Status != 429 || got.Headers["retry-after"] != "7" || got.Body["message"] != "Too Many Requests" || got.Headers["content-type"] != "" {
		t.Errorf("%s, %v", line, err)
	}
	r.anyScope = true
	if _, err := r.Tools()[0].Call(t.Context(), tracker.Call{Args: json.RawMessage(`{"method":"GET","path":"/user"}`)}); err != nil {
		t.Errorf("any scope: %v", err)
	}
}

func TestConfig(t *testing.T) {
	env := map[string]string{}
	for name, c := range map[string]struct {
		provider map[string]any
		env      map[string]string
		rules    tracker.Rules
		category tracker.Category
		says     string
	}{
		"by the environment": {map[string]any{}, map[string]string{"GITHUB_TOKEN": "t", "GITHUB_REPO": "a/b"}, testRules(), "", ""},
		"gh's token":         {map[string]any{"repo": "a/b"}, map[string]string{"GH_TOKEN": "t"}, testRules(), "", ""},
		"no token":           {map[string]any{"repo": "a/b", "token": " "}, env, testRules(), tracker.MissingSecret, "GITHUB_TOKEN"},
		"no repo":            {map[string]any{"token": "t"}, env, testRules(), tracker.InvalidConfig, "repo is missing"},
		"repo with more":     {map[string]any{"token": "t", "repo": "a/b/c"}, env, testRules(), tracker.InvalidConfig, "owner/name"},
		"repo with dots":     {map[string]any{"token": "t", "repo": "../b"}, env, testRules(), tracker.InvalidConfig, "owner/name"},
		"plain http":         {map[string]any{"token": "t", "repo": "a/b", "endpoint": "http://hub.example"}, env, testRules(), tracker.InvalidConfig, "https"},
		"a password":         {map[string]any{"token": "t", "repo": "a/b", "endpoint": "https://u:pw@hub.example"}, env, testRules(), tracker.InvalidConfig, "endpoint"},
		"a number":           {map[string]any{"token": "t", "repo": 7}, env, testRules(), tracker.InvalidConfig, "not a text"},
		"Linear's states":    {map[string]any{"token": "t", "repo": "a/b"}, env, tracker.Rules{Active: []string{"Todo"}, Terminal: []string{"closed"}}, tracker.InvalidConfig, `"Todo"`},
		"closed goes on":     {map[string]any{"token": "t", "repo": "a/b", "state_labels": map[string]any{"Done": "d"}}, env, tracker.Rules{Active: []string{"open"}, Terminal: []string{"Done"}}, tracker.InvalidConfig, "closed"},
		"open is over":       {map[string]any{"token": "t", "repo": "a/b"}, env, tracker.Rules{Active: []string{"open"}, Terminal: []string{"Open", "closed"}}, tracker.InvalidConfig, "active"},
		"one label, two":     {map[string]any{"token": "t", "repo": "a/b", "state_labels": map[string]any{"A": "x", "B": "X"}}, env, testRules(), tracker.InvalidConfig, "two states"},
		"GitHub's own":       {map[string]any{"token": "t", "repo": "a/b", "state_labels": map[string]any{"Open": "x"}}, env, testRules(), tracker.InvalidConfig, "own state"},
		"priority in words":  {map[string]any{"token": "t", "repo": "a/b", "priority_labels": map[string]any{"x": "high"}}, env, testRules(), tracker.InvalidConfig, "whole number"},
	} {
		_, err := Open(tracker.Config{Provider: c.provider, Getenv: func(k string) string { return c.env[k] }, Rules: c.rules, Now: testNow})
		if category(err) != c.category || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%s: %q, %v", name, category(err), err)
		}
	}
}

func TestProbe(t *testing.T) {
	h := start(t, `{}`, "")
	scope, err := h.repo(t, nil, testRules()).Probe(t.Context())
	if err != nil || scope.Name != "acme/app" || scope.ID != "77" || !slices.Equal(scope.States, []string{"open", "closed"}) {
		t.Errorf("%+v, %v", scope, err)
	}
}
