package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// L04: a live run goes on; it is neither stopped nor doubled.
func TestL04AdoptedRunGoesOn(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.restart()
	w.pass(time.Minute)
	w.wantStarted("A-1")
	w.wantLog("adopted A-1", 1)
	w.wantCodes("A-1 running")
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.wantStarted("A-1 A-1")
	if got := attempts(w.starts); got != "null 1" {
		t.Fatalf("attempts %s", got)
	}
}

// recovery_reuses_manifest_workspace…: an adopted run takes its slot.
func TestAdoptedRunsTakeSlots(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.restart()
	w.pass(time.Minute)
	w.wantStarted("A-1")
}

// recovery_does_not_count_released_issues…
func TestReleasedIssuesTakeNoSlot(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"))
	w.move("A-1", "Done")
	w.end("A-1", outcome(wire.Succeeded))
	w.add(issue("A-2"))
	w.restart()
	w.wantStarted("A-1 A-2")
}

// L03: an end that nobody saw is counted once, with its back-off.
func TestL03EndWhileNobodyLooked(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", outcome(wire.Failed, wire.CausePeerDied))
	w.pass(10 * time.Second)
	l := w.last["id-A-1"]
	l.Alive, l.Outcome = false, outcome(wire.Interrupted)
	l.Outcome.RunID = l.ID
	w.restart()
	w.restart() // the second one finds it counted
	if rec := w.records["id-A-1"]; rec.Streak != 2 || rec.Lifetime.Runs != 2 {
		t.Fatalf("record %+v", rec)
	}
	w.pass(20*time.Second - time.Millisecond)
	w.wantStarted("A-1 A-1")
	w.pass(time.Millisecond)
	w.wantStarted("A-1 A-1 A-1")
	if got := attempts(w.starts); got != "null 1 1" || !w.starts[2].Resume {
		t.Fatalf("attempts %s", got)
	}
}

// A recovered issue is read before it goes on, and goes nowhere if it is done.
func TestRecoveredIssueIsReadFirst(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Workspace.RemoveTerminal = true
	w := board(t, cfg, issue("A-1"))
	w.end("A-1", outcome(wire.Failed, wire.CausePeerDied))
	w.move("A-1", "Done")
	w.restart()
	w.pass(time.Hour)
	w.wantStarted("A-1")
	if !removed(w, "A-1") {
		t.Fatal("its folder stays")
	}
}

// A start that the crash swallowed is made again, with the same attempt.
func TestASwallowedStartIsMadeAgain(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	delete(w.last, "id-A-1")
	w.restart()
	w.wantStarted("A-1 A-1")
	if got := attempts(w.starts); got != "null null" {
		t.Fatalf("attempts %s", got)
	}
}

// A due time that a jump of the wall clock has put far away holds for no longer
// than any wait can be.
func TestDueTimeAfterAClockJump(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	w.records["id-A-1"] = schedule.Record{
		Attempt: wire.Count(2), Streak: 2, Reason: wire.CauseProvider,
		DueAt: wire.At(epoch.AddDate(1, 0, 0)), Lifetime: schedule.Lifetime{Runs: 2},
	}
	w.restart()
	w.pass(299 * time.Second)
	w.wantStarted("")
	w.pass(time.Second)
	w.wantStarted("A-1")
	if got := attempts(w.starts); got != "2" {
		t.Fatalf("attempts %s", got)
	}
}

// A workspace of which nothing can be read hurts no other (reference 7.2, 20).
func TestDamagedWorkspaceHurtsNoOther(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"), issue("A-2"))
	w.apply(schedule.Recovered{IssueID: "id-A-1", Identifier: "A-1"}, schedule.Begin{})
	w.wantStarted("A-1 A-2")
}

func TestRecordSurvivesJSON(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", outcome(wire.Succeeded), "x")
	b, err := json.Marshal(w.records["id-A-1"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"attempt":1,"streak":0,"due_at":"2026-01-02T03:04:06.000Z","reason":"continuation","run_id":"run-1",` +
		`"stopping":null,"lifetime":{"runs":1,"tokens":0,"seconds":0},"forgiven":{"runs":0,"tokens":0,"seconds":0},` +
		`"fingerprints":["x todo"],"parked":null}`
	if string(b) != want {
		t.Fatalf("schedule.json is\n%s, want\n%s", b, want)
	}
}

// An operator's stop means the same if the scheduler dies before the run does.
func TestAStopSurvivesARestart(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.apply(schedule.Command{Kind: schedule.CommandStop, Target: "A-1"})
	w.restart()
	if len(w.stops) != 2 || w.stops[0] != w.stops[1] {
		t.Fatalf("stops %+v", w.stops)
	}
	w.end("A-1", outcome(wire.Succeeded))
	w.wantCodes("A-1 parked")
}
