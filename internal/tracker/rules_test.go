package tracker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

var rules = Rules{
	Active:         []string{"Todo", " In Progress "},
	Terminal:       []string{"Done", "Both"},
	RequiredLabels: []string{"Agent"},
}

func TestCategory(t *testing.T) {
	r := rules
	r.Active = append(slices.Clone(r.Active), "both")
	for state, want := range map[string]string{
		"todo":           wire.CategoryActive,
		"  IN PROGRESS ": wire.CategoryActive,
		"done":           wire.CategoryTerminal,
		"Both":           wire.CategoryTerminal, // terminal wins
		"Human Review":   wire.CategoryOther,
		" ":              wire.CategoryOther,
	} {
		if got := r.Category(state); got != want {
			t.Errorf("Category(%q) = %q, want %q", state, got, want)
		}
	}
}

func TestNormalise(t *testing.T) {
	issue := &wire.Issue{ID: " 1 ", Identifier: "A-1", Title: " x", State: " In Progress", Labels: []string{" Bug", "bug", "", "UI "}}
	if err := rules.Normalise(issue); err != nil {
		t.Fatal(err)
	}
	if issue.ID != "1" || issue.Title != "x" || issue.State != "In Progress" {
		t.Errorf("blanks are left: %+v", issue)
	}
	if want := []string{"bug", "ui"}; !slices.Equal(issue.Labels, want) {
		t.Errorf("labels %q, want %q", issue.Labels, want)
	}
	if issue.Category != wire.CategoryActive || issue.StateKind != "started" {
		t.Errorf("category %q, kind %q", issue.Category, issue.StateKind)
	}
	line, err := wire.Marshal(issue)
	if err != nil || !json.Valid(line) {
		t.Errorf("Marshal: %s, %v", line, err)
	}
}

func TestNormaliseKeepsTheTrackersOwnKind(t *testing.T) {
	issue := &wire.Issue{ID: "1", Identifier: "1", Title: "x", State: "Done", StateKind: "canceled"}
	if err := rules.Normalise(issue); err != nil || issue.StateKind != "canceled" {
		t.Errorf("kind %q, %v", issue.StateKind, err)
	}
}

