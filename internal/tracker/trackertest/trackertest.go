// Package trackertest is the suite that every adapter passes: whatever the tracker,
// os-poll's promises are the same.
//
// It is for tests only. An adapter's own test says how to fill its tracker and what its
// troubles are, and calls Run; what only that tracker can get wrong it tests by itself.
package trackertest

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

// Trouble is something that is wrong with a tracker as a whole.
type Trouble string

// The troubles. A tracker has those that its Harness names.
const (
	NoTrouble       Trouble = ""
	WrongCredential Trouble = "wrong credential"
	NoPermission    Trouble = "no permission"
	NoScope         Trouble = "no such project"
	QuotaUsedUp     Trouble = "quota used up"
	Unreachable     Trouble = "unreachable"
	Failing         Trouble = "failing inside"
	Silent          Trouble = "silent"
	Garbled         Trouble = "garbled answer"
	PagesInARing    Trouble = "pages in a ring"
	TooMuchAsked    Trouble = "too much asked"
)

// Board is what a tracker is filled with.
type Board struct {
	Issues  []Issue
	Trouble Trouble
}

// Issue is one issue of a Board. The subject gives it an id and an identifier.
type Issue struct {
	N         int // from 1, in the order of age
	Title     string
	State     string
	Labels    []string
	BlockedBy []int
	Parent    int  // 0: none
	Malformed bool // it has no title, or whatever else makes it unusable
}

// Harness is one kind of tracker.
type Harness struct {
	Kind             string
	Active, Terminal string // a state of either category
	Pages            int    // issues that take at least three pages; 0 where there are none
	// Troubles holds those that this tracker can have, and how it calls them.
	Troubles map[Trouble]tracker.Category
	// Open fills a tracker and opens it with the rules given. It cleans up by t.
	Open func(t *testing.T, b Board, rules tracker.Rules) Subject
}

// Subject is a tracker that is filled.
type Subject struct {
	Tracker    tracker.Tracker
	ID         func(n int) string
	Identifier func(n int) string
	Unknown    string     // an id of the right form that no issue has
	Requests   func() int // so far; nil where there are none
	Secrets    []string   // that nothing may show
}

func (h *Harness) rules() tracker.Rules {
	return tracker.Rules{Active: []string{h.Active}, Terminal: []string{h.Terminal}}
}

func (h *Harness) open(t *testing.T, issues ...Issue) Subject {
	t.Helper()
	return h.Open(t, Board{Issues: issues}, h.rules())
}

// some are an active issue with odd labels, one that is over, and one that waits for both.
func (h *Harness) some() []Issue {
	return []Issue{
		{N: 1, Title: "First", State: h.Active, Labels: []string{"Bug", "bug", "Two Words"}},
		{N: 2, Title: "Second", State: h.Terminal},
		{N: 3, Title: "Third", State: h.Active, BlockedBy: []int{1, 2}},
		{N: 4, Title: "Fourth", State: h.Active, Parent: 3},
	}
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("normalises", h.normalises)
	t.Run("relations", h.relations)
	t.Run("names of states", h.stateNames)
	t.Run("nothing asked", h.nothingAsked)
	t.Run("pages", h.pages)
	t.Run("ids", h.ids)
	t.Run("identifiers", h.identifiers)
	t.Run("malformed", h.malformed)
	t.Run("abandoned", h.abandoned)
	t.Run("together", h.together)
	t.Run("tools", h.tools)
	for trouble, category := range h.Troubles {
		t.Run(string(trouble), func(t *testing.T) { h.trouble(t, trouble, category) })
	}
}

