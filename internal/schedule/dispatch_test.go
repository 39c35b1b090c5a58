package schedule_test

import (
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

func TestDispatchOrder(t *testing.T) {
	w := board(t, schedule.Config{},
		issue("A-7"),
		issue("A-6", priority(0)),
		issue("A-5", priority(9), created(epoch.Add(-2*time.Hour))),
		issue("A-4", priority(4)),
		issue("A-3", priority(1), created(epoch)),
		issue("A-2", priority(1), created(epoch)),
		issue("A-1", priority(1), func(i *wire.Issue) { i.CreatedAt = wire.Time{} }),
	)
	w.wantStarted("A-2 A-3 A-1 A-4 A-5 A-6 A-7")
}

func TestGlobalSlots(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 2
	w := board(t, cfg, issue("A-1"), issue("A-2"), issue("A-3"))
	w.wantStarted("A-1 A-2")
	w.wantCodes("A-1 running, A-2 running, A-3 slots")
	w.wantLog("skipped A-3: no slot", 1)
	w.move("A-1", "Done")
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.wantStarted("A-1 A-2 A-3")
}

// per_state_capacity_limits_dispatches, per_state_capacity_releases_slot
func TestStateSlots(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrentByState = map[string]int{"in progress": 1}
	w := board(t, cfg, issue("A-1", in("In Progress")), issue("A-2", in("in progress ")), issue("A-3"))
	w.wantStarted("A-1 A-3")
	w.wantCodes("A-1 running, A-2 state_slots, A-3 running")
	w.end("A-1", outcome(wire.Failed, wire.CauseProvider))
	w.pass(time.Second)
	w.wantStarted("A-1 A-3 A-2")
}

// running_count_follows_active_state_reconciliation
func TestSlotFollowsTheStateOfARun(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrentByState = map[string]int{"todo": 1}
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.wantStarted("A-1")
	w.move("A-1", "In Progress")
	w.pass(30 * time.Second)
	w.wantStarted("A-1 A-2")
}

// tracker_inactive_release_frees_the_per_state_slot
func TestInactiveReleaseFreesTheSlot(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.move("A-1", "Backlog")
	w.pass(30 * time.Second)
	w.wantStarted("A-1") // its run is only stopping
	w.end("A-1", outcome(wire.Cancelled, wire.CauseTracker))
	w.pass(time.Second)
	w.wantStarted("A-1 A-2")
}

// A saturated state must not hide what stands behind it (reference 7.2, 4).
func TestSaturatedStateHidesNothing(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 2
	cfg.Workflow.Agent.MaxConcurrentByState = map[string]int{"todo": 1}
	w := board(t, cfg, issue("A-1"), issue("A-2"), issue("A-3"), issue("A-4", in("Rework")))
	w.wantStarted("A-1 A-4")
}

func TestBackendSlots(t *testing.T) {
	cfg := schedule.Config{Workflow: flow(), Backends: map[string]int{"codex": 1}}
	cfg.Workflow.Routing.Rules = []workflow.Rule{{Label: "ui", Harness: "openhands"}}
	w := board(t, cfg, issue("A-1"), issue("A-2"), issue("A-3", labels("ui")))
	w.wantStarted("A-1 A-3")
	w.wantCodes("A-1 running, A-2 backend_slots, A-3 running")
}

func TestStartLimit(t *testing.T) {
	w := board(t, schedule.Config{Starts: 2}, issue("A-1"), issue("A-2"), issue("A-3"))
	w.wantStarted("A-1 A-2")
	w.wantCodes("A-1 running, A-2 running, A-3 starts")
	w.event("A-2", schedule.Launched, schedule.Opened)
	w.wantStarted("A-1 A-2 A-3")
}

func TestSkipReasons(t *testing.T) {
	unknown := issue("B-1", blockedBy("X-1", ""))
	tests := []struct {
		name   string
		issue  *wire.Issue
		code   schedule.Code
		reason string
	}{
		{"open blocker", issue("B-1", blockedBy("A-9", "In Progress")), schedule.CodeBlocker, "blocked by A-9 (In Progress)"},
		{"ended blocker", issue("B-1", blockedBy("A-9", "done")), schedule.CodeRunning, "running"},
		{"unknown blocker", unknown, schedule.CodeUnknownBlocker, "blocked by X-1, whose state is not known"},
		{"open child", issue("B-1", child("A-9", "Todo")), schedule.CodeChild, "child A-9 is open (Todo)"},
		{"ended child", issue("B-1", child("A-9", "Canceled")), schedule.CodeRunning, "running"},
		{"blocker before hierarchy", issue("B-1", child("A-9", "Done"), blockedBy("A-8", "Todo")), schedule.CodeBlocker, "blocked by A-8 (Todo)"},
		{"undispatchable", issue("B-1", func(i *wire.Issue) { i.Dispatchable = false }), schedule.CodeUndispatchable, "not dispatchable"},
		{"archived", issue("B-1", func(i *wire.Issue) { i.Archived = true }), schedule.CodeUndispatchable, "archived"},
		{"self", issue("B-1", blockedBy("B-1", "Todo")), schedule.CodeCycle, "cycle B-1 -> B-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := board(t, schedule.Config{}, tt.issue)
			d := w.s.Plan(w.now)[0]
			if d.Code != tt.code || d.Reason != tt.reason {
				t.Fatalf("got %s (%s), want %s (%s)", d.Code, d.Reason, tt.code, tt.reason)
			}
			w.pass(5 * time.Minute)
			if tt.code != schedule.CodeRunning {
				w.wantLog("skipped B-1: "+tt.reason, 1)
			}
		})
	}
}

