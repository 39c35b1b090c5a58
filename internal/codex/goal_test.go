package codex

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// goalSet takes the goal in turn U1, which it begins.
func (s *server) goalSet() map[string]any {
	f := s.expect("thread/goal/set")
	s.answer(f, `{"goal":{"status":"active"}}`)
	return f["params"].(map[string]any)
}

func (s *server) goal(status string) {
	s.send(`{"method":"thread/goal/updated","params":{"threadId":"T1","goal":{"status":%q}}}`, status)
}

// starts begins a turn that nobody has asked for.
func (s *server) starts(turn string) {
	s.send(`{"method":"turn/started","params":{"threadId":"T1","turn":{"id":%q}}}`, turn)
}

func goalWorld(t *testing.T, script func(*server)) *world {
	w := newWorld(t, func(s *server) {
		script(s)
		s.rest()
	})
	w.cfg.Goal, w.cfg.GoalWait, w.cfg.Plan.MaxTurns = "ship it", time.Minute, 20
	return w
}

func TestGoalEnds(t *testing.T) {
	for _, tt := range []struct {
		status, outcome string
	}{
		{goalComplete, wire.Succeeded}, {goalBudgetLimited, wire.BudgetExceeded}, {goalUsageLimited, wire.RateLimited},
		{goalBlocked, wire.InputRequired}, {goalPaused, wire.InputRequired},
	} {
		w := goalWorld(t, func(s *server) {
			s.hello()
			if p := s.goalSet(); p["objective"] != "ship it" || p["status"] != "active" || p["tokenBudget"] != nil {
				t.Errorf("goal %v", p)
			}
			s.ends("U1", "completed")
			s.starts("U2")
			s.goal(goalActive)
			s.ends("U2", "completed")
			s.starts("U3")
			s.goal(tt.status) // in the turn, which has its end still
			s.ends("U3", "completed")
		})
		out := w.run(t, t.Context())
		if out.Outcome != tt.outcome || out.Turns != 3 {
			t.Errorf("%s: outcome %s, %d turns, error %+v", tt.status, out.Outcome, out.Turns, out.Error)
		}
		if (out.Outcome == wire.RateLimited) == out.RetryAt.IsZero() {
			t.Errorf("%s: retry at %v", tt.status, out.RetryAt)
		}
		for n := range 3 {
			if want := fmt.Sprintf(`"turn":"U%d","event":"turn.completed"`, n+1); strings.Count(w.out.String(), want) != 1 {
				t.Errorf("%s: %s is not there once", tt.status, want)
			}
		}
	}
}

