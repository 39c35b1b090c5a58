package workflow

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

func sampleIssue() *wire.Issue {
	return &wire.Issue{
		ID: "8f1", Identifier: "WEB-7", Title: "Fix the login", State: "In Progress", Priority: wire.Count(2),
		StateKind: "started", Category: "active", URL: "https://example.org/WEB-7", Labels: []string{"agent", "bug"},
		NativeRef: json.RawMessage(`{"gid":123456789012,"ratio":0.5,"tags":[1]}`),
		BlockedBy: []wire.Blocker{{ID: "8f0", Identifier: "WEB-6", State: "Done", Known: true}},
		Parent:    &wire.IssueRef{ID: "8e0", Identifier: "WEB-1"},
		Children:  []wire.IssueRef{{ID: "9a0", Identifier: "WEB-8", State: "Todo"}, {ID: "9a1", Identifier: "WEB-9"}},
		Project:   &wire.Project{ID: "p1", Slug: "web", Name: "Web"}, Milestone: "1.0", Tracker: "linear",
		CreatedAt: wire.At(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
	}
}

func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/prompt.md")
	if err != nil {
		t.Fatal(err)
	}
	p, warnings, refused := parsePrompt("prompt.md", 1, string(text))
	if refused != nil {
		t.Fatal(refused)
	}
	for _, w := range warnings {
		t.Error(w)
	}
	for name, vars := range map[string]Vars{
		"first": {Issue: sampleIssue(), Turn: 1, MaxTurns: 20, Workspace: &Folder{Key: "WEB-7", Path: "/ws/WEB-7", Created: true}},
		"retry": {Issue: &wire.Issue{ID: "1", Identifier: "A-1", Title: "t", State: "Todo"}, Attempt: wire.Count(2), Turn: 3},
	} {
		got, err := p.Render(vars)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		if got != strings.TrimRight(string(want), "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRender(t *testing.T) {
	for text, want := range map[string]string{
		"": "Work on issue WEB-7: Fix the login",
		"{% if issue.description %}yes{% else %}no{% endif %}":                                    "no",
		"{% if issue.parent and attempt == nil %}yes{% endif %}":                                  "yes",
		"{% if issue.branch_name == null %}yes{% endif %}":                                        "yes",
		"{% unless workspace %}none{% endunless %}":                                               "none",
		"{{ issue.native_ref.gid }} {{ issue.native_ref.any.thing }}":                             "123456789012 ",
		"{{ issue.priority | plus: 1 }} {{ issue['title'] }} {{issue.labels[0]}}":                 "3 Fix the login agent",
		"{{ issue.labels.size }} {{ issue.labels.first }} {{ issue.labels | join: '+' }}":         "2 agent agent+bug",
		"{% assign p = issue.parent %}{{ p.identifier }}":                                         "WEB-1",
		"{% assign x = issue.title | upcase %}{{ x.anything }}{{ x }}":                            "FIX THE LOGIN",
		"{% capture c %}a{{ issue.id }}{% endcapture %}{{ c }}":                                   "a8f1",
		"{% for i in (1..3) %}{{ i }}{% unless forloop.last %},{% endunless %}{% endfor %}":       "1,2,3",
		"{% for c in issue.children reversed limit:1 %}{{ c.identifier }}{% endfor %}":            "WEB-9",
		"{% for c in issue.sub_issues %}{% cycle 'a', 'b' %}{{ c.state }}{% endfor %}":            "aTodob",
		"{% case issue.state %}{% when 'Todo', 'In Progress' %}on{% else %}off{% endcase %}":      "on",
		"{{ issue.parent_id }} {{ issue.project_slug }} {{ issue.project_milestone.name }}":       "8e0 web 1.0",
		"{{ issue.project_id }} {{ issue.project_name }}":                                         "p1 Web",
		"{{ issue.created_at | date: '%Y-%m-%d' }}|{{ issue.updated_at | date: '%Y' }}":           "2026-03-04|",
		"{{ issue.title | truncate: 6 }} {{ issue.title | truncate: 4000 }}":                      "Fix... Fix the login",
		"{{ issue.title | truncatewords: 2000 }} {{ issue.title | truncatewords: 1 }}":            "Fix the login Fix...",
		"{{ issue.title | slice: 30, 2 }}{{ issue.title | slice: -5, 99 }}{{ 'abc' | slice: 1 }}": "loginb",
		"{{ issue.labels | concat: issue.labels | uniq | join }}":                                 "agent bug",
		"{{ issue.description | default: 'none' }}":                                               "none",
		"{% raw %}{{ issue.nope }} {% nope %} {{ {% endraw %}":                                    "{{ issue.nope }} {% nope %} {{ ",
		"a{% comment %}{{ issue.nope }}{% if %}{% endcomment %}b":                                 "ab",
		"{%- if true -%} x {%- endif -%}":                                                         "x",
		"}} and %} are text, so is {\"a\":{\"b\":1}}":                                             "}} and %} are text, so is {\"a\":{\"b\":1}}",
	} {
		p, _, err := parsePrompt("p.md", 1, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, failure := p.Render(Vars{Issue: sampleIssue()})
		if failure != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, failure, want)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a\n{{ issue.titel }}", `p.md:11: prompt: unknown variable "issue.titel", did you mean "issue.title"?`},
		{"{{ isue.title }}", `p.md:10: prompt: unknown variable "isue", did you mean "issue"?`},
		{"{{ issue['titel'] }}", `unknown variable "issue.titel", did you mean "issue.title"?`},
		{"{{ issue.parent.identifer }}", `unknown variable "issue.parent.identifer", did you mean "issue.parent.identifier"?`},
		{"{{ issue.title.text }}", `unknown variable "issue.title.text"`},
		{"{{ issue.title[0] }}", `unknown variable "issue.title.[…]"`},
		{"{{ issue.labels[nope] }}", `unknown variable "nope"`},
		{"{% if issue.x %}{% endif %}", `unknown variable "issue.x"`},
		{"{% if true and nope %}{% endif %}", `unknown variable "nope"`},
		{"{% if true %}{% elsif nope %}{% endif %}", `unknown variable "nope"`},
		{"{% case nope %}{% endcase %}", `unknown variable "nope"`},
		{"{% case attempt %}{% when nope %}{% endcase %}", `unknown variable "nope"`},
		{"{% for x in nope %}{% endfor %}", `unknown variable "nope"`},
		{"{% for b in issue.blocked_by %}{{ b.nope }}{% endfor %}", `unknown variable "b.nope"`},
		{"{% for b in issue.labels %}{% endfor %}{{ b }}", `unknown variable "b"`},
		{"{% for b in issue.labels limit: nope %}{% endfor %}", `unknown variable "nope"`},
		{"{{ forloop.index }}", `unknown variable "forloop"`},
		{"{% for b in issue.labels %}{{ forloop.idx }}{% endfor %}", `unknown variable "forloop.idx"`},
		{"{% assign x = nope %}", `unknown variable "nope"`},
		{"{% capture 'x' %}{% endcapture %}", `"'x'" is not the name of a variable`},
		{"{{ issue.title | default: nope }}", `unknown variable "nope"`},
		{"{{ issue.title | upcse }}", `unknown filter "upcse", did you mean "upcase"?`},
		{"{% if issue.title | nope %}{% endif %}", `unknown filter "nope"`},
		{"{{ issue.title | strip: 1 }}", `the filter "strip" takes at most 0 arguments, not 1`},
		{"{{ issue.title | truncate: 1, 'a', 2 }}", `the filter "truncate" takes at most 2 arguments, not 3`},
		{"a\n\n{{ issue.title\n", `p.md:12: prompt: "{{" is not closed on its line or is empty: "{{ issue.title"`},
		{"{{ issue.title\n}}\n{{\nissue.title | \nupcase }}", `p.md:12: prompt: "{{" is not closed`},
		{"{{}}", `"{{" is not closed on its line or is empty`},
		{"{% if attempt", `"{%" is not closed on its line or is empty`},
		{"{%%}", `"{%" is not closed on its line or is empty`},
		{"{% if attempt %}", `unterminated "if" block`},
		{"{% endif %}", "endif not inside"},
		{"{% if attempt %}{% else if turn %}{% endif %}", `the tag "else" takes no words: "if turn"`},
		{"\n\n{% raw %}x", `p.md:12: prompt: the tag "raw" is not closed by "endraw"`},
		{"{% comment %}x {{ y", `the tag "comment" is not closed by "endcomment"`},
		{"{% include 'a.md' %}", `the tag "include" is not available: a prompt includes no files`},
		{"{% render 'a.md' %}", `the tag "render" is not available: a prompt includes no files`},
		{"{% fro x in issue.labels %}", `unknown tag "fro", did you mean "for"?`},
		{"{% break %}", `the tag "break" stands outside of a loop`},
		{"{% cycle 'a', 'b' %}", `the tag "cycle" stands outside of a loop`},
		{"x\n{{ a b }}", `p.md:11: prompt: syntax error in "a b"`},
		{"{% if %}{% endif %}", "syntax error"},
		{"{% assign x %}", "syntax error"},
		{"{{ 99999999999999999999 }}", "value out of range"},
		{"{{ issue.labels == empty }}", `unknown variable "empty"`},
	} {
		_, _, err := parsePrompt("p.md", 10, c.text)
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestPromptLinesAreThoseOfTheFile(t *testing.T) {
	_, _, err := loadIn(write(t, "---\nagent:\n  max_turns: 3\n---\n\n\nHello\n{{ issue.nope }}\n"), nil)
	if err == nil || !strings.HasPrefix(err.Error(), `WORKFLOW.md:8: prompt: unknown variable "issue.nope"`) {
		t.Errorf("got %v", err)
	}
}

func TestVacantNamesWarn(t *testing.T) {
	_, warnings, err := parsePrompt("p.md", 1, "\n{% for s in issue.sub_issues %}{{ s.title }}{% endfor %}x")
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || warnings[0].String() != "p.md:2: the prompt's s.title is always empty here" {
		t.Errorf("got %v", warnings)
	}
}

// What stands in an issue is data: a reporter writes no templates.
func TestIssueTextIsNotLiquid(t *testing.T) {
	const hostile = "{{ attempt }}{% include '/etc/passwd' %}{% assign x = 1 %}{% raw %}{{ issue.id | upcase }}"
	issue := sampleIssue()
	issue.Title, issue.Description, issue.Labels = hostile, hostile, []string{hostile}
	p, _, err := parsePrompt("p.md", 1, `{{ issue.title }}
{% assign d = issue.description %}{{ d }}
{% capture c %}{{ issue.description }}{% endcapture %}{{ c }}
{% for l in issue.labels %}{{ l }}{% endfor %}
{{ issue.labels | map: issue.title | join }}{{ issue.labels | join: '' | append: '' }}
{{ issue.title | default: issue.title }}`)
	if err != nil {
		t.Fatal(err)
	}
	got, rendered := p.Render(Vars{Issue: issue})
	if want := strings.TrimSuffix(strings.Repeat(hostile+"\n", 6), "\n"); rendered != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", rendered, got, want)
	}
}

func TestRenderErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{% if attempt %}x{% endif %}":                            "p.md: prompt: the rendered text is blank",
		"a\n{{ turn | divided_by: 0 }}":                           `p.md:2: prompt: error applying filter "divided_by"`,
		"{{ issue.title | round }}":                               "p.md:1: prompt: ",
		"{% for l in issue.labels limit: issue.id %}{% endfor %}": "p.md:1: prompt: loop limit must be an integer",
	} {
		p, _, err := parsePrompt("p.md", 1, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := p.Render(Vars{Issue: sampleIssue()}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestRenderWithoutAnIssue(t *testing.T) {
	p, _, err := parsePrompt("p.md", 1, "go{{ issue.title }}{% for b in issue.blocked_by %}x{% endfor %}{{ issue.parent_id }}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Render(Vars{}); err != nil || got != "go" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The names that are checked and the values that are given must not drift apart.
func TestEveryKnownNameIsBound(t *testing.T) {
	values, err := Vars{Issue: sampleIssue(), Workspace: &Folder{}}.bindings()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s *shape, v any)
	walk = func(path string, s *shape, v any) {
		m, ok := v.(map[string]any)
		if s == nil || s.members == nil || !ok {
			return
		}
		for name, member := range s.members {
			if value, ok := m[name]; ok {
				walk(path+"."+name, member, value)
			} else if !member.vacant {
				t.Errorf("%s.%s is known and not bound", path, name)
			}
		}
		for name := range m {
			if _, ok := s.members[name]; !ok {
				t.Errorf("%s.%s is bound and not known", path, name)
			}
		}
	}
	walk("", promptShape(), values)
}
