package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// terminal_reconciliation_…: the agent itself moved its card; its turn may finish.
func TestTerminalLetsTheTurnFinish(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.move("A-1", "Done")
	w.pass(30 * time.Second)
	w.wantLog(`reconciled A-1: state "Done" is terminal: its turn may finish`, 1)
	w.pass(59 * time.Second)
	if len(w.stops) > 0 {
		t.Fatal("stopped within its grace")
	}
	w.end("A-1", outcome(wire.Succeeded))
	w.wantLog("ended A-1: continuation", 1)
	w.wantLog("released A-1", 1)
	if removed(w, "A-1") {
		t.Fatal("removed without remove_terminal")
	}
}

func TestTerminalStopsAfterItsGrace(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.move("A-1", "Done")
	w.pass(30*time.Second + time.Minute)
	want := schedule.Stop{IssueID: "id-A-1", RunID: w.run("A-1"), Cause: schedule.StopTracker, Grace: 10 * time.Second}
	if got := w.lastStop(); got != want {
		t.Fatalf("stop %+v, want %+v", got, want)
	}
	w.pass(time.Hour)
	if len(w.stops) != 1 {
		t.Fatalf("stopped %d times", len(w.stops))
	}
}

func TestTerminalAndBackGoesOn(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.move("A-1", "Done")
	w.pass(30 * time.Second)
	w.move("A-1", "Rework")
	w.pass(time.Hour)
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
}

// What was let go of comes back without a restart (reference 7.2, 2; L01).
func TestL01UnwantedStopsAndComesBack(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Tracker.RequiredLabels = []string{"agent"}
	tests := map[string]struct{ away, back func(*wire.Issue) }{
		"inactive": {
			func(i *wire.Issue) { i.State, i.Category = "Human Review", wire.CategoryOther },
			func(i *wire.Issue) { i.State, i.Category = "Todo", wire.CategoryActive },
		},
		"label": {
			func(i *wire.Issue) { i.Labels = nil },
			labels("agent"),
		},
		"undispatchable": {
			func(i *wire.Issue) { i.Dispatchable = false },
			func(i *wire.Issue) { i.Dispatchable = true },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := board(t, cfg, issue("A-1", labels("agent")))
			w.change("A-1", tt.away)
			w.pass(30 * time.Second)
			if got := w.lastStop().Cause; got != schedule.StopTracker {
				t.Fatalf("stopped for %q", got)
			}
			w.end("A-1", outcome(wire.Cancelled, wire.CauseTracker))
			w.wantLog("released A-1", 1)
			w.pass(time.Hour)
			w.wantStarted("A-1")
			w.change("A-1", tt.back)
			w.pass(30 * time.Second)
			w.wantStarted("A-1 A-1")
			if got := attempts(w.starts); got != "null 1" || !w.starts[1].Resume {
				t.Fatalf("attempts %s, resume %v", got, w.starts[1].Resume)
			}
		})
	}
}

// A retry whose issue went away leaves no claim (L01, reference 7.2, 11).
func TestL01RetryOfAVanishedIssue(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", outcome(wire.Failed, wire.CauseProvider))
	gone := w.issues["id-A-1"]
	delete(w.issues, "id-A-1")
	w.pass(time.Minute)
	w.wantStarted("A-1")
	w.wantLog("released A-1: gone from the tracker", 1)
	w.add(gone)
	w.pass(30 * time.Second)
	w.wantStarted("A-1 A-1")
}

// gone counts when two readings at least two seconds apart agree.
func TestGoneNeedsTwoReadings(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	gone := w.issues["id-A-1"]
	delete(w.issues, "id-A-1")
	w.pass(30 * time.Second)
	if len(w.stops) > 0 {
		t.Fatal("one reading was enough")
	}
	w.add(gone)
	w.pass(30 * time.Second)
	delete(w.issues, "id-A-1")
	w.apply(schedule.Command{Kind: schedule.CommandRefresh})
	w.pass(time.Second)
	w.apply(schedule.Command{Kind: schedule.CommandRefresh})
	if len(w.stops) > 0 {
		t.Fatal("two readings a second apart were enough")
	}
	w.pass(30 * time.Second)
	if got := w.lastStop().Cause; got != schedule.StopTracker {
		t.Fatalf("stopped for %q", got)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseTracker))
	w.wantLog("released A-1: tracker", 1)
}

func TestABlockerThatComesLaterIsOnlyNoted(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	// Some trackers take their leave back for a blocker: that is the same fact.
	w.change("A-1", blockedBy("B-1", "Todo"), func(i *wire.Issue) { i.Dispatchable = false })
	w.pass(10 * time.Minute)
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
	w.wantLog("reconciled A-1: blocked by B-1 (Todo): its run goes on", 1)
}

