package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// Each line of DESIGN 4: what a first run's end leads to.
func TestEnds(t *testing.T) {
	tests := []struct {
		outcome, category string

		wait   time.Duration // until the next run; 0: none follows by itself
		parked string
		next   string // attempt of the next run
		runs   int64  // counted against the issue
		streak int
		held   time.Duration
	}{
		{outcome: wire.Succeeded, wait: time.Second, next: "1", runs: 1},
		{outcome: wire.Stalled, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.TimedOut, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.InputRequired, parked: "input_required", runs: 1},
		{outcome: wire.BudgetExceeded, parked: "budget_exceeded", runs: 1},
		{outcome: wire.Cancelled, category: wire.CauseOperator, parked: "operator", runs: 1},
		{outcome: wire.Cancelled, category: wire.CauseShutdown, wait: 5 * time.Second, next: "null"},
		{outcome: wire.RateLimited, wait: 15 * time.Minute, next: "null", held: 15 * time.Minute},
		{outcome: wire.Interrupted, wait: 10 * time.Second, next: "null", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseProvider, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseContextWindow, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseNoAnswer, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CausePeerDied, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseHookFailed, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CausePrompt, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseInternal, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseProtocol, wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: wire.Failed, category: wire.CauseAuth, wait: 15 * time.Minute, next: "null", held: 15 * time.Minute},
		{outcome: wire.Failed, category: wire.CausePermission, wait: 15 * time.Minute, next: "null", held: 15 * time.Minute},
		{outcome: wire.Failed, category: wire.CauseNotFound, wait: time.Minute, next: "null", held: time.Minute},
		{outcome: wire.Failed, category: wire.CauseUnavailable, wait: time.Minute, next: "null", held: time.Minute},
		{outcome: wire.Failed, category: wire.CauseConfig},
		{outcome: wire.Failed, category: wire.CauseState, parked: "state", runs: 1},
		{outcome: wire.Failed, category: wire.CauseBusy, wait: 5 * time.Second, next: "null"},
		{outcome: wire.Failed, category: wire.CauseSuperseded, wait: 5 * time.Second, next: "null"},
		{outcome: wire.Failed, category: "of tomorrow", wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
		{outcome: "of tomorrow", wait: 10 * time.Second, next: "1", runs: 1, streak: 1},
	}
	for _, tt := range tests {
		t.Run(tt.outcome+" "+tt.category, func(t *testing.T) {
			w := board(t, schedule.Config{}, issue("A-1"))
			w.end("A-1", outcome(tt.outcome, tt.category))
			rec := w.records["id-A-1"]
			if rec.Lifetime.Runs != tt.runs || rec.Streak != tt.streak {
				t.Errorf("runs %d, streak %d, want %d, %d", rec.Lifetime.Runs, rec.Streak, tt.runs, tt.streak)
			}
			if got := parked(rec); got != tt.parked {
				t.Errorf("parked %q, want %q", got, tt.parked)
			}
			h, held := w.holds["codex"]
			if held != (tt.held > 0) || held && h.Until.Sub(w.now) != tt.held {
				t.Errorf("hold %+v, want %s", h, tt.held)
			}
			checkNextRun(t, w, tt.wait, tt.next)
		})
	}
}

func parked(rec schedule.Record) string {
	if rec.Parked == nil {
		return ""
	}
	return rec.Parked.Reason
}

func checkNextRun(t *testing.T, w *world, wait time.Duration, attempt string) {
	t.Helper()
	if wait == 0 {
		w.pass(time.Hour)
		w.wantStarted("A-1")
		return
	}
	w.pass(wait - time.Millisecond)
	w.wantStarted("A-1")
	w.pass(time.Millisecond)
	w.wantStarted("A-1 A-1")
	if got := attempts(w.starts[1:]); got != attempt {
		t.Errorf("attempt %s, want %s", got, attempt)
	}
}

// failures_schedule_exponential_backoff
func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	for i, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		w.end("A-1", outcome(wire.Failed, wire.CausePeerDied))
		w.pass(wait*time.Second - time.Millisecond)
		if len(w.starts) != i+1 {
			t.Fatalf("run %d began early", i+2)
		}
		w.pass(time.Millisecond)
		if len(w.starts) != i+2 {
			t.Fatalf("run %d did not begin after %s", i+2, wait*time.Second)
		}
	}
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.end("A-1", outcome(wire.Failed, wire.CausePeerDied))
	if rec := w.records["id-A-1"]; rec.Streak != 1 {
		t.Fatalf("streak %d after a success", rec.Streak)
	}
	if got := attempts(w.starts); got != "null 1 2 3 4 5 6 7 8" {
		t.Fatalf("attempts %s", got)
	}
}