func TestRequiredLabels(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Tracker.RequiredLabels = []string{"Agent"}
	w := board(t, cfg, issue("A-1", labels("agent", "ui")), issue("A-2", labels("ui")))
	w.wantCodes("A-1 running, A-2 label")
	w.wantLog(`skipped A-2: label "agent" is missing`, 1)
}

func TestConfiguredTerminalStates(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Tracker.TerminalStates = []string{"Shipped"}
	w := board(t, cfg, issue("A-1", blockedBy("X-1", "SHIPPED ")), issue("A-2", blockedBy("X-1", "Done")))
	w.wantCodes("A-1 running, A-2 blocker")
}

// Custom names of ended states are learned where the workflow names none (reference
// 7.2, 12).
func TestLearnedTerminalStates(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"), issue("A-2", blockedBy("A-1", "Shipped")))
	w.wantCodes("A-1 running, A-2 blocker")
	w.change("A-1", in("Shipped"), func(i *wire.Issue) { i.Category = wire.CategoryTerminal })
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(2 * time.Second)
	w.wantStarted("A-1 A-2")
}

// L23: all blockers count, and cycles are named.
func TestL23AllBlockersAndCycles(t *testing.T) {
	w := board(t, schedule.Config{},
		issue("A-1", blockedBy("B-2", "Todo")),
		issue("B-2", blockedBy("A-1", "Todo")),
		issue("C-3", blockedBy("A-1", "Todo")),
		issue("D-4", blockedBy("X-1", "Done"), blockedBy("X-2", "Todo")),
	)
	w.wantStarted("")
	w.wantCodes("A-1 cycle, B-2 cycle, C-3 cycle, D-4 blocker")
	for _, key := range []string{"A-1", "B-2", "C-3"} {
		w.wantLog("skipped "+key+": cycle A-1 -> B-2 -> A-1", 1)
	}
	w.change("D-4", func(i *wire.Issue) { i.BlockedBy[1].State = "Done" })
	w.pass(30 * time.Second)
	w.wantStarted("D-4")
}

func TestCycleThroughAChild(t *testing.T) {
	w := board(t, schedule.Config{},
		issue("P-1", child("C-1", "Todo")),
		issue("C-1", blockedBy("D-1", "Todo")),
		issue("D-1", blockedBy("P-1", "Todo")),
		issue("E-1", blockedBy("F-1", "Todo")),
		issue("F-1"),
	)
	w.wantCodes("C-1 cycle, D-1 cycle, E-1 blocker, F-1 running, P-1 cycle")
	w.wantLog("skipped C-1: cycle C-1 -> D-1 -> P-1 -> C-1", 1)
}

// Leaves before parents; a new child blocks its parent again.
func TestHierarchy(t *testing.T) {
	w := board(t, schedule.Config{}, issue("P-1", child("C-1", "Todo")), issue("C-1"))
	w.wantStarted("C-1")
	w.move("C-1", "Done")
	w.change("P-1", func(i *wire.Issue) {
		i.Children = nil
		child("C-1", "Done")(i)
		child("C-2", "Todo")(i)
	})
	w.end("C-1", outcome(wire.Succeeded))
	w.pass(time.Minute)
	w.wantStarted("C-1")
	w.wantCodes("P-1 child")
}