func collect(t *testing.T, s Subject, q tracker.Query) *tracker.Page {
	t.Helper()
	page, err := tracker.Collect(t.Context(), s.Tracker, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	return page
}

func find(t *testing.T, page *tracker.Page, id string) *wire.Issue {
	t.Helper()
	i := slices.IndexFunc(page.Issues, func(i *wire.Issue) bool { return i.ID == id })
	if i < 0 {
		t.Fatalf("no issue %q in %d", id, len(page.Issues))
	}
	return page.Issues[i]
}

func ids(page *tracker.Page) []string {
	var out []string
	for _, i := range page.Issues {
		out = append(out, i.ID)
	}
	slices.Sort(out)
	return out
}

func (s *Subject) want(ns ...int) []string {
	var out []string
	for _, n := range ns {
		out = append(out, s.ID(n))
	}
	slices.Sort(out)
	return out
}

func (h *Harness) normalises(t *testing.T) {
	s := h.open(t, h.some()...)
	issue := find(t, collect(t, s, tracker.Query{All: true}), s.ID(1))
	switch {
	case issue.Identifier != s.Identifier(1) || issue.Title != "First" || issue.Tracker != h.Kind:
		t.Errorf("names: %+v", issue)
	case tracker.Fold(issue.State) != tracker.Fold(h.Active) || issue.Category != wire.CategoryActive || issue.StateKind == "":
		t.Errorf("state %q, category %q, kind %q", issue.State, issue.Category, issue.StateKind)
	case !slices.Equal(issue.Labels, []string{"bug", "two words"}):
		t.Errorf("labels %q", issue.Labels)
	case !issue.Dispatchable || issue.Archived || issue.Priority != nil:
		t.Errorf("dispatchable %v, archived %v, priority %v", issue.Dispatchable, issue.Archived, issue.Priority)
	}
	h.encodes(t, issue)
}

// encodes checks that a record has every member, and null where there is no value.
func (h *Harness) encodes(t *testing.T, issue *wire.Issue) {
	line, err := wire.Marshal(issue)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"priority": "null", "parent": "null", "blocked_by": "[]", "children": "[]", "pr_url": "null"} {
		if got := string(members[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func (h *Harness) relations(t *testing.T) {
	s := h.open(t, h.some()...)
	for source, page := range map[string]*tracker.Page{"list": collect(t, s, tracker.Query{States: []string{h.Active}}), "ids": h.byIDs(t, s, s.ID(3), s.ID(4))} {
		third, fourth := find(t, page, s.ID(3)), find(t, page, s.ID(4))
		states := map[string]string{}
		for _, b := range third.BlockedBy {
			if b.Known {
				states[string(b.Identifier)] = tracker.Fold(string(b.State))
			}
		}
		if want := (map[string]string{s.Identifier(1): tracker.Fold(h.Active), s.Identifier(2): tracker.Fold(h.Terminal)}); fmt.Sprint(states) != fmt.Sprint(want) {
			t.Errorf("%s: blockers %+v, want %v", source, third.BlockedBy, want)
		}
		if len(third.Children) != 1 || third.Children[0].Identifier != s.Identifier(4) || tracker.Fold(string(third.Children[0].State)) != tracker.Fold(h.Active) {
			t.Errorf("%s: children %+v", source, third.Children)
		}
		if fourth.Parent == nil || fourth.Parent.Identifier != s.Identifier(3) {
			t.Errorf("%s: parent %+v", source, fourth.Parent)
		}
	}
}

func (h *Harness) byIDs(t *testing.T, s Subject, ids ...string) *tracker.Page {
	t.Helper()
	page, err := s.Tracker.ByIDs(t.Context(), ids)
	if err != nil {
		t.Fatalf("ids %q: %v", ids, err)
	}
	return page
}

// REFERENCE 12, item 5: case and the blanks around a name do not count.
func (h *Harness) stateNames(t *testing.T) {
	s := h.open(t, h.some()...)
	for query, want := range map[string][]string{
		"  " + strings.ToUpper(h.Active) + " ": s.want(1, 3, 4),
		strings.ToLower(h.Terminal):            s.want(2),
	} {
		if got := ids(collect(t, s, tracker.Query{States: []string{query}})); !slices.Equal(got, want) {
			t.Errorf("state %q: %q, want %q", query, got, want)
		}
	}
}

func (h *Harness) nothingAsked(t *testing.T) {
	s := h.open(t, h.some()...)
	page := collect(t, s, tracker.Query{})
	byID := h.byIDs(t, s)
	byKey, err := s.Tracker.ByIdentifiers(t.Context(), nil)
	if err != nil || len(page.Issues)+len(byID.Issues)+len(byKey.Issues)+len(byID.Gone)+len(byKey.Gone) > 0 {
		t.Errorf("something came of nothing: %v", err)
	}
	if s.Requests != nil && s.Requests() > 0 {
		t.Errorf("%d requests for nothing", s.Requests())
	}
}

func (h *Harness) pages(t *testing.T) {
	var issues []Issue
	var want []int
	for n := 1; n <= max(h.Pages, 3); n++ {
		issues, want = append(issues, Issue{N: n, Title: fmt.Sprintf("Issue %d", n), State: h.Active}), append(want, n)
	}
	s := h.open(t, issues...)
	pages, came := 0, 0
	err := s.Tracker.List(t.Context(), tracker.Query{States: []string{h.Active}}, func(p *tracker.Page) error {
		pages++
		came += len(p.Issues)
		return nil
	})
	if err != nil || came != len(want) || h.Pages > 0 && pages < 3 {
		t.Errorf("%d issues on %d pages, want %d: %v", came, pages, len(want), err)
	}
	if got := ids(collect(t, s, tracker.Query{All: true})); !slices.Equal(got, s.want(want...)) {
		t.Errorf("%d issues, want %d", len(got), len(want))
	}
}

func (h *Harness) ids(t *testing.T) {
	s := h.open(t, h.some()...)
	page := h.byIDs(t, s, s.ID(2), s.Unknown, s.ID(1), s.ID(2), "no id of any tracker")
	if got := ids(page); !slices.Equal(got, s.want(1, 2)) {
		t.Errorf("issues %q", got)
	}
	gone := slices.Sorted(slices.Values(page.Gone))
	if want := slices.Sorted(slices.Values([]string{s.Unknown, "no id of any tracker"})); !slices.Equal(gone, want) {
		t.Errorf("gone %q, want %q", gone, want)
	}
}

func (h *Harness) identifiers(t *testing.T) {
	s := h.open(t, h.some()...)
	page, err := s.Tracker.ByIdentifiers(t.Context(), []string{strings.ToLower(s.Identifier(1)), strings.ToUpper(s.Identifier(3)), "?"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(page); !slices.Equal(got, s.want(1, 3)) || !slices.Equal(page.Gone, []string{"?"}) {
		t.Errorf("issues %q, gone %q", got, page.Gone)
	}
}

// REFERENCE 12, item 7: a record that cannot be read is a diagnostic on a list; asked
// for by name it is trouble, and never gone.
func (h *Harness) malformed(t *testing.T) {
	s := h.open(t, Issue{N: 1, Title: "First", State: h.Active}, Issue{N: 2, State: h.Active, Malformed: true}, Issue{N: 3, Title: "Third", State: h.Active})
	page := collect(t, s, tracker.Query{States: []string{h.Active}})
	if got := ids(page); !slices.Equal(got, s.want(1, 3)) || len(page.Problems) != 1 || page.Problems[0].Message == "" {
		t.Errorf("issues %q, problems %v", got, page.Problems)
	}
	byID, err := s.Tracker.ByIDs(t.Context(), []string{s.ID(2)})
	if err == nil && (len(byID.Gone) > 0 || len(byID.Issues) > 0 || len(byID.Problems) == 0) {
		t.Errorf("asked for: %+v", byID)
	}
}

// What the caller's function returns comes back as it is, and ends the walk.
func (h *Harness) abandoned(t *testing.T) {
	s := h.open(t, h.some()...)
	enough := errors.New("enough")
	calls := 0
	err := s.Tracker.List(t.Context(), tracker.Query{All: true}, func(*tracker.Page) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