// worker_finish_rechecks_tracker_state_before_continuation_retry; L18
func TestL18NoContinuationOfAnEndedIssue(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Workspace.RemoveTerminal = true
	w := board(t, cfg, issue("A-1"))
	w.move("A-1", "Done")
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Hour)
	w.wantStarted("A-1")
	w.wantLog("released A-1", 1)
	if !removed(w, "A-1") {
		t.Fatal("its folder stays")
	}
	rec := w.records["id-A-1"]
	if rec.Attempt != nil || rec.Lifetime.Runs != 1 || !rec.DueAt.IsZero() {
		t.Fatalf("record %+v", rec)
	}
}

// An answer that was under way at the end tells the same once more.
func TestAFolderIsRemovedOnce(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Workspace.RemoveTerminal = true
	w := board(t, cfg, issue("A-1"))
	w.move("A-1", "Done")
	w.pass(cfg.Workflow.Polling.Interval)
	w.slow = true
	w.pass(cfg.Workflow.Polling.Interval)
	w.end("A-1", outcome(wire.Succeeded))
	w.slow = false
	w.apply(w.pending...)
	w.pass(time.Hour)
	if n := removals(w, "A-1"); n != 1 {
		t.Fatalf("removed %d times", n)
	}
	w.move("A-1", "Todo")
	w.pass(cfg.Workflow.Polling.Interval)
	w.wantStarted("A-1 A-1")
	w.move("A-1", "Done")
	w.pass(cfg.Workflow.Polling.Interval)
	w.end("A-1", outcome(wire.Succeeded))
	if n := removals(w, "A-1"); n != 2 {
		t.Fatalf("removed %d times after a second life", n)
	}
}

func removed(w *world, key string) bool { return removals(w, key) > 0 }

func removals(w *world, key string) (n int) {
	for _, a := range w.actions {
		if r, ok := a.(schedule.Remove); ok && r.Identifier == key {
			n++
		}
	}
	return n
}

func TestSessionIsTakenUpExceptAfterAFullContext(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	for _, o := range []*wire.Outcome{
		outcome(wire.Succeeded), outcome(wire.Interrupted), outcome(wire.Failed, wire.CauseContextWindow),
	} {
		w.end("A-1", o)
		w.pass(20 * time.Second)
	}
	var got []bool
	for _, a := range w.starts {
		got = append(got, a.Resume)
	}
	if want := []bool{false, true, true, false}; len(got) != 4 || got[1] != want[1] || got[2] != want[2] || got[0] || got[3] {
		t.Fatalf("resume %v, want %v", got, want)
	}
}

// One failing start hurts no other (reference 7.2, 3).
func TestAFailedStartHurtsNoOther(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"), issue("A-2"))
	w.slow = true
	w.apply(schedule.Begin{})
	poll := w.pending[0]
	w.apply(poll)
	w.wantStarted("A-1 A-2")
	w.apply(
		schedule.RunFailedToStart{IssueID: "id-A-1", Category: wire.CauseHookFailed, Message: "no"},
		schedule.RunStarted{IssueID: "id-A-2", RunID: w.run("A-2")},
	)
	w.wantCodes("A-1 due, A-2 running")
	w.wantLog("ended A-1: hook_failed", 1)
	w.wantLog("retry A-1: hook_failed", 1)
}

// L05: a late word of a run that is over changes nothing.
func TestL05LateWordsAreIgnored(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	first := w.run("A-1")
	w.end("A-1", outcome(wire.Stalled))
	w.pass(10 * time.Second)
	before := len(w.actions)
	w.apply(
		schedule.RunEvent{IssueID: "id-A-1", RunID: first, Kind: schedule.Progress},
		schedule.RunEnded{IssueID: "id-A-1", RunID: first, Outcome: outcome(wire.Succeeded)},
		schedule.RunStarted{IssueID: "id-A-1", RunID: first},
	)
	if len(w.actions) != before {
		t.Fatalf("did %+v", w.actions[before:])
	}
	w.wantCodes("A-1 running")
}

