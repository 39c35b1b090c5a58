package schedule

import (
	"fmt"
	"slices"
	"strings"

	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

func fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// learn takes the names of ended states from the workflow. A blocker has only the
// name of its state, no category.
func (s *Scheduler) learn() {
	names := s.cfg.Workflow.Tracker.TerminalStates
	if names == nil {
		names = workflow.DefaultTerminal()
	}
	s.terminal = make(map[string]bool, len(names))
	for _, n := range names {
		s.terminal[fold(n)] = true
	}
	s.spelled = map[string]bool{}
}

// learnFrom takes a record's word for its own state where the workflow names no
// ended states: an adapter has its own then.
func (s *Scheduler) learnFrom(issue *wire.Issue) {
	ended := issue.Category == wire.CategoryTerminal
	if s.cfg.Workflow.Tracker.TerminalStates == nil && ended == s.open(issue.State) {
		s.terminal[fold(issue.State)] = ended
		s.spelled = map[string]bool{}
		s.board.stale = true
	}
}

// open reports whether a state is not an ended one. It is asked for each blocker of
// each issue, so that each spelling is folded only once.
func (s *Scheduler) open(state string) bool {
	ended, ok := s.spelled[state]
	if !ok {
		ended = s.terminal[fold(state)]
		s.spelled[state] = ended
	}
	return !ended
}

// unroutable returns why an active issue is not for this scheduler at all, or "".
// A tracker that gives no leave because of an open blocker says nothing about that.
func (s *Scheduler) unroutable(issue *wire.Issue) string {
	if issue.Archived {
		return "archived"
	}
	for _, l := range s.cfg.Workflow.Tracker.RequiredLabels {
		if want := fold(l); !slices.Contains(issue.Labels, want) {
			return fmt.Sprintf("label %q is missing", want)
		}
	}
	if !issue.Dispatchable {
		if code, _ := s.blocked(issue); code == "" {
			return "not dispatchable"
		}
	}
	return ""
}

// unwanted returns why an issue is to be let go of, or "". An issue that was not
// read is kept.
func (s *Scheduler) unwanted(issue *wire.Issue) string {
	switch {
	case issue == nil:
		return ""
	case issue.Category != wire.CategoryActive:
		return fmt.Sprintf("state %q is %s", issue.State, inactive(issue))
	}
	return s.unroutable(issue)
}

func inactive(issue *wire.Issue) string {
	if issue.Category == wire.CategoryTerminal {
		return "terminal"
	}
	return "not active"
}

// blocked returns the first open blocker or child in words, or "".
func (s *Scheduler) blocked(issue *wire.Issue) (Code, string) {
	for _, b := range issue.BlockedBy {
		if !b.Known || b.State == "" {
			return CodeUnknownBlocker, "blocked by " + blockerName(b) + ", whose state is not known"
		}
		if s.open(string(b.State)) {
			return CodeBlocker, "blocked by " + blockerName(b) + " (" + string(b.State) + ")"
		}
	}
	for _, c := range issue.Children {
		if s.open(string(c.State)) {
			return CodeChild, "child " + c.Identifier + " is open (" + string(c.State) + ")"
		}
	}
	return "", ""
}

func blockerName(b wire.Blocker) string {
	switch {
	case b.Identifier != "":
		return string(b.Identifier)
	case b.ID != "":
		return string(b.ID)
	}
	return "an unnamed issue"
}

// obstacle returns why the issue itself may not start, or "".
func (s *Scheduler) obstacle(issue *wire.Issue) (Code, string) {
	if code, why := s.blocked(issue); code != "" {
		return code, why
	}
	switch why := s.unroutable(issue); {
	case why == "":
		return "", ""
	case issue.Archived || !issue.Dispatchable:
		return CodeUndispatchable, why
	default:
		return CodeLabel, why
	}
}

// arrange brings the board up to date.
func (s *Scheduler) arrange() {
	if s.board.stale {
		s.board.stale, s.board.changed = false, true
		for _, c := range s.board.byID {
			c.code, c.why = s.obstacle(c.issue)
		}
	}
	s.board.refresh(s.open)
}

// obstacleOf returns what keeps a candidate back, rings included.
func (b *board) obstacleOf(c *candidate) (Code, string) {
	if c.code != "" && len(b.rings) > 0 {
		if ring := b.rings[c.id]; ring != "" {
			return CodeCycle, "cycle " + ring
		}
	}
	return c.code, c.why
}
