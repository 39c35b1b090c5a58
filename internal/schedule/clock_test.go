package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// runtime_events_extend_stall_deadlines…, as the second line of defence behind the
// harness's own watch.
func TestStall(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.event("A-1", schedule.Launched, schedule.Opened)
	for range 5 {
		w.pass(5 * time.Minute)
		w.event("A-1", schedule.Progress)
	}
	w.pass(3 * time.Minute)
	w.event("A-1", schedule.Chatter) // no progress
	w.pass(3*time.Minute - time.Second)
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
	w.pass(time.Second)
	if got := w.lastStop().Cause; got != schedule.StopStalled {
		t.Fatalf("stopped for %q", got)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	if rec := w.records["id-A-1"]; rec.Reason != wire.Stalled || rec.Streak != 1 {
		t.Fatalf("record %+v", rec)
	}
}

func TestNoStallWhereItIsOffOrAPersonIsAsked(t *testing.T) {
	off := schedule.Config{Workflow: flow()}
	off.Workflow.Agent.StallTimeout = 0
	asked := schedule.Config{Workflow: flow()}
	for name, cfg := range map[string]schedule.Config{"off": off, "asked": asked} {
		t.Run(name, func(t *testing.T) {
			w := board(t, cfg, issue("A-1"))
			w.event("A-1", schedule.Launched, schedule.Opened)
			if name == "asked" {
				w.event("A-1", schedule.Asking)
			}
			w.pass(time.Hour)
			if len(w.stops) > 0 {
				t.Fatalf("stopped %+v", w.stops)
			}
		})
	}
}

func TestRunAndLaunchLimits(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.pass(time.Hour) // hooks have limits of their own
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
	w.event("A-1", schedule.Launched)
	w.pass(2 * time.Minute)
	if got := w.lastStop().Cause; got != schedule.StopLaunch {
		t.Fatalf("stopped for %q", got)
	}
	w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
	w.pass(10 * time.Second)
	w.event("A-1", schedule.Launched, schedule.Opened, schedule.Asking)
	w.pass(6*time.Hour + time.Minute)
	if got := w.lastStop().Cause; got != schedule.StopTimedOut {
		t.Fatalf("stopped for %q", got)
	}
}

// A run that came to its own end while it was being stopped keeps it.
func TestRealOutcomeStands(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.event("A-1", schedule.Launched, schedule.Opened)
	w.pass(6 * time.Minute)
	w.lastStop()
	w.end("A-1", outcome(wire.Succeeded))
	if rec := w.records["id-A-1"]; rec.Streak != 0 || rec.Reason != "continuation" {
		t.Fatalf("record %+v", rec)
	}
}

// L17: a suspend, a stopped process and a jump of the wall clock cost nothing.
func TestL17SuspendCostsNothing(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"))
	w.event("A-1", schedule.Launched, schedule.Opened)
	w.end("A-2", outcome(wire.Failed, wire.CauseProvider))
	w.pass(time.Second)
	for _, jump := range []time.Duration{8 * time.Hour, -8 * time.Hour, 24 * time.Hour} {
		w.now = w.now.Add(jump)
		w.apply(schedule.Tick{})
	}
	if len(w.stops) > 0 {
		t.Fatalf("stopped %+v", w.stops)
	}
	w.wantStarted("A-1 A-2")
	w.pass(10 * time.Second)
	w.wantStarted("A-1 A-2 A-2")
}

// A poll that slept with the machine is not fresh.
func TestASuspendedPollIsReadAgain(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	w.slow = true
	w.apply(schedule.Begin{})
	polled := w.pending[0]
	w.pending, w.slow = nil, false
	w.now = w.now.Add(8 * time.Hour)
	w.move("A-1", "Done")
	w.apply(polled)
	w.wantStarted("")
}

// Events come often and must not wake what has nothing to do.
func TestProgressIsQuiet(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.event("A-1", schedule.Launched, schedule.Opened, schedule.Progress)
	f := schedule.RunEvent{IssueID: "id-A-1", RunID: w.run("A-1"), Kind: schedule.Progress}
	var fact schedule.Fact = f
	if n := testing.AllocsPerRun(100, func() { w.s.Apply(w.now, fact) }); n > 0 {
		t.Fatalf("%v allocations an event", n)
	}
}