// L10: runs that are killed each time meet the same back-off and budget as others.
func TestL10KilledRunsMeetTheBudget(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Budget.RunsPerIssue = 4
	w := board(t, cfg, issue("A-1"))
	for range 4 {
		w.end("A-1", outcome(wire.Interrupted))
		w.restart()
		w.pass(time.Hour)
	}
	w.wantStarted("A-1 A-1 A-1 A-1")
	if got := parked(w.records["id-A-1"]); got != "runs_per_issue" {
		t.Fatalf("parked %q", got)
	}
}

// L13: live counts are held against both budgets.
func TestL13LiveTokens(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Budget.TokensPerIssue = 1000
	w := board(t, cfg, issue("A-1"))
	used := outcome(wire.Succeeded)
	used.Usage = &wire.Usage{TotalTokens: wire.Count(700)}
	w.end("A-1", used)
	w.restart() // a restart does not reset what was used
	w.pass(time.Second)
	w.wantStarted("A-1 A-1")
	tokens := func(n int64) {
		w.apply(schedule.RunEvent{IssueID: "id-A-1", RunID: w.run("A-1"), Kind: schedule.Chatter, Tokens: &n})
	}
	tokens(300)
	if len(w.stops) > 0 {
		t.Fatal("stopped within its budget")
	}
	tokens(301)
	if w.lastStop().Cause != schedule.StopBudget {
		t.Fatalf("stopped for %q", w.lastStop().Cause)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	if got := parked(w.records["id-A-1"]); got != "budget_exceeded" {
		t.Fatalf("parked %q", got)
	}
}

func TestBrakeOnRunsWithoutProgress(t *testing.T) {
	tests := []struct {
		name   string
		prints []string
		parked bool
	}{
		{"same", []string{"x", "x", "x"}, true},
		{"changing", []string{"x", "y", "y"}, false},
		{"unknown", []string{"", "", ""}, false},
		{"too few", []string{"x", "x"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := board(t, schedule.Config{}, issue("A-1"))
			for _, p := range tt.prints {
				w.end("A-1", outcome(wire.Succeeded), p)
				w.pass(time.Second)
			}
			if got := parked(w.records["id-A-1"]) == "no_progress"; got != tt.parked {
				t.Fatalf("parked: %v", got)
			}
		})
	}
}

// A provider that is down for long is no lack of progress.
func TestFailuresAreNoLackOfProgress(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	for range 5 {
		w.end("A-1", outcome(wire.Failed, wire.CauseProvider), "x")
		w.pass(5 * time.Minute)
	}
	w.wantCodes("A-1 running")
}

// A parking ends with a change of the issue, not with one that the run made itself.
func TestParkingEndsWithAChange(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.pass(10 * time.Second)
	w.change("A-1", func(i *wire.Issue) { i.Description = "by the agent" })
	w.end("A-1", outcome(wire.InputRequired))
	w.pass(time.Hour)
	w.wantStarted("A-1")
	w.restart()
	w.pass(time.Hour)
	w.wantStarted("A-1")
	w.wantCodes("A-1 parked")
	w.change("A-1", func(i *wire.Issue) { i.Description = "answered" })
	w.pass(30 * time.Second)
	w.wantStarted("A-1 A-1")
	if got := attempts(w.starts); got != "null 1" {
		t.Fatalf("attempts %s", got)
	}
}

// A lifted budget allows as much again, and not just one run.
func TestALiftForgivesTheBudget(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Budget.RunsPerIssue = 2
	w := board(t, cfg, issue("A-1"))
	step := func() {
		w.end("A-1", outcome(wire.Succeeded))
		w.pass(2 * time.Second)
	}
	step()
	step()
	w.wantCodes("A-1 parked")
	w.apply(schedule.Command{Kind: schedule.CommandRelease, Target: "a-1"})
	w.pass(time.Second)
	step()
	w.wantCodes("A-1 running")
	step()
	w.wantCodes("A-1 parked")
	if rec := w.records["id-A-1"]; rec.Lifetime.Runs != 4 {
		t.Fatalf("lifetime %+v", rec.Lifetime)
	}
}
