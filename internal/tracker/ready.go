package tracker

import (
	"fmt"
	"slices"
	"strings"

	"ostoolkit/internal/wire"
)

// Reason is why an issue is not ready.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	StateNotActive Reason = "state"
	Undispatchable Reason = "undispatchable"
	LabelMissing   Reason = "label_missing"
	BlockerOpen    Reason = "blocker_open"
	BlockerUnknown Reason = "blocker_unknown"
	ChildOpen      Reason = "child_open"
)

// Obstacle is the first reason that keeps an issue from being worked on.
type Obstacle struct {
	Reason Reason
	Detail string // for people: `blocked by A-1 ("Todo")`
}

// Ready returns nil if the issue may be given to an agent, else what is in the way.
// A blocker whose state is not known counts as open.
func (r Rules) Ready(issue *wire.Issue) *Obstacle {
	if r.Category(issue.State) != wire.CategoryActive {
		return obstacle(StateNotActive, "state %q is not active", issue.State)
	}
	if !issue.Dispatchable {
		return obstacle(Undispatchable, "the tracker does not let it be worked on")
	}
	for _, label := range r.RequiredLabels {
		if !Contains(issue.Labels, label) {
			return obstacle(LabelMissing, "label %q is missing", Fold(label))
		}
	}
	for _, b := range issue.BlockedBy {
		if !b.Known || b.State == "" {
			return obstacle(BlockerUnknown, "blocked by %s, whose state is not known", blockerName(b))
		}
		if r.open(b.State) {
			return obstacle(BlockerOpen, "blocked by %s (%q)", blockerName(b), b.State)
		}
	}
	for _, c := range issue.Children {
		if r.open(c.State) {
			return obstacle(ChildOpen, "its child %s is open (%q)", c.Identifier, c.State)
		}
	}
	return nil
}

func obstacle(reason Reason, format string, args ...any) *Obstacle {
	return &Obstacle{reason, fmt.Sprintf(format, args...)}
}

func (r Rules) open(state wire.Text) bool {
	return r.Category(string(state)) != wire.CategoryTerminal
}

func blockerName(b wire.Blocker) string {
	switch {
	case b.Identifier != "":
		return string(b.Identifier)
	case b.ID != "":
		return string(b.ID)
	}
	return "an issue without a name"
}

// Cycles returns the rings of open issues among issues that wait for each other,
// as blockers or as children, so that none of them can ever be ready. Each ring is
// given once, as identifiers, each waiting for the next and the last for the first.
func (r Rules) Cycles(issues []*wire.Issue) [][]string {
	w := walk{waits: map[string][]string{}, seen: map[string]bool{}}
	keys := make([]string, 0, len(issues))
	for _, issue := range issues {
		if r.Category(issue.State) != wire.CategoryTerminal {
			keys = append(keys, issue.Identifier)
			w.waits[issue.Identifier] = r.waitsFor(issue)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		w.visit(key)
	}
	return w.rings
}

func (r Rules) waitsFor(issue *wire.Issue) []string {
	var keys []string
	for _, b := range issue.BlockedBy {
		if b.Known && r.open(b.State) {
			keys = append(keys, string(b.Identifier))
		}
	}
	for _, c := range issue.Children {
		if r.open(c.State) {
			keys = append(keys, c.Identifier)
		}
	}
	return keys
}

// walk goes through the graph depth first. It enters each issue once, so that its
// cost grows with the number of edges; of rings that share an issue it may name
// only one, which is enough to act on.
type walk struct {
	waits map[string][]string
	seen  map[string]bool
	path  []string
	rings [][]string
}

func (w *walk) visit(key string) {
	if at := slices.Index(w.path, key); at >= 0 {
		w.rings = append(w.rings, slices.Clone(w.path[at:]))
		return
	}
	if w.seen[key] {
		return
	}
	w.seen[key] = true
	w.path = append(w.path, key)
	for _, next := range w.waits[key] {
		w.visit(next)
	}
	w.path = w.path[:len(w.path)-1]
}

// RingText returns a ring of Cycles for people: "A-1 -> A-2 -> A-1".
func RingText(ring []string) string {
	return strings.Join(append(slices.Clone(ring), ring[0]), " -> ")
}
