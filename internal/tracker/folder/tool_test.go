package folder

import (
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

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

func use(t *testing.T, b *Board, tool, args string) (*wire.Issue, error) {
	t.Helper()
	for _, candidate := range b.Tools() {
		if candidate.Name != tool {
			continue
		}
		rec, err := candidate.Call(t.Context(), tracker.Call{
			Args:    json.RawMessage(args),
			Current: func() (string, error) { return "", errors.New("nobody asked") },
		})
		if err != nil {
			return nil, err
		}
		return rec.(*wire.Issue), nil
	}
	t.Fatalf("no tool %q", tool)
	return nil, nil
}

func contents(t *testing.T, b *Board, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(b.Dir(), name))
	mustDo(t, err)
	return string(data)
}

func TestUpdate(t *testing.T) {
	b := newBoard(t, map[string]string{
		"A-1.md": "---\nstate: Todo\nlabels: [a]\n---\n# One\n",
		"A-2.md": "---\nparent: A-1\n---\n",
	})
	put(t, b, ".A-1.md123456", "left behind by a writer that was killed")
	mustDo(t, os.Chmod(filepath.Join(b.Dir(), "A-1.md"), 0o640))
	got, err := use(t, b, "issue_update", `{"identifier":"a-1","state":"human review","add_labels":["B","a"],"comment":"Look."}`)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != "Human Review" || !slices.Equal(got.Labels, []string{"a", "b"}) || len(got.Children) != 1 || got.Title != "One" {
		t.Errorf("result %+v", got)
	}
	const want = "---\nstate: Human Review\nlabels: [a, b]\n---\n# One\n\n## Comment 2026-03-04T05:06:07Z\n\nLook.\n"
	if file := contents(t, b, "A-1.md"); file != want {
		t.Errorf("file\n%s\nwant\n%s", file, want)
	}
	info, err := os.Stat(filepath.Join(b.Dir(), "A-1.md"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if names := listed(t, b); !slices.Equal(names, []string{lockName, "A-1.md", "A-2.md"}) {
		t.Errorf("the board holds %q", names)
	}
}

func listed(t *testing.T, b *Board) []string {
	t.Helper()
	entries, err := os.ReadDir(b.Dir())
	mustDo(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestUpdateTakesTheCallersIssue(t *testing.T) {
	b := newBoard(t, map[string]string{"A-1.md": "---\nstate: Todo\n---\n"})
	call := tracker.Call{Args: json.RawMessage(`{"state":"Done"}`), Current: func() (string, error) { return "A-1", nil }}
	if _, err := b.update(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, b, "A-1.md"); got != "---\nstate: Done\n---\n" {
		t.Errorf("file %q", got)
	}
}

func TestGet(t *testing.T) {
	b := newBoard(t, map[string]string{"A-1.md": "---\nstate: Todo\n---\n", "B.md": "---\nid: [\n---\n"})
	if got, err := use(t, b, "issue_get", `{"identifier":"A-1"}`); err != nil || got.Identifier != "A-1" {
		t.Errorf("issue_get: %+v, %v", got, err)
	}
	if _, err := use(t, b, "issue_get", `{"identifier":"B"}`); err == nil || !strings.Contains(err.Error(), "B.md:2:") {
		t.Errorf("issue_get of a broken card: %v", err)
	}
}

func TestToolsRefuse(t *testing.T) {
	const text = "---\nstate: Todo\n---\n# One\n"
	b := newBoard(t, map[string]string{"A-1.md": text, "_t.md": text, "braces.md": "---\n{state: Todo}\n---\n"})
	outside := filepath.Join(filepath.Dir(b.Dir()), "out.md")
	mustDo(t, os.WriteFile(outside, []byte(text), 0o644))
	mustDo(t, os.Symlink(outside, filepath.Join(b.Dir(), "link.md")))
	for _, c := range []struct{ args, want string }{
		{`{"identifier":"A-9","comment":"x"}`, `no issue "A-9"`},
		{`{"identifier":"../out","comment":"x"}`, "does not name a card"},
		{`{"identifier":"..","comment":"x"}`, "does not name a card"},
		{`{"identifier":"","comment":"x"}`, "does not name a card"},
		{`{"identifier":"_t","comment":"x"}`, "does not name a card"},
		{`{"identifier":"/etc/passwd","comment":"x"}`, "does not name a card"},
		{`{"identifier":"link","comment":"x"}`, "symbolic link"},
		{`{"identifier":"braces","state":"Done"}`, "braces"},
		{`{"identifier":"A-1","state":"Nope"}`, "not one of Todo, In Progress, Backlog"},
		{`{"identifier":"A-1"}`, "nothing to change"},
		{`{"identifier":"A-1","add_labels":[]}`, "nothing to change"},
		{`{"identifier":"A-1","comment":" "}`, "comment is blank"},
		{`{"identifier":"A-1","labels":["a"],"add_labels":["b"]}`, "excludes"},
		{`{"identifier":"A-1","stat":"Done"}`, `unknown field "stat"`},
		{`{"identifier":"A-1","state":7}`, "arguments"},
		{`{"identifier":"A-1","comment":"x"} {}`, "more than one"},
		{`{"comment":"x"}`, "nobody asked"},
		{`{"identifier":"A-1","comment":"` + strings.Repeat("x", maxCard) + `"}`, "card is over"},
	} {
		if _, err := use(t, b, "issue_update", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v, want … %s …", c.args, err, c.want)
		}
	}
	after, err := os.ReadFile(outside)
	if contents(t, b, "A-1.md") != text || string(after) != text || err != nil {
		t.Error("a refused call changed a file")
	}
}

// Two writers with boards, and so locks, of their own lose nothing of each other.
func TestTwoWritersLoseNothing(t *testing.T) {
	const each = 25
	first := newBoard(t, map[string]string{"A-1.md": "---\nstate: Todo # s\n---\n# One\n"})
	second := *first
	var writers sync.WaitGroup
	for name, b := range map[string]*Board{"one": first, "two": &second} {
		writers.Go(func() {
			for n := range each {
				args := fmt.Sprintf(`{"identifier":"A-1","add_labels":["%s-%d"],"comment":"said %s-%d."}`, name, n, name, n)
				if _, err := b.update(t.Context(), tracker.Call{Args: json.RawMessage(args)}); err != nil {
					t.Errorf("%s-%d: %v", name, n, err)
				}
			}
		})
	}
	writers.Wait()
	issue := all(t, first).Issues[0]
	file := contents(t, first, "A-1.md")
	for _, name := range []string{"one", "two"} {
		for n := range each {
			if label := fmt.Sprintf("%s-%d", name, n); !slices.Contains(issue.Labels, label) || strings.Count(file, "said "+label+".") != 1 {
				t.Errorf("%s is lost", label)
			}
		}
	}
	if len(issue.Labels) != 2*each || !strings.HasPrefix(file, "---\nstate: Todo # s\nlabels: [") {
		t.Errorf("%d labels in %.60q", len(issue.Labels), file)
	}
}

func TestLockWaitsNoLongerThanItsContext(t *testing.T) {
	b := newBoard(t, nil)
	root, err := b.root()
	mustDo(t, err)
	defer root.Close()
	unlock, err := lock(t.Context(), root)
	mustDo(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	var busy *tracker.Error
	if _, err := lock(ctx, root); !errors.As(err, &busy) || busy.Category != tracker.Busy {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	again, err := lock(t.Context(), root)
	mustDo(t, err)
	again()
}

func TestSchemasAreSchemas(t *testing.T) {
	for _, tool := range newBoard(t, nil).Tools() {
		var s struct {
			Type       string
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(tool.InputSchema, &s); err != nil || s.Type != "object" || s.Properties["identifier"].Type != "string" {
			t.Errorf("%s: %s, %v", tool.Name, tool.InputSchema, err)
		}
	}
}