// A tracker that is down keeps everything and holds up no end.
func TestReadFailureKeepsTheRuns(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"))
	w.down = &schedule.Failure{Category: "unavailable", Message: "refused"}
	w.pass(10 * time.Minute)
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
	w.wantLog("tracker_error", 1)
	w.end("A-1", outcome(wire.Failed, wire.CauseProvider))
	w.wantLog("ended A-1", 1)
	w.pass(time.Minute)
	w.wantStarted("A-1 A-2") // nothing starts that was not read again
	w.down = nil
	w.pass(30 * time.Second)
	w.wantStarted("A-1 A-2 A-1")
}

// A reconcile that fails must not keep the polls away (reference 7.2, 22).
func TestAFailedReconcileKeepsNoPollAway(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.add(issue("A-2"))
	w.slow = true
	w.pass(30 * time.Second)
	w.pending = nil
	w.slow = false
	w.apply(schedule.ReadFailed{Failure: schedule.Failure{Category: "unavailable"}})
	w.wantStarted("A-1 A-2")
}

// rate_limit_cooldown_skips_…_reads_but_keeps_worker_updates_flowing and
// rate_limited_…_retries_after_cooldown
func TestTrackerLimit(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	reset := w.now.Add(10 * time.Minute)
	w.down = &schedule.Failure{Category: "rate_limited", RetryAt: wire.At(reset)}
	w.pass(30 * time.Second)
	reads := readings(w)
	w.end("A-1", outcome(wire.Failed, wire.CauseProvider))
	w.wantLog("ended A-1", 1)
	w.add(issue("A-2"))
	w.down = nil
	w.pass(reset.Sub(w.now) - time.Second)
	if got := readings(w); got != reads {
		t.Fatalf("%d readings before the reset", got-reads)
	}
	w.wantStarted("A-1")
	w.pass(2 * time.Second)
	w.wantStarted("A-1 A-1 A-2")
}

func readings(w *world) int {
	n := 0
	for _, a := range w.actions {
		switch a.(type) {
		case schedule.Poll, schedule.ReadIDs:
			n++
		}
	}
	return n
}

// A poll that may lack some takes nothing away.
func TestAnIncompletePollTakesNothingAway(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.partial = true
	hidden := w.issues["id-A-2"]
	delete(w.issues, "id-A-2")
	w.pass(30 * time.Second)
	w.wantCodes("A-1 running, A-2 slots")
	w.add(hidden)
	w.partial = false
	delete(w.issues, "id-A-2")
	w.pass(30 * time.Second)
	w.wantCodes("A-1 running")
}

// merging_supersedes_human_review_polling_once_and_continues_same_issue, also for a
// run that was recovered.
func TestInterruptWhen(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.InterruptWhen = []workflow.Transition{{From: "Human Review", To: "Merging"}}
	w := board(t, cfg, issue("A-1", in("Human Review")))
	w.restart()
	w.move("A-1", "Merging")
	w.pass(10 * time.Minute)
	w.wantLog("interrupt_requested A-1: Human Review -> Merging", 1)
	w.change("A-1", in("human review"))
	w.pass(30 * time.Second)
	w.move("A-1", "Merging")
	w.pass(10 * time.Minute)
	w.wantLog("interrupt_requested", 2) // once a transition
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
}

func TestPassOrder(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.actions = nil
	w.pass(30 * time.Second)
	if len(w.actions) < 2 {
		t.Fatalf("did %+v", w.actions)
	}
	read, ok := w.actions[0].(schedule.ReadIDs)
	if !ok || read.Purpose != schedule.ForReconcile {
		t.Fatalf("first %+v", w.actions[0])
	}
	if _, ok := w.actions[1].(schedule.Poll); !ok {
		t.Fatalf("then %+v", w.actions[1])
	}
}

// An end makes the next pass immediate, but many ends do not make many polls.
func TestEndsBringThePassForward(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"), issue("A-3", blockedBy("A-1", "Todo")))
	w.pass(5 * time.Second)
	w.move("A-1", "Done")
	w.change("A-3", func(i *wire.Issue) { i.BlockedBy = nil })
	polls := readings(w)
	w.end("A-1", outcome(wire.Succeeded))
	w.wantStarted("A-1 A-2 A-3")
	w.end("A-2", outcome(wire.Failed, wire.CauseProvider))
	w.end("A-3", outcome(wire.Failed, wire.CauseProvider))
	if got := readings(w) - polls; got > 2 {
		t.Fatalf("%d readings at once", got)
	}
}

// The usual way of an issue: its agent hands it over for a review, a person ends it.
func TestAReviewedIssueIsRemovedWhenItIsDone(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Workspace.RemoveTerminal = true
	w := board(t, cfg, issue("A-1"))
	w.move("A-1", "Human Review")
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Hour)
	w.move("A-1", "Done")
	w.pass(5 * time.Minute)
	if !removed(w, "A-1") {
		t.Fatal("its folder stays")
	}
	before := readings(w)
	w.pass(time.Hour)
	if got := readings(w) - before; got != 120 {
		t.Fatalf("%d readings in an hour, want the 120 polls alone", got)
	}
}
