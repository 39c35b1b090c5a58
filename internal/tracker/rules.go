package tracker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/wire"
)

// Rules are the workflow's words on states and labels.
type Rules struct {
	Active, Terminal []string
	RequiredLabels   []string
}

// Fold is the form in which names of states and labels are compared.
func Fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Contains tells whether names has name, after folding. A blank name is in no list.
func Contains(names []string, name string) bool {
	folded := Fold(name)
	return folded != "" && slices.ContainsFunc(names, func(n string) bool { return Fold(n) == folded })
}

// Category returns the category of a state. A state in both lists is terminal.
func (r Rules) Category(state string) string {
	switch {
	case Contains(r.Terminal, state):
		return wire.CategoryTerminal
	case Contains(r.Active, state):
		return wire.CategoryActive
	default:
		return wire.CategoryOther
	}
}

// Normalise gives issue the form that all adapters share: blanks trimmed, labels
// folded, state_kind (if the adapter left it empty) and category set. It fails if
// one of the members that every issue must have is blank.
func (r Rules) Normalise(issue *wire.Issue) error {
	required := []struct {
		name  string
		value *string
	}{{"id", &issue.ID}, {"identifier", &issue.Identifier}, {"title", &issue.Title}, {"state", &issue.State}}
	for _, m := range required {
		if *m.value = strings.TrimSpace(*m.value); *m.value == "" {
			return fmt.Errorf("%s is missing", m.name)
		}
	}
	issue.Labels = Labels(issue.Labels)
	issue.Category = r.Category(issue.State)
	if issue.StateKind == "" {
		issue.StateKind = StateKind(issue.State)
	}
	return nil
}

// Labels trims and folds labels, and drops blank ones and doubles. The order is
// that of their first mention.
func Labels(raw []string) []string {
	labels := make([]string, 0, len(raw))
	for _, l := range raw {
		if l = Fold(l); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	return labels
}

// Instant returns the instant that text names, or the zero Time. A date or a time
// without a zone is taken as UTC.
func Instant(text string) wire.Time {
	layouts := []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return wire.At(t)
		}
	}
	return wire.Time{}
}

// stateKinds are the names of states that leave no doubt.
var stateKinds = map[string]string{
	"triage":      "triage",
	"backlog":     "backlog",
	"icebox":      "backlog",
	"todo":        "unstarted",
	"to do":       "unstarted",
	"open":        "unstarted",
	"ready":       "unstarted",
	"in progress": "started",
	"doing":       "started",
	"in review":   "started",
	"done":        "completed",
	"completed":   "completed",
	"closed":      "completed",
	"merged":      "completed",
	"canceled":    "canceled",
	"cancelled":   "canceled",
	"won't do":    "canceled",
	"duplicate":   "duplicate",
}

// StateKind guesses the kind of a state from its name, for trackers whose states
// have no type of their own: a well-known name, or "unknown".
func StateKind(state string) string {
	if kind, ok := stateKinds[Fold(state)]; ok {
		return kind
	}
	return "unknown"
}

// Sort puts issues in the order of dispatch: priority 1 to 4, then the rest; the
// older first, those of unknown age last; then by identifier.
func Sort(issues []*wire.Issue) {
	slices.SortStableFunc(issues, func(a, b *wire.Issue) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			compareAge(a.CreatedAt, b.CreatedAt),
			strings.Compare(a.Identifier, b.Identifier),
		)
	})
}

func rank(issue *wire.Issue) int64 {
	const last = 5
	if p := issue.Priority; p != nil && *p >= 1 && *p < last {
		return *p
	}
	return last
}

func compareAge(a, b wire.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b.Time)
}
