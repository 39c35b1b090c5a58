package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

func (w *world) order(kind, target string) schedule.Reply {
	w.t.Helper()
	w.apply(schedule.Command{ID: "c1", Kind: kind, Target: target})
	for i := len(w.actions) - 1; i >= 0; i-- {
		if r, ok := w.actions[i].(schedule.Reply); ok {
			return r
		}
	}
	w.t.Fatalf("no reply to %s %s", kind, target)
	return schedule.Reply{}
}

// operator_cancel_interrupts_active_worker_once
func TestStopOnce(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	for range 3 {
		if r := w.order(schedule.CommandStop, "a-1"); !r.Accepted {
			t.Fatalf("reply %+v", r)
		}
	}
	if len(w.stops) != 1 || w.stops[0].Cause != schedule.StopOperator {
		t.Fatalf("stops %+v", w.stops)
	}
}

// acknowledged_operator_cancel_releases_without_retrying_{cancelled, completed}_run;
// here it parks until somebody says otherwise.
func TestStoppedIssueStaysStopped(t *testing.T) {
	for _, o := range []*wire.Outcome{outcome(wire.Cancelled, wire.CauseOperator), outcome(wire.Succeeded), outcome(wire.Failed, wire.CausePeerDied)} {
		t.Run(o.Outcome, func(t *testing.T) {
			w := board(t, schedule.Config{}, issue("A-1"))
			w.order(schedule.CommandStop, "id-A-1")
			w.end("A-1", o)
			w.pass(time.Hour)
			w.wantStarted("A-1")
			w.wantCodes("A-1 parked")
			w.order(schedule.CommandRetry, "A-1")
			w.pass(time.Second)
			w.wantStarted("A-1 A-1")
		})
	}
}

func TestCommandsOnIssues(t *testing.T) {
	tests := []struct {
		name, kind, target string
		before             func(*world)
		accepted           bool
		codes              string
	}{
		{"stop waiting", schedule.CommandStop, "A-1", fail, true, "A-1 parked, A-2 blocker"},
		{"stop candidate", schedule.CommandStop, "A-2", nil, true, "A-1 running, A-2 parked"},
		{"stop unknown", schedule.CommandStop, "A-9", nil, false, "A-1 running, A-2 blocker"},
		{"retry waiting", schedule.CommandRetry, "A-1", fail, true, "A-1 running, A-2 blocker"},
		{"retry running", schedule.CommandRetry, "A-1", nil, false, "A-1 running, A-2 blocker"},
		{"retry candidate", schedule.CommandRetry, "A-2", nil, false, "A-1 running, A-2 blocker"},
		{"release waiting", schedule.CommandRelease, "A-1", fail, true, "A-1 running, A-2 blocker"},
		{"release running", schedule.CommandRelease, "A-1", nil, false, "A-1 running, A-2 blocker"},
		{"clear free", schedule.CommandClear, "codex", nil, false, "A-1 running, A-2 blocker"},
		{"hold nothing", schedule.CommandHold, "", nil, false, "A-1 running, A-2 blocker"},
		{"unknown kind", "dance", "", nil, false, "A-1 running, A-2 blocker"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := board(t, schedule.Config{}, issue("A-1"), issue("A-2", blockedBy("X-1", "Todo")))
			if tt.before != nil {
				tt.before(w)
			}
			r := w.order(tt.kind, tt.target)
			if r.ID != "c1" || r.Accepted != tt.accepted || r.Message == "" {
				t.Fatalf("reply %+v", r)
			}
			w.wantCodes(tt.codes)
		})
	}
}

func fail(w *world) { w.end("A-1", outcome(wire.Failed, wire.CauseProvider)) }

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t, schedule.Config{Paused: true})
	w.add(issue("A-1"))
	w.apply(schedule.Begin{})
	w.wantCodes("A-1 paused")
	w.order(schedule.CommandResume, "")
	w.wantStarted("A-1")
	w.wantLog("resumed", 1)
}

// L21: a stopped run is no failure, charges nothing and goes on at the next start.
func TestL21Shutdown(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"))
	w.order(schedule.CommandShutdown, "")
	if len(w.stops) != 2 || w.stops[0].Cause != schedule.StopShutdown {
		t.Fatalf("stops %+v", w.stops)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	w.end("A-2", outcome(wire.Succeeded)) // it finished in its grace
	w.wantExit(0)
	w.exit = nil
	w.restart()
	w.pass(5 * time.Second)
	w.wantStarted("A-1 A-2 A-2 A-1")
	if got := attempts(w.starts); got != "null null 1 null" {
		t.Fatalf("attempts %s", got)
	}
}

func TestDetachLeavesTheRuns(t *testing.T) {
	w := board(t, schedule.Config{Detach: true}, issue("A-1"))
	w.order(schedule.CommandShutdown, "")
	w.wantExit(0)
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
}

func TestShutdownBeforeTheRunHasAnID(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	w.slow = true
	w.apply(schedule.Begin{})
	w.apply(w.pending[0])
	w.apply(schedule.Command{Kind: schedule.CommandShutdown})
	if got := w.lastStop(); got.IssueID != "id-A-1" || got.RunID != "" {
		t.Fatalf("stop %+v", got)
	}
	w.apply(schedule.RunStarted{IssueID: "id-A-1", RunID: w.run("A-1")})
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	w.wantExit(0)
}

func TestDrainEndsWithTheLastRun(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.order(schedule.CommandDrain, "")
	w.add(issue("A-2"))
	w.pass(time.Hour)
	w.end("A-1", outcome(wire.Succeeded))
	w.wantExit(0)
	w.wantStarted("A-1")
}
