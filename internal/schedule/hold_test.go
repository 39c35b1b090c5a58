package schedule_test

import (
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

func rateLimited(until time.Time) *wire.Outcome {
	o := outcome(wire.RateLimited)
	o.RetryAt = wire.At(until)
	return o
}

// L14: a limit holds the backend until its reset; one record, no attempt.
func TestL14RateLimitHoldsTheBackend(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"), issue("A-3", blockedBy("X-1", "Todo")))
	reset := w.now.Add(30 * time.Second)
	w.end("A-1", rateLimited(reset))
	w.end("A-2", rateLimited(reset))
	w.change("A-3", func(i *wire.Issue) { i.BlockedBy = nil })
	w.pass(29 * time.Second)
	w.wantStarted("A-1 A-2")
	w.wantLog("held", 1)
	w.pass(time.Second)
	w.wantStarted("A-1 A-2 A-1") // one tries it first
	w.wantCodes("A-1 running, A-2 held_until, A-3 held_until")
	w.event("A-1", schedule.Launched, schedule.Opened, schedule.Progress)
	w.wantStarted("A-1 A-2 A-1 A-2 A-3")
	if got := attempts(w.starts); got != "null null null null null" {
		t.Fatalf("attempts %s", got)
	}
	if len(w.holds) > 0 {
		t.Fatalf("holds %v stay", w.holds)
	}
}

func TestALaterResetMovesTheHold(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"))
	w.end("A-1", rateLimited(w.now.Add(30*time.Second)))
	w.end("A-2", rateLimited(w.now.Add(60*time.Second)))
	w.pass(59 * time.Second)
	w.wantStarted("A-1 A-2")
	w.pass(time.Second)
	w.wantStarted("A-1 A-2 A-1")
	w.wantLog("held", 1)
}

// A reset that has passed already must not make a busy loop.
func TestAPastResetStillWaits(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", rateLimited(w.now.Add(-time.Hour)))
	w.pass(4 * time.Second)
	w.wantStarted("A-1")
	w.pass(time.Second)
	w.wantStarted("A-1 A-1")
}

func TestUnavailableDoubles(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	for i, wait := range []time.Duration{1, 2, 4, 8, 15, 15} {
		w.end("A-1", outcome(wire.Failed, wire.CauseUnavailable))
		if h := w.holds["codex"]; h.Until.Sub(w.now) != wait*time.Minute || h.Level != i+1 {
			t.Fatalf("hold %d is %+v, want %s", i+1, h, wait*time.Minute)
		}
		w.pass(wait * time.Minute)
	}
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.end("A-1", outcome(wire.Failed, wire.CauseUnavailable))
	if h := w.holds["codex"]; h.Level != 1 {
		t.Fatalf("a success left level %d", h.Level)
	}
}

// Several runs that meet the same trouble make one hold, and only one level.
func TestOneTroubleIsOneHold(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2"), issue("A-3"))
	for _, key := range []string{"A-1", "A-2", "A-3"} {
		w.end(key, outcome(wire.Failed, wire.CauseUnavailable))
	}
	if h := w.holds["codex"]; h.Level != 1 {
		t.Fatalf("hold %+v", h)
	}
	w.wantLog("held", 1)
}

func TestAHoldSurvivesARestart(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", outcome(wire.Failed, wire.CauseAuth))
	w.restart()
	w.pass(15*time.Minute - time.Second)
	w.wantStarted("A-1")
	w.wantCodes("A-1 held")
	w.pass(time.Second)
	w.wantStarted("A-1 A-1")
}

func TestAHoldIsNoLongerThanItWas(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	later := epoch.Add(24 * time.Hour) // the clock was set back since
	w.holds["codex"] = schedule.Hold{
		Backend: "codex", Reason: wire.CauseUnavailable, Level: 1,
		Since: wire.At(later), Until: wire.At(later.Add(time.Minute)),
	}
	w.restart()
	w.pass(time.Minute)
	w.wantStarted("A-1")
}

func TestOperatorHoldsAndClears(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	w.apply(schedule.Command{Kind: schedule.CommandHold, Target: "codex"}, schedule.Begin{})
	w.pass(24 * time.Hour)
	w.wantStarted("")
	w.wantLog("skipped A-1: codex is held: operator", 1)
	w.apply(schedule.Command{Kind: schedule.CommandClear, Target: "codex"})
	w.wantStarted("A-1")
}

// A config error of a harness stops dispatch for all until a reload.
func TestConfigErrorOfARun(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.end("A-1", outcome(wire.Failed, wire.CauseConfig))
	w.add(issue("A-2"))
	w.pass(time.Hour)
	w.wantStarted("A-1")
	w.wantLog("config_error", 1)
	w.apply(schedule.Reloaded{Workflow: flow()})
	w.wantStarted("A-1 A-1 A-2")
	if got := attempts(w.starts); got != "null null null" {
		t.Fatalf("attempts %s", got)
	}
}
