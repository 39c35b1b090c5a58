package schedule

import (
	"fmt"
	"slices"
)

// The reasons of a parking that no outcome has.
const (
	parkNoProgress = "no_progress"      // the last runs left the same
	parkRuns       = "runs_per_issue"   // a budget over the issue's lifetime
	parkTokens     = "tokens_per_issue" // another one
)

// remember keeps what the last runs left, as many as the brake compares. A run of
// which nothing is known breaks the row.
func (r *Record) remember(fingerprint string, runs int) {
	if runs <= 0 {
		r.Fingerprints = nil
		return
	}
	r.Fingerprints = append(slices.Clone(r.Fingerprints), fingerprint)
	if extra := len(r.Fingerprints) - runs; extra > 0 {
		r.Fingerprints = r.Fingerprints[extra:]
	}
}

// left is what a run leaves: its folder, and the state of its issue as it was last
// read. An agent that only moves its card gets somewhere, too.
func (c *claim) left(fingerprint string) string {
	if fingerprint == "" || c.issue == nil {
		return fingerprint
	}
	return fingerprint + " " + fold(c.issue.State)
}

// idle reports whether the last runs, as many as the brake compares, left the same.
func (r *Record) idle(runs int) bool {
	prints := r.Fingerprints
	if runs <= 0 || len(prints) < runs || prints[0] == "" {
		return false
	}
	return !slices.ContainsFunc(prints, func(p string) bool { return p != prints[0] })
}

// spent returns why an issue gets no further run, or "".
func (s *Scheduler) spent(c *claim) string {
	b := s.cfg.Workflow.Budget
	switch used := c.rec.Lifetime.since(c.rec.Forgiven); {
	case c.rec.idle(b.NoProgressRuns):
		return parkNoProgress
	case b.RunsPerIssue > 0 && used.Runs >= int64(b.RunsPerIssue):
		return parkRuns
	case b.TokensPerIssue > 0 && used.Tokens >= b.TokensPerIssue:
		return parkTokens
	}
	return ""
}

// overBudget returns which budget the run under way has used up, or "". It looks at
// live counts: a single long run must not pass a ceiling unseen.
func (s *Scheduler) overBudget(c *claim) string {
	b := s.cfg.Workflow.Budget
	total := c.rec.Lifetime.since(c.rec.Forgiven).Tokens + c.run.tokens
	switch {
	case b.TokensPerRun > 0 && c.run.tokens > b.TokensPerRun:
		return fmt.Sprintf("over the budget of %d tokens a run", b.TokensPerRun)
	case b.TokensPerIssue > 0 && total > b.TokensPerIssue:
		return fmt.Sprintf("over the budget of %d tokens an issue", b.TokensPerIssue)
	}
	return ""
}

func (l Lifetime) since(f Lifetime) Lifetime {
	return Lifetime{Runs: l.Runs - f.Runs, Tokens: l.Tokens - f.Tokens, Seconds: l.Seconds - f.Seconds}
}
