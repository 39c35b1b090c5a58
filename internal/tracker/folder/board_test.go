package folder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// newBoard makes a board of the given files.
func newBoard(t *testing.T, files map[string]string) *Board {
	t.Helper()
	dir := t.TempDir()
	b, err := Open(tracker.Config{Dir: dir, Rules: defaultRules(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		put(t, b, name, text)
	}
	return b
}

func put(t *testing.T, b *Board, name, text string) {
	t.Helper()
	path := filepath.Join(b.Dir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
}

func all(t *testing.T, b *Board) *tracker.Page {
	t.Helper()
	page, err := tracker.Collect(t.Context(), b, tracker.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func keys(page *tracker.Page) []string {
	var out []string
	for _, i := range page.Issues {
		out = append(out, i.Identifier)
	}
	slices.Sort(out)
	return out
}

func TestDefaults(t *testing.T) {
	b := newBoard(t, map[string]string{"A-1.md": "---\n---\n\n# Do it\n\nThis way.\r\n\n"})
	issue := all(t, b).Issues[0]
	got, err := wire.Marshal(issue)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"v":1,"type":"issue","id":"A-1","native_ref":{"file":"A-1.md"},"identifier":"A-1","title":"Do it",` +
		`"description":"# Do it\n\nThis way.","priority":null,"state":"Todo","state_kind":"unstarted","category":"active",` +
		`"branch_name":null,"url":null,"assignee_id":null,"labels":[],"blocked_by":[],"parent":null,"children":[],"dispatchable":true,` +
		`"pr_url":null,"project":null,"milestone":null,"author":null,"trusted":true,"archived":false,"tracker":"folder","route":null,` +
		`"created_at":null,"updated_at":"2026-03-04T05:06:07.000Z"}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestListByState(t *testing.T) {
	b := newBoard(t, map[string]string{
		"a.md": "---\nstate: Todo\n---\n",
		"b.md": "---\nstate: ' DONE '\n---\n",
		"c.md": "---\nstate: Someday\narchived: true\n---\n",
	})
	for _, c := range []struct {
		query   tracker.Query
		want    []string
		skipped int
	}{
		{tracker.Query{}, nil, 0},
		{tracker.Query{States: []string{"todo", "nowhere"}}, []string{"a"}, 2},
		{tracker.Query{States: []string{"Done"}}, []string{"b"}, 2},
		{tracker.Query{States: []string{"someday "}}, []string{"c"}, 2},
		{tracker.Query{All: true}, []string{"a", "b", "c"}, 0},
	} {
		page, err := tracker.Collect(t.Context(), b, c.query)
		if err != nil || !slices.Equal(keys(page), c.want) || page.Skipped != c.skipped {
			t.Errorf("List(%+v) = %q, %d skipped, %v", c.query, keys(page), page.Skipped, err)
		}
	}
	if c := all(t, b).Issues[2]; c.Category != wire.CategoryOther || c.Dispatchable || !c.Archived {
		t.Errorf("archived card in a foreign state: %+v", c)
	}
}

func TestRelations(t *testing.T) {
	b := newBoard(t, map[string]string{
		"A-1.md": "---\nid: one\nstate: Done\n---\n",
		"A-2.md": "---\nblocked_by: [a-1, Z-9]\nparent: A-1\n---\n",
		"A-3.md": "---\nparent: Z-9\n---\n",
	})
	by := map[string]*wire.Issue{}
	for _, i := range all(t, b).Issues {
		by[i.Identifier] = i
	}
	want := []wire.Blocker{{ID: "one", Identifier: "A-1", State: "Done", Known: true}, {Identifier: "Z-9"}}
	if got := by["A-2"].BlockedBy; !slices.Equal(got, want) {
		t.Errorf("blockers %+v, want %+v", got, want)
	}
	if p := by["A-2"].Parent; p == nil || *p != (wire.IssueRef{ID: "one", Identifier: "A-1", State: "Done"}) {
		t.Errorf("parent %+v", p)
	}
	if c := by["A-1"].Children; len(c) != 1 || c[0] != (wire.IssueRef{ID: "A-2", Identifier: "A-2", State: "Todo"}) {
		t.Errorf("children %+v", c)
	}
	if p := by["A-3"].Parent; p == nil || p.Identifier != "Z-9" || p.State != "" {
		t.Errorf("unknown parent %+v", p)
	}
}

func TestBrokenCardsAreToldAndTheRestListed(t *testing.T) {
	b := newBoard(t, map[string]string{
		"a.md":                 "---\n---\n",
		"b.md":                 "---\nstate: Todo\nid: a\n---\n",
		"c.md":                 "---\nstate: Todo\n",
		"d.md":                 "---\n---\n" + strings.Repeat("x", maxCard),
		"e.md":                 "---\npriority: x\n---\n",
		"f\xff.md":             "---\n---\n",
		"_template.md":         "no card",
		".hidden.md":           "no card",
		"notes.txt":            "no card",
		".md":                  "no card",
		"z\n.md":               "---\n---\n",
		".A-1.md8301237401283": "left behind",
	})
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("---\ntitle: secret\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustDo(t, os.Symlink(outside, filepath.Join(b.Dir(), "g.md")))
	mustDo(t, syscall.Mkfifo(filepath.Join(b.Dir(), "h.md"), 0o600))
	mustDo(t, os.Mkdir(filepath.Join(b.Dir(), "sub.md"), 0o755))

	page := all(t, b)
	if got := keys(page); !slices.Equal(got, []string{"a"}) {
		t.Errorf("listed %q", got)
	}
	var got []string
	for _, p := range page.Problems {
		got = append(got, strings.TrimPrefix(strings.ReplaceAll(p.Error(), b.Dir()+"/", ""), "/"))
	}
	want := []string{
		`b.md:3: id "a" is also that of a.md`,
		`c.md:1: front matter has no end: a line "---" is missing`,
		`d.md: card is over 1048576 bytes`,
		`e.md:2: priority: "x" is not a whole number`,
		`"f\xff.md": file name is not valid UTF-8`,
		`g.md: is a symbolic link; a card is a plain file in the board`,
		`h.md: is not a plain file`,
		`"z\n.md": file name has control characters`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBadBytesInTheTextAreAWarning(t *testing.T) {
	page := all(t, newBoard(t, map[string]string{"a.md": "---\n---\nfine\nnot \xff fine\x00\u2028"}))
	if len(page.Problems) != 0 || len(page.Warnings) != 1 || page.Warnings[0].Line != 4 {
		t.Errorf("problems %v, warnings %v", page.Problems, page.Warnings)
	}
	if got := page.Issues[0].Description; got != "fine\nnot \ufffd fine\x00\u2028" {
		t.Errorf("description %q", got)
	}
}

func TestPick(t *testing.T) {
	b := newBoard(t, map[string]string{"A-1.md": "---\nid: one\n---\n", "B.md": "---\n---\n"})
	page, err := b.ByIDs(t.Context(), []string{"B", "one", "two", "B", "A-1"})
	if err != nil || !slices.Equal(keys(page), []string{"A-1", "B"}) || !slices.Equal(page.Gone, []string{"two", "A-1"}) {
		t.Errorf("ByIDs: %q, gone %q, %v", keys(page), page.Gone, err)
	}
	page, err = b.ByIdentifiers(t.Context(), []string{"a-1", "A-1", "one"})
	if err != nil || !slices.Equal(keys(page), []string{"A-1"}) || !slices.Equal(page.Gone, []string{"one"}) {
		t.Errorf("ByIdentifiers: %q, gone %q, %v", keys(page), page.Gone, err)
	}
}

// A card that cannot be read may be the one asked for: "gone" would make a scheduler
// let go of a run because of a typing mistake.
func TestBrokenCardIsNotGone(t *testing.T) {
	b := newBoard(t, map[string]string{"A.md": "---\n---\n", "B.md": "---\nid: [\n---\n"})
	page, err := b.ByIDs(t.Context(), []string{"A", "two"})
	if err != nil || len(page.Gone) != 0 || len(page.Problems) != 1 || len(page.Issues) != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
	page, err = b.ByIDs(t.Context(), []string{"A"})
	if err != nil || len(page.Problems) != 0 || len(page.Issues) != 1 {
		t.Errorf("a foreign broken card was told: %+v, %v", page, err)
	}
}

func TestIdentifiersThatDifferInCase(t *testing.T) {
	b := newBoard(t, map[string]string{"a-1.md": "---\n---\n", "A-1.md": "---\n---\n"})
	if entries, _ := os.ReadDir(b.Dir()); len(entries) < 2 {
		t.Skip("this file system folds case")
	}
	page, err := b.ByIdentifiers(t.Context(), []string{"a-1"})
	if err != nil || !slices.Equal(keys(page), []string{"a-1"}) {
		t.Errorf("got %q, %v", keys(page), err)
	}
}

func TestBoardThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	mustDo(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	for path, want := range map[string]string{"none": "does not exist", "file": "is not a folder"} {
		b, err := Open(tracker.Config{Dir: dir, Provider: map[string]any{"path": path}, Rules: defaultRules()})
		mustDo(t, err)
		_, err = tracker.Collect(t.Context(), b, tracker.Query{All: true})
		var e *tracker.Error
		if !errors.As(err, &e) || e.Category != tracker.InvalidConfig || !strings.Contains(e.Message, want) || !strings.Contains(e.Message, b.Dir()) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOpenPaths(t *testing.T) {
	for _, c := range []struct {
		path any
		want string // "": an error
	}{
		{nil, "/flow/issues"}, {" ", "/flow/issues"}, {"board/", "/flow/board"}, {"/else/where", "/else/where"}, {7, ""},
	} {
		b, err := Open(tracker.Config{Dir: "/flow", Provider: map[string]any{"path": c.path}, Rules: defaultRules()})
		switch {
		case c.want == "":
			if err == nil {
				t.Errorf("path %v is taken", c.path)
			}
		case err != nil || b.Dir() != c.want:
			t.Errorf("path %v: %v, %v", c.path, b, err)
		}
	}
}

func TestStates(t *testing.T) {
	open := func(states any) ([]string, error) {
		b, err := Open(tracker.Config{Dir: "/x", Provider: map[string]any{"states": states}, Rules: tracker.Rules{Active: []string{"Go"}, Terminal: []string{"End", "go"}}})
		if err != nil {
			return nil, err
		}
		return b.States(), nil
	}
	if got, err := open(nil); err != nil || !slices.Equal(got, []string{"Go", "Backlog", "Human Review", "End"}) {
		t.Errorf("default states %q, %v", got, err)
	}
	if got, err := open([]any{"Later"}); err != nil || !slices.Equal(got, []string{"Go", "Later", "End"}) {
		t.Errorf("own states %q, %v", got, err)
	}
	for _, bad := range []any{"Later", []any{1}, []any{" "}} {
		if got, err := open(bad); err == nil {
			t.Errorf("states %v gave %q", bad, got)
		}
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	b := newBoard(t, map[string]string{"a.md": "---\n---\n"})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := tracker.Collect(ctx, b, tracker.Query{All: true}); !errors.Is(err, cause) {
		t.Errorf("List on a dead context: %v", err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"/a/b-1.md": "/a/b-1.md", "": "''", "a b": "'a b'", "it's": `'it'\''s'`} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