// The state of an older goal, told before ours is set, ends nothing.
func TestGoalOfAnEarlierRun(t *testing.T) {
	w := goalWorld(t, func(s *server) {
		s.open()
		s.goal(goalBlocked)
		s.starts("U0") // the older goal's: our prompt goes into it
		s.answer(s.expect("turn/start"), `{"turn":{"id":"U0"}}`)
		s.goalSet()
		s.ends("U0", "completed")
		s.starts("U1")
		s.goal(goalComplete)
		s.ends("U1", "completed")
	})
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded || out.Turns != 2 {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

func TestNoNextTurnOfAGoal(t *testing.T) {
	asked := func(answer func(*server, map[string]any)) func(*server) {
		return func(s *server) {
			s.hello()
			s.goalSet()
			s.ends("U1", "completed")
			answer(s, s.expect("thread/goal/get"))
		}
	}
	tests := map[string]struct {
		script           func(*server)
		outcome, warning string
	}{
		"active":       {asked(func(s *server, f map[string]any) { s.answer(f, `{"goal":{"status":"active"}}`) }), wire.Failed, ""},
		"cleared":      {asked(func(s *server, f map[string]any) { s.answer(f, `{"goal":null}`) }), wire.Failed, ""},
		"not heard of": {asked(func(s *server, f map[string]any) { s.answer(f, `{"goal":{"status":"complete"}}`) }), wire.Succeeded, ""},
		"no answer to tell": {asked(func(s *server, f map[string]any) { s.refuse(f, "no goals today", "null") }), wire.Failed,
			"no goals today"},
	}
	for name, tt := range tests {
		w := goalWorld(t, tt.script)
		w.cfg.GoalWait = 4 * session.Tick
		out := w.run(t, t.Context())
		if out.Outcome != tt.outcome || !out.Resumable {
			t.Errorf("%s: outcome %+v, error %+v", name, out, out.Error)
		}
		if out.Outcome == wire.Failed && !strings.Contains(out.Error.Message, "no next turn") {
			t.Errorf("%s: error %+v", name, out.Error)
		}
		if !strings.Contains(w.out.String(), tt.warning) || tt.warning != "" && !strings.Contains(w.out.String(), `"event":"warning"`) {
			t.Errorf("%s: no warning in %s", name, w.out.String())
		}
	}
}

// The run's own limit of turns holds for those that begin by themselves.
func TestGoalAtMaxTurns(t *testing.T) {
	w := goalWorld(t, func(s *server) {
		s.hello()
		s.goalSet()
		s.ends("U1", "completed")
		s.starts("U2")
		s.ends("U2", "completed")
		s.starts("U3")
	})
	w.cfg.Plan.MaxTurns = 2
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded || out.FinishedBy != session.FinishedByMaxTurns || out.Turns != 2 {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

// A turn that begins while the issue is read again is the run's, too.
func TestGoalTurnDuringRecheck(t *testing.T) {
	begun := make(chan struct{})
	w := goalWorld(t, func(s *server) {
		s.hello()
		s.goalSet()
		s.ends("U1", "completed")
		s.starts("U2")
		s.send(`{"id":9,"method":"no/such","params":{}}`)
		s.expect("")
		close(begun)
		s.answer(s.expect("turn/interrupt"), `{}`)
		s.ends("U2", "interrupted")
	})
	w.cfg.Plan.Recheck = func(context.Context) (*wire.Issue, error) {
		<-begun
		return nil, nil
	}
	if out := w.run(t, t.Context()); out.FinishedBy != session.FinishedByTracker || out.Turns != 2 {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

func TestGoalThatIsRefused(t *testing.T) {
	w := goalWorld(t, func(s *server) {
		s.hello()
		s.refuse(s.expect("thread/goal/set"), "goals feature is disabled", "null")
	})
	if out := w.run(t, t.Context()); out.Outcome != wire.Failed || !strings.Contains(out.Error.Message, "goals feature is disabled") {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

func TestBudgetOfARun(t *testing.T) {
	usage := `{"method":"thread/tokenUsage/updated","params":{"threadId":"T1","tokenUsage":{"total":{"totalTokens":%d}}}}`
	w := goalWorld(t, func(s *server) {
		s.hello()
		if p := s.goalSet(); p["tokenBudget"] != float64(100) {
			t.Errorf("goal %v", p)
		}
		for _, total := range []int{50, 80, 80, 90, 120} {
			s.send(usage, total)
		}
		s.answer(s.expect("turn/interrupt"), `{}`)
		s.ends("U1", "interrupted")
	})
	w.cfg.Budget.Tokens = 100
	out := w.run(t, t.Context())
	if out.Outcome != wire.BudgetExceeded || out.Usage == nil || *out.Usage.TotalTokens != 120 || !out.Resumable {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
	if n := strings.Count(w.out.String(), `"code":"budget"`); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

func TestSuspendIsTold(t *testing.T) {
	readings := []time.Duration{time.Hour, time.Hour, 9 * time.Hour, 9 * time.Hour}
	told := make(chan struct{})
	w := newWorld(t, func(s *server) {
		s.hello()
		<-told
		s.done()
		_, _ = s.in.ReadString(0)
	})
	w.cfg.Slept = func() time.Duration {
		slept := readings[0]
		if len(readings) == 1 {
			return slept
		}
		if readings = readings[1:]; len(readings) == 1 {
			close(told)
		}
		return slept
	}
	w.cfg.Limits.Stall = time.Minute
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
	if n := strings.Count(w.out.String(), `"event":"suspended"`); n != 1 || !strings.Contains(w.out.String(), "suspended for 8h0m0s") {
		t.Errorf("told %d times:\n%s", n, w.out.String())
	}
}
