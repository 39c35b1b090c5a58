package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// L22: --once ends for each outcome, with its verdict.
func TestL22OnceEndsForEachOutcome(t *testing.T) {
	tests := []struct {
		outcome, category string
		status            int
	}{
		{wire.Succeeded, "", 0},
		{wire.Stalled, "", 1},
		{wire.TimedOut, "", 1},
		{wire.Interrupted, "", 1},
		{wire.RateLimited, "", 1},
		{wire.InputRequired, "", 10},
		{wire.BudgetExceeded, "", 10},
		{wire.Cancelled, wire.CauseOperator, 10},
		{wire.Failed, wire.CauseProvider, 1},
		{wire.Failed, wire.CauseAuth, 1},
		{wire.Failed, wire.CauseUnavailable, 1},
		{wire.Failed, wire.CauseConfig, 1},
		{wire.Failed, wire.CauseState, 10},
		{wire.Failed, wire.CauseBusy, 1},
	}
	for _, tt := range tests {
		t.Run(tt.outcome+" "+tt.category, func(t *testing.T) {
			w := board(t, schedule.Config{Mode: schedule.Once}, issue("A-1"))
			w.pass(time.Hour)
			w.end("A-1", outcome(tt.outcome, tt.category))
			w.wantExit(tt.status)
			w.wantStarted("A-1")
		})
	}
}

// Once gives each issue that can start one run, however few slots there are.
func TestOnceWorksOffTheBoard(t *testing.T) {
	cfg := schedule.Config{Mode: schedule.Once, Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"), issue("A-3", blockedBy("X-1", "Todo")))
	w.end("A-1", outcome(wire.Succeeded))
	w.add(issue("A-4")) // after the one poll
	w.end("A-2", outcome(wire.Succeeded))
	w.wantExit(0)
	w.wantStarted("A-1 A-2")
}

func TestOnceWithNothingToDo(t *testing.T) {
	w := board(t, schedule.Config{Mode: schedule.Once})
	w.wantExit(0)
}

func TestOnceWithTheTrackerDown(t *testing.T) {
	w := newWorld(t, schedule.Config{Mode: schedule.Once})
	w.down = &schedule.Failure{Category: "unavailable", Message: "refused"}
	w.apply(schedule.Begin{})
	w.wantExit(1)
}

func TestUntilIdleWaitsForRetriesAndNewWork(t *testing.T) {
	w := board(t, schedule.Config{Mode: schedule.UntilIdle}, issue("A-1"), issue("A-2", blockedBy("A-1", "Todo")))
	w.end("A-1", outcome(wire.Failed, wire.CausePeerDied))
	w.pass(10 * time.Second)
	w.wantStarted("A-1 A-1")
	w.move("A-1", "Done")
	w.change("A-2", func(i *wire.Issue) { i.BlockedBy[0].State = "Done" })
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.wantStarted("A-1 A-1 A-2")
	w.move("A-2", "Done")
	w.end("A-2", outcome(wire.Succeeded))
	w.pass(2 * time.Second)
	w.wantExit(0)
}

func TestUntilIdleVerdicts(t *testing.T) {
	tests := []struct {
		outcome, category string
		ends              bool
		status            int
	}{
		{wire.InputRequired, "", true, 10},
		{wire.Failed, wire.CauseAuth, true, 1},   // somebody has to log in
		{wire.Failed, wire.CauseConfig, true, 1}, // or to mend the file
		{wire.Failed, wire.CauseUnavailable, false, 0},
		{wire.RateLimited, "", false, 0},
		{wire.Failed, wire.CauseProvider, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.outcome+" "+tt.category, func(t *testing.T) {
			w := board(t, schedule.Config{Mode: schedule.UntilIdle}, issue("A-1"))
			w.end("A-1", outcome(tt.outcome, tt.category))
			w.pass(5 * time.Second)
			if tt.ends {
				w.wantExit(tt.status)
				return
			}
			if w.exit != nil {
				t.Fatalf("exit %d", *w.exit)
			}
		})
	}
}

func TestUntilIdleOutlastsATrackerThatIsDown(t *testing.T) {
	w := newWorld(t, schedule.Config{Mode: schedule.UntilIdle})
	w.down = &schedule.Failure{Category: "unavailable", Message: "refused"}
	w.apply(schedule.Begin{})
	w.pass(time.Minute)
	if w.exit != nil {
		t.Fatalf("exit %d", *w.exit)
	}
	w.down = nil
	w.pass(30 * time.Second)
	w.wantExit(0)
}

// L08: the time allowed for all of it ends it, with a status of its own.
func TestL08TimeUp(t *testing.T) {
	w := board(t, schedule.Config{Mode: schedule.UntilIdle}, issue("A-1"))
	w.apply(schedule.TimeUp{})
	if got := w.lastStop().Cause; got != schedule.StopShutdown {
		t.Fatalf("stopped for %q", got)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	w.wantExit(1)
}

// A dry run gives each issue one run and charges nothing (reference 7.2, 21).
func TestDryRun(t *testing.T) {
	w := board(t, schedule.Config{Mode: schedule.UntilIdle, DryRun: true}, issue("A-1"))
	if !w.starts[0].Route.DryRun {
		t.Fatal("the route does not say so")
	}
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Minute)
	w.wantStarted("A-1")
	w.wantExit(0)
	if rec := w.records["id-A-1"]; rec.Attempt != nil || rec.Lifetime.Runs != 0 {
		t.Fatalf("record %+v", rec)
	}
}

func TestSnapshot(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"), issue("A-3"), issue("A-4", blockedBy("X-1", "Todo")))
	w.end("A-2", outcome(wire.Failed, wire.CausePeerDied))
	w.end("A-3", outcome(wire.InputRequired))
	w.event("A-1", schedule.Launched, schedule.Asking)
	v := w.s.Snapshot(w.now)
	if len(v.Running) != 1 || len(v.Waiting) != 1 || len(v.Parked) != 1 || len(v.Skipped) != 1 {
		t.Fatalf("snapshot %+v", v)
	}
	if r := v.Running[0]; r.Identifier != "A-1" || !r.Asking || r.RunID != "run-1" || r.Harness != "codex" {
		t.Errorf("running %+v", r)
	}
	if e := v.Waiting[0]; e.Reason != wire.CausePeerDied || e.DueAt.Sub(w.now) != 10*time.Second || *e.Attempt != 1 {
		t.Errorf("waiting %+v", e)
	}
	if e := v.Parked[0]; e.Reason != wire.InputRequired {
		t.Errorf("parked %+v", e)
	}
	if e := v.Skipped[0]; e.Code != schedule.CodeBlocker || e.Reason != "blocked by X-1 (Todo)" {
		t.Errorf("skipped %+v", e)
	}
}