func TestNormaliseRefusesWhatIsMissing(t *testing.T) {
	whole := wire.Issue{ID: "1", Identifier: "A-1", Title: "x", State: "Todo"}
	for name, spoil := range map[string]func(*wire.Issue){
		"id":         func(i *wire.Issue) { i.ID = "" },
		"identifier": func(i *wire.Issue) { i.Identifier = " " },
		"title":      func(i *wire.Issue) { i.Title = "\n" },
		"state":      func(i *wire.Issue) { i.State = "" },
	} {
		issue := whole
		spoil(&issue)
		if err := rules.Normalise(&issue); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestInstant(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02T12:00:00Z":          noon,
		"2026-01-02T13:00:00.000+01:00": noon,
		" 2026-01-02 12:00:00":          noon,
		"2026-01-02 12:00":              noon,
		"2026-01-02T12:00:00":           noon,
		"2026-01-02":                    noon.Add(-12 * time.Hour),
		"yesterday":                     {},
		"":                              {},
		"2026-13-01":                    {},
	} {
		if got := Instant(text); !got.Equal(want) {
			t.Errorf("Instant(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestSort(t *testing.T) {
	day := func(n int) wire.Time { return wire.At(time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)) }
	issues := []*wire.Issue{
		{Identifier: "none-b"},
		{Identifier: "zero", Priority: new(int64(0)), CreatedAt: day(9)},
		{Identifier: "none-a"},
		{Identifier: "five", Priority: new(int64(5)), CreatedAt: day(1)},
		{Identifier: "low", Priority: new(int64(4))},
		{Identifier: "young", Priority: new(int64(1)), CreatedAt: day(2)},
		{Identifier: "ageless", Priority: new(int64(1))},
		{Identifier: "old", Priority: new(int64(1)), CreatedAt: day(1)},
	}
	Sort(issues)
	var got []string
	for _, i := range issues {
		got = append(got, i.Identifier)
	}
	if want := []string{"old", "young", "ageless", "low", "five", "zero", "none-a", "none-b"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

func TestReady(t *testing.T) {
	known := func(state string) wire.Blocker {
		return wire.Blocker{Identifier: "B-1", State: wire.Text(state), Known: true}
	}
	for _, c := range []struct {
		name  string
		spoil func(*wire.Issue)
		want  Reason
	}{
		{"nothing in the way", func(*wire.Issue) {}, ""},
		{"ended blocker", func(i *wire.Issue) { i.BlockedBy = []wire.Blocker{known("DONE")} }, ""},
		{"ended child", func(i *wire.Issue) { i.Children = []wire.IssueRef{{State: "done"}} }, ""},
		{"terminal", func(i *wire.Issue) { i.State = "Done" }, StateNotActive},
		{"other state", func(i *wire.Issue) { i.State = "Human Review" }, StateNotActive},
		{"undispatchable", func(i *wire.Issue) { i.Dispatchable = false }, Undispatchable},
		{"no label", func(i *wire.Issue) { i.Labels = nil }, LabelMissing},
		{"one of two ended", func(i *wire.Issue) { i.BlockedBy = []wire.Blocker{known("Done"), known("Todo")} }, BlockerOpen},
		{"blocker in another state", func(i *wire.Issue) { i.BlockedBy = []wire.Blocker{known("Human Review")} }, BlockerOpen},
		{"unseen blocker", func(i *wire.Issue) { i.BlockedBy = []wire.Blocker{{Identifier: "X"}} }, BlockerUnknown},
		{"nameless blocker", func(i *wire.Issue) { i.BlockedBy = []wire.Blocker{{}} }, BlockerUnknown},
		{"open child", func(i *wire.Issue) { i.Children = []wire.IssueRef{{State: "Todo"}} }, ChildOpen},
		{"child without a state", func(i *wire.Issue) { i.Children = []wire.IssueRef{{}} }, ChildOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			issue := &wire.Issue{State: "todo", Dispatchable: true, Labels: []string{"agent"}}
			c.spoil(issue)
			got := rules.Ready(issue)
			if (got == nil) != (c.want == "") || got != nil && (got.Reason != c.want || got.Detail == "") {
				t.Errorf("Ready = %+v, want %q", got, c.want)
			}
		})
	}
}

func TestBlankRequiredLabelMatchesNothing(t *testing.T) {
	r := Rules{Active: []string{"Todo"}, RequiredLabels: []string{" "}}
	if got := r.Ready(&wire.Issue{State: "Todo", Dispatchable: true, Labels: []string{"x"}}); got == nil {
		t.Error("ready in spite of a blank required label")
	}
}

func TestCycles(t *testing.T) {
	issue := func(key, state string, blockers ...string) *wire.Issue {
		i := &wire.Issue{Identifier: key, State: state}
		for _, b := range blockers {
			i.BlockedBy = append(i.BlockedBy, wire.Blocker{Identifier: wire.Text(b), State: "Todo", Known: true})
		}
		return i
	}
	parent := issue("P", "Todo")
	parent.Children = []wire.IssueRef{{Identifier: "C", State: "Todo"}}
	var got []string
	for _, ring := range rules.Cycles([]*wire.Issue{
		issue("B", "Todo", "A"), issue("A", "Todo", "B", "D"), // a ring and a way out of it
		issue("D", "Todo"), issue("S", "Todo", "S"),
		issue("E", "Done", "F"), issue("F", "Todo", "E"), // E is over
		parent, issue("C", "Todo", "P"),
	}) {
		got = append(got, RingText(ring))
	}
	if want := []string{"A -> B -> A", "C -> P -> C", "S -> S"}; !slices.Equal(got, want) {
		t.Errorf("cycles %q, want %q", got, want)
	}
}
