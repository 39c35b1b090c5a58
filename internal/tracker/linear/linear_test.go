package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

const (
	testKey    = "lin_api_0123456789abcdef"
	testSlug   = "0c79b11b75ea"
	testRobot  = "robot"
	testSecret = "app-secret-0123456789"
)

// lab is a stand-in of Linear and what it was asked.
type lab struct {
	t      *testing.T
	linear *peertest.Linear
	faults string
	mu     sync.Mutex
	log    bytes.Buffer
}

// Write implements io.Writer for the stand-in's log.
func (l *lab) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

// newLab serves data, JSON of the stand-in's form; members of a project and quotas are
// made up.
func newLab(t *testing.T, data string) *lab {
	t.Helper()
	l := &lab{t: t, faults: filepath.Join(t.TempDir(), "faults.json")}
	var err error
	l.linear, err = peertest.StartLinear(peertest.LinearOptions{
		Data: []byte(data), Faults: l.faults, Key: testKey, ClientID: "app", ClientSecret: testSecret, Log: l,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.linear.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// board is a data set with one project and these issues, as a JSON list.
func board(issues string) string {
	return fmt.Sprintf(`{"projects": [{"slug": %q, "name": "Symphony", "teams": ["ENG"]}], "issues": [%s]}`, testSlug, issues)
}

// fail makes the stand-in's next answers fail as the JSON list says.
func (l *lab) fail(faults string) {
	l.t.Helper()
	if err := os.WriteFile(l.faults, []byte(faults), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// request is a line of the stand-in's log.
type request struct {
	Operation  string         `json:"operation"`
	Auth       string         `json:"auth"`
	Status     int            `json:"status"`
	Code       string         `json:"code"`
	Complexity int            `json:"complexity"`
	Query      string         `json:"query"`
	Variables  map[string]any `json:"variables"`
}

func (l *lab) requests() []request {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []request
	for line := range bytes.Lines(l.log.Bytes()) {
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			l.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// count is the number of requests of one operation; "" counts all.
func (l *lab) count(operation string) int {
	n := 0
	for _, r := range l.requests() {
		if operation == "" || r.Operation == operation {
			n++
		}
	}
	return n
}

func (l *lab) config(provider map[string]any) tracker.Config {
	p := map[string]any{"endpoint": l.linear.URL(), "api_key": testKey, "project_slug": testSlug}
	for k, v := range provider {
		if p[k] = v; v == nil {
			delete(p, k)
		}
	}
	return tracker.Config{
		Provider: p, Getenv: func(string) string { return "" }, Now: time.Now,
		Rules: tracker.Rules{Active: []string{"Todo", "In Progress"}, Terminal: []string{"Done", "Canceled"}},
	}
}

func (l *lab) open(provider map[string]any) *Project {
	l.t.Helper()
	p, err := Open(l.config(provider))
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func list(t *testing.T, p *Project, states ...string) *tracker.Page {
	t.Helper()
	page, err := tracker.Collect(t.Context(), p, tracker.Query{States: states, All: len(states) == 0})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func keys(issues []*wire.Issue) []string {
	var out []string
	for _, i := range issues {
		out = append(out, i.Identifier)
	}
	slices.Sort(out)
	return out
}

// wantCategory fails unless err is a tracker's error of this kind, with these words.
func wantCategory(t *testing.T, err error, want tracker.Category, words ...string) {
	t.Helper()
	var e *tracker.Error
	if !errors.As(err, &e) || e.Category != want {
		t.Errorf("error %v, want one of %s", err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestIssue(t *testing.T) {
	l := newLab(t, `{
	  "projects": [{"slug": "0c79b11b75ea", "name": "Symphony"}], "users": [{"name": "ada", "id": "u-ada"}, {"name": "eve", "guest": true}],
	  "issues": [{"identifier": "ENG-1", "title": " Write it ", "description": "long\ntext", "priority": 2, "state": "In Progress", "assignee": "ada",
	    "creator": "eve", "milestone": "M1", "parent": "ENG-2", "labels": [" Bug", "bug", "UI"], "blocked_by": ["ENG-3"], "related_to": ["ENG-2"],
	    "attachments": [{"url": "https://github.com/o/r/pull/7", "created_at": "2026-01-02T00:00:00.000Z"}, {"url": "https://example.com/doc"},
	      {"url": "https://github.com/o/r/pull/9", "created_at": "2026-01-03T00:00:00.000Z"}],
	    "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-05T00:00:00.000Z"},
	   {"identifier": "ENG-2", "state": "Backlog"}, {"identifier": "ENG-3", "state": "Done", "priority": 0}]}`)
	page := list(t, l.open(nil), "In Progress")
	if len(page.Issues) != 1 {
		t.Fatalf("%d issues, want 1", len(page.Issues))
	}
	issue := page.Issues[0]
	native := issue.NativeRef
	issue.NativeRef = nil
	for _, id := range []*string{&issue.ID, &issue.Parent.ID} {
		*id = id36(*id)
	}
	issue.BlockedBy[0].ID, issue.Project.ID = wire.Text(id36(string(issue.BlockedBy[0].ID))), wire.Text(id36(string(issue.Project.ID)))
	got, err := wire.Encode(issue)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"ID","native_ref":null,"identifier":"ENG-1","title":"Write it","description":"long\ntext","priority":2,"state":"In Progress",` +
		`"state_kind":"started","category":"active","branch_name":"agent/eng-1","url":"https://linear.app/example/issue/ENG-1","assignee_id":"u-ada",` +
		`"labels":["bug","ui"],"blocked_by":[{"id":"ID","identifier":"ENG-3","state":"Done","known":true}],` +
		`"parent":{"id":"ID","identifier":"ENG-2","state":"Backlog"},"children":[],"dispatchable":true,"pr_url":"https://github.com/o/r/pull/9",` +
		`"project":{"id":"ID","slug":"0c79b11b75ea","name":"Symphony"},"milestone":"M1","author":"eve","trusted":false,"archived":false,` +
		`"tracker":"linear","route":null,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-05T00:00:00.000Z"}`
	if string(got) != want {
		t.Errorf("issue\n%s\nwant\n%s", got, want)
	}
	var ref map[string]string
	if err := json.Unmarshal(native, &ref); err != nil || ref["team_key"] != "ENG" || len(ref["state_id"]) != 36 {
		t.Errorf("native_ref %s, %v", native, err)
	}
	if page.RateLimit == nil || *page.RateLimit.Limit == 0 || page.RateLimit.ResetAt.IsZero() {
		t.Errorf("rate limit %+v", page.RateLimit)
	}
}

func id36(id string) string {
	if len(id) == 36 {
		return "ID"
	}
	return id
}

func TestParentHasChildren(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "ENG-2", "parent": "ENG-1", "state": "Done"}`))
	page := list(t, l.open(nil), "Todo")
	if c := page.Issues[0].Children; len(c) != 1 || c[0].Identifier != "ENG-2" || c[0].State != "Done" {
		t.Errorf("children %+v", c)
	}
}

func TestPriority(t *testing.T) {
	for raw, want := range map[string]string{"0": "null", "1": "1", "4": "4", "2.0": "2", "1.5": "null", "-1": "null", "5": "null", `"high"`: "null", "null": "null"} {
		l := newLab(t, board(`{"identifier": "ENG-1", "raw": {"priority": `+raw+`}}`))
		got, err := wire.Encode(list(t, l.open(nil), "Todo").Issues[0].Priority)
		if err != nil || string(got) != want {
			t.Errorf("priority %s is %s, want %s; %v", raw, got, want, err)
		}
	}
}

// REFERENCE 12, item 5.
func TestStateNamesMatchInAnyCase(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "ENG-2", "state": "In Progress"}, {"identifier": "ENG-3", "state": "Backlog"}`))
	if got := keys(list(t, l.open(nil), " todo ", "IN PROGRESS").Issues); !slices.Equal(got, []string{"ENG-1", "ENG-2"}) {
		t.Errorf("issues %q", got)
	}
}

func TestSlugForms(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}`))
	for _, slug := range []string{testSlug, "symphony-" + testSlug} {
		if page := list(t, l.open(map[string]any{"project_slug": slug}), "Todo"); len(page.Issues) != 1 {
			t.Errorf("slug %q: %d issues", slug, len(page.Issues))
		}
	}
}

// REFERENCE 12, item 10: no such project is not the same as no issues.
func TestUnknownProject(t *testing.T) {
	l := newLab(t, board(""))
	if page := list(t, l.open(nil), "Todo"); len(page.Issues) != 0 {
		t.Errorf("issues in an empty project: %q", keys(page.Issues))
	}
	_, err := tracker.Collect(t.Context(), l.open(map[string]any{"project_slug": "nowhere"}), tracker.Query{States: []string{"Todo"}})
	wantCategory(t, err, tracker.NotFound, `"nowhere"`)
}

// A team with more states than one page has no list of them, rather than half of one.
func TestStatesOfTheProject(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}`))
	scope, err := l.open(nil).Probe(t.Context())
	if err != nil || scope.Name != "Symphony" || !slices.Contains(scope.States, "Human Review") {
		t.Errorf("scope %+v, %v", scope, err)
	}
	l.fail(`[{"set": {"data.projects.nodes.0.teams.nodes.0.states.pageInfo.hasNextPage": true}}]`)
	if scope, err = l.open(nil).Probe(t.Context()); err != nil || scope.States != nil {
		t.Errorf("scope %+v, %v", scope, err)
	}
}

func TestTeam(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "OPS-2"}`))
	if got := keys(list(t, l.open(map[string]any{"team": "ops"}), "Todo").Issues); !slices.Equal(got, []string{"OPS-2"}) {
		t.Errorf("issues of one team: %q", got)
	}
	_, err := tracker.Collect(t.Context(), l.open(map[string]any{"team": "NO"}), tracker.Query{States: []string{"Todo"}})
	wantCategory(t, err, tracker.NotFound, `team "NO"`)
}

// REFERENCE 12, item 6.
func TestArchived(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1", "archived_at": "2026-01-02T00:00:00.000Z"}, {"identifier": "ENG-2", "trashed": true},
	  {"identifier": "ENG-3"}, {"identifier": "ENG-4", "state": "Done", "archived_at": "2026-01-02T00:00:00.000Z"}`))
	p := l.open(nil)
	if got := keys(list(t, p, "Todo", "In Progress").Issues); !slices.Equal(got, []string{"ENG-3"}) {
		t.Errorf("candidates %q", got)
	}
	if got := keys(list(t, p, "Done").Issues); !slices.Equal(got, []string{"ENG-4"}) {
		t.Errorf("terminal %q", got)
	}
	if got := keys(list(t, p, "Done", "Todo").Issues); !slices.Equal(got, []string{"ENG-3", "ENG-4"}) {
		t.Errorf("both %q", got)
	}
	page, err := p.ByIdentifiers(t.Context(), []string{"ENG-1", "ENG-2", "ENG-3"})
	if err != nil || len(page.Issues) != 3 {
		t.Fatalf("by identifier: %+v, %v", page, err)
	}
	for _, i := range page.Issues {
		if archived := i.Identifier != "ENG-3"; i.Archived != archived || i.Dispatchable == archived {
			t.Errorf("%s: archived %t, dispatchable %t", i.Identifier, i.Archived, i.Dispatchable)
		}
	}
}

// Case P10, REFERENCE 12, item 3: nested lists are bounded, and completed.
func TestNestedListsAreWhole(t *testing.T) {
	var labels, blockers, others []string
	for i := range 120 {
		labels = append(labels, fmt.Sprintf(`"l%d"`, i))
		blockers = append(blockers, fmt.Sprintf(`"ENG-%d"`, i+10))
		others = append(others, fmt.Sprintf(`{"identifier": "ENG-%d", "state": "Done"}, {"identifier": "ENG-%d", "state": "Done", "parent": "ENG-1"}`, i+10, i+500))
	}
	l := newLab(t, board(fmt.Sprintf(`{"identifier": "ENG-1", "labels": [%s], "blocked_by": [%s]}, %s`,
		strings.Join(labels, ","), strings.Join(blockers, ","), strings.Join(others, ","))))
	issue := list(t, l.open(nil), "Todo").Issues[0]
	if len(issue.Labels) != 120 || len(issue.BlockedBy) != 120 || len(issue.Children) != 120 {
		t.Errorf("%d labels, %d blockers, %d children; want 120 each", len(issue.Labels), len(issue.BlockedBy), len(issue.Children))
	}
	if l.count("OsLabels") != 3 || l.count("OsBlockers") != 3 || l.count("OsChildren") != 3 {
		t.Errorf("requests %d, %d, %d; want 3 each", l.count("OsLabels"), l.count("OsBlockers"), l.count("OsChildren"))
	}
	l.fail(`[{"operation": "OsBlockers", "set": {"data.issue.id": "another"}}]`)
	_, err := tracker.Collect(t.Context(), l.open(nil), tracker.Query{States: []string{"Todo"}})
	wantCategory(t, err, tracker.BadResponse, "another")
}

// Case P12: a blocker that cannot be seen is not known, and so an open one.
func TestUnseenBlocker(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1", "blocked_by": ["ENG-2", "ENG-3", "ENG-4"]}, {"identifier": "ENG-2", "state": "Done"},
	  {"identifier": "ENG-3", "state": "Done"}, {"identifier": "ENG-4", "state": "Done"}`))
	l.fail(`[{"operation": "OsIssues", "set": {"data.issues.nodes.0.inverseRelations.nodes.1.issue": null, "data.issues.nodes.0.inverseRelations.nodes.2.issue.state": null}}]`)
	p := l.open(nil)
	issue := list(t, p, "Todo").Issues[0]
	if b := issue.BlockedBy; len(b) != 3 || !b[0].Known || b[1].Known || b[2].Known || b[2].Identifier != "ENG-4" {
		t.Errorf("blockers %+v", b)
	}
	if o := p.rules.Ready(issue); o == nil || o.Reason != tracker.BlockerUnknown {
		t.Errorf("ready: %+v", o)
	}
}

func TestAssignee(t *testing.T) {
	l := newLab(t, `{"users": [{"name": "ada", "id": "u-ada"}, {"name": "robot", "id": "u-me"}], "projects": [{"slug": "0c79b11b75ea"}],
	  "issues": [{"identifier": "ENG-1", "assignee": "ada"}, {"identifier": "ENG-2", "assignee": "robot"}, {"identifier": "ENG-3"}]}`)
	for assignee, want := range map[string][]string{"u-ada": {"ENG-1"}, " Me ": {"ENG-2"}} {
		p := l.open(map[string]any{"assignee": assignee})
		var got []string
		for range 2 {
			page := list(t, p, "Todo")
			if len(page.Issues) != 3 {
				t.Errorf("%q hides issues: %q", assignee, keys(page.Issues))
			}
			got = keys(slices.DeleteFunc(page.Issues, func(i *wire.Issue) bool { return !i.Dispatchable }))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: dispatchable %q, want %q", assignee, got, want)
		}
	}
	// REFERENCE 12, item 11: asked once, not once a call.
	if n := l.count("OsViewer"); n != 1 {
		t.Errorf("%d requests for the viewer, want 1", n)
	}
}

func TestByIDs(t *testing.T) {
	var issues []string
	for i := range 120 {
		issues = append(issues, fmt.Sprintf(`{"identifier": "ENG-%d"}`, i+1))
	}
	l := newLab(t, board(strings.Join(append(issues, `{"identifier": "ENG-999", "project": "other"}`), ",")))
	p := l.open(nil)
	var ids []string
	for _, i := range list(t, p).Issues {
		ids = append(ids, i.ID)
	}
	before := l.count("OsIssues")
	unknown := []string{"01234567-89ab-4def-8123-456789abcdef", "ENG-1", "not an id", "00000000-0000-0000-0000-000000000000"}
	page, err := p.ByIDs(t.Context(), slices.Concat(ids, unknown, ids[:2]))
	if err != nil || len(page.Issues) != 120 || !slices.Equal(page.Gone, unknown) {
		t.Errorf("%d issues, gone %q, %v", len(page.Issues), page.Gone, err)
	}
	if n := l.count("OsIssues") - before; n != 3 {
		t.Errorf("%d requests for 121 ids, want 3", n)
	}
	page, err = p.ByIdentifiers(t.Context(), []string{"eng-7", "ENG-7", "ENG-0", "ENG-999", "x"})
	if err != nil || !slices.Equal(keys(page.Issues), []string{"ENG-7"}) || !slices.Equal(page.Gone, []string{"ENG-0", "ENG-999", "x"}) {
		t.Errorf("by identifier: %q, gone %q, %v", keys(page.Issues), page.Gone, err)
	}
}

func TestNothingAskedIsNoRequest(t *testing.T) {
	l := newLab(t, board(""))
	p := l.open(map[string]any{"assignee": "me"})
	err := p.List(t.Context(), tracker.Query{}, func(*tracker.Page) error { return errors.New("a page") })
	_, errIDs := p.ByIDs(t.Context(), nil)
	page, errKeys := p.ByIdentifiers(t.Context(), []string{"no key"})
	if errors.Join(err, errIDs, errKeys) != nil || len(page.Gone) != 1 || l.count("") != 0 {
		t.Errorf("%d requests, %+v; %v, %v, %v", l.count(""), page, err, errIDs, errKeys)
	}
}

// A page is handed on before the next one is asked for.
func TestPagesStream(t *testing.T) {
	l := newLab(t, `{"projects": [{"slug": "0c79b11b75ea"}], "generate": [{"count": 250, "first": 1, "like": {"identifier": "ENG"}}]}`)
	var sizes []int
	seen := map[string]bool{}
	err := l.open(nil).List(t.Context(), tracker.Query{All: true}, func(p *tracker.Page) error {
		if l.count("OsIssues") != len(sizes)+1 {
			t.Errorf("page %d after %d requests", len(sizes)+1, l.count("OsIssues"))
		}
		sizes = append(sizes, len(p.Issues))
		for _, i := range p.Issues {
			seen[i.ID] = true
		}
		return nil
	})
	if err != nil || !slices.Equal(sizes, []int{20, 100, 100, 30}) || len(seen) != 250 {
		t.Errorf("pages %v, %d issues, %v", sizes, len(seen), err)
	}
	stop := errors.New("enough")
	if err := l.open(nil).List(t.Context(), tracker.Query{All: true}, func(*tracker.Page) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of use: %v", err)
	}
}

// Every page size stays below what Linear lets a query cost.
func TestComplexity(t *testing.T) {
	l := newLab(t, board(""))
	for _, size := range []int{1, 20, 50, 100, 101, 250} {
		list(t, l.open(map[string]any{"page_size": size}))
	}
	for _, r := range l.requests() {
		if r.Complexity == 0 || r.Complexity > 9000 {
			t.Errorf("%s with %v costs %d", r.Operation, r.Variables["first"], r.Complexity)
		}
	}
	p := l.open(nil)
	_, _, err := p.Comments(t.Context(), "ENG-1", []string{"## Codex Workpad"})
	if err != nil {
		t.Error(err)
	}
}

func TestContextEndsAQuestion(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}`))
	l.fail(`[{"hang": true}]`)
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for l.count("") == 0 && ctx.Err() == nil {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
		cancel(cause)
	}()
	if _, err := tracker.Collect(ctx, l.open(nil), tracker.Query{All: true}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}