// dispatch_discovery_skips_candidates_missing_or_inactive_after_detail_refresh, and
// a poll that is younger than two seconds needs no second reading.
func TestCandidatesAreReadAgain(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"), issue("A-2"), issue("A-3"), issue("A-4"))
	w.slow = true
	w.apply(schedule.Begin{})
	polled := w.pending[0]
	w.pending = nil
	w.now = w.now.Add(3 * time.Second)
	w.move("A-1", "Backlog")
	delete(w.issues, "id-A-2")
	w.change("A-3", blockedBy("X-1", "Todo"))
	w.slow = false
	w.apply(polled)
	w.wantStarted("A-4")
	read, ok := w.actions[len(w.actions)-1].(schedule.ReadIDs)
	for i := len(w.actions) - 1; !ok; i-- {
		read, ok = w.actions[i].(schedule.ReadIDs)
	}
	if got := strings.Join(read.IDs, " "); got != "id-A-1 id-A-2 id-A-3 id-A-4" || read.Purpose != schedule.ForStart {
		t.Fatalf("read %q for %q", got, read.Purpose)
	}
	w.wantCodes("A-3 blocker, A-4 running")
}

func TestFreshPollNeedsNoSecondReading(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.wantStarted("A-1")
	for _, a := range w.actions {
		if _, ok := a.(schedule.ReadIDs); ok {
			t.Fatalf("read again: %+v", a)
		}
	}
}

// A reading that tells nothing of a candidate must not be repeated without end.
func TestSilentCandidateWaitsForTheNextPoll(t *testing.T) {
	w := newWorld(t, schedule.Config{})
	w.add(issue("A-1"))
	w.slow = true
	w.apply(schedule.Begin{})
	polled := w.pending[0]
	w.pending = nil
	w.now = w.now.Add(3 * time.Second)
	w.apply(polled)
	w.apply(schedule.Read{})
	w.wantStarted("")
	w.wantCodes("A-1 unread")
	w.pending, w.slow = nil, false
	w.pass(30 * time.Second)
	w.wantStarted("A-1")
}

func TestPlanChangesNothing(t *testing.T) {
	cfg := schedule.Config{Mode: schedule.PlanOnly}
	w := board(t, cfg, issue("A-1"), issue("A-2", blockedBy("A-1", "Todo")))
	w.wantExit(0)
	first := w.codes()
	if second := w.codes(); first != "A-1 start, A-2 blocker" || first != second {
		t.Fatalf("plan is %q, then %q", first, second)
	}
	w.wantStarted("")
	if len(w.records) > 0 {
		t.Fatalf("a plan wrote %v", w.records)
	}
}

func TestPauseDrainAndBrokenConfigStopOnlyDispatch(t *testing.T) {
	pauses := map[string]schedule.Fact{
		"paused":   schedule.Command{Kind: schedule.CommandPause},
		"draining": schedule.Command{Kind: schedule.CommandDrain},
		"config":   schedule.ConfigBroken{Message: "line 3: no"},
	}
	for code, fact := range pauses {
		t.Run(code, func(t *testing.T) {
			w := board(t, schedule.Config{}, issue("A-1"))
			w.apply(fact)
			w.add(issue("A-2"))
			w.pass(2 * time.Minute)
			w.wantStarted("A-1")
			w.wantCodes("A-1 running, A-2 " + code)
			if len(w.stops) > 0 {
				t.Fatalf("stopped %+v", w.stops)
			}
		})
	}
}

// L16: a broken file keeps the workers, and a good one goes on without a restart.
func TestL16ReloadEndsABrokenConfig(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.apply(schedule.ConfigBroken{Message: "line 3: no"}, schedule.ConfigBroken{Message: "line 3: no"})
	w.wantLog("config_error", 1)
	w.add(issue("A-2"))
	w.pass(time.Minute)
	w.wantStarted("A-1")
	w.apply(schedule.Reloaded{Workflow: flow()})
	w.wantStarted("A-1 A-2")
}

func TestReloadChangesTheLimits(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.wantStarted("A-1")
	w.cfg.Workflow = flow()
	w.apply(schedule.Reloaded{Workflow: w.cfg.Workflow})
	w.wantStarted("A-1 A-2")
}

// L06: waiting for a slot is no attempt, and due times are kept.
func TestL06WaitingForASlotChargesNothing(t *testing.T) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = 1
	w := board(t, cfg, issue("A-1"), issue("A-2"))
	w.pass(10 * time.Minute)
	w.wantStarted("A-1")
	if r, ok := w.records["id-A-2"]; ok {
		t.Fatalf("waiting left %+v", r)
	}
	w.move("A-1", "Done")
	w.end("A-1", outcome(wire.Succeeded))
	w.pass(time.Second)
	w.wantStarted("A-1 A-2")
	if got := attempts(w.starts); got != "null null" {
		t.Fatalf("attempts %s", got)
	}
}

// L07: a long run holds up nobody.
func TestL07ALongRunHoldsUpNobody(t *testing.T) {
	w := board(t, schedule.Config{}, issue("A-1"))
	w.pass(time.Minute)
	w.add(issue("A-2"))
	w.apply(schedule.Command{Kind: schedule.CommandRefresh})
	w.wantStarted("A-1 A-2")
}
