package codex

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	methodGoalSet = "thread/goal/set"
	methodGoalGet = "thread/goal/get"
)

// The states of a goal, in the server's words. Of one that we do not know nothing is
// expected but the next turn.
const (
	goalActive        = "active"
	goalComplete      = "complete"
	goalBlocked       = "blocked"
	goalPaused        = "paused"
	goalBudgetLimited = "budgetLimited"
	goalUsageLimited  = "usageLimited"
)

// goal is what the thread pursues: while it is active the server starts the next turn
// by itself, and each of these turns is the run's.
type goal struct {
	set    bool   // the server has taken it; what it tells before is of an older goal
	status string // as the server told last
	seen   int64  // number of the newest turn whose end was dealt with

	waiting bool // for the next turn
	waited  time.Duration
	asked   bool // and the server was asked how the goal stands
}

// pursue makes one turn of a run that has a goal. The first turn, and those of queued
// texts, are asked for; all others begin by themselves.
func (d *driver) pursue(p session.Prompt) error {
	turn := d.runTurn
	if p.Turn > 1 && p.Letter == nil {
		turn = d.nextTurn
	}
	if err := turn(p); err != nil {
		return err
	}
	d.goal.seen = d.turn.number
	if end := d.goalEnding(); end != nil {
		return end
	}
	return nil
}

// nextTurn waits for the turn that the server starts by itself, and for its end. A
// goal that has ended meanwhile brings none. Of turns that came and went while the
// issue was read again, the newest counts.
func (d *driver) nextTurn(session.Prompt) error {
	if err := d.settle(); err != nil {
		return err
	}
	g := d.goal
	g.waiting, g.waited, g.asked = true, 0, false
	defer func() { g.waiting = false }()
	for d.turn.active || d.turn.number == g.seen {
		if !d.turn.active && d.goalEnding() != nil {
			return nil
		}
		if err := d.step(); err != nil {
			return err
		}
	}
	return d.judge()
}

// setGoal gives the thread its goal. It comes while the first turn runs: in an idle
// thread the server would begin a turn of its own before ours.
func (d *driver) setGoal() error {
	budget := d.cfg.Budget.Tokens
	if budget > 0 {
		budget += d.goalSpent()
	}
	result, err := d.call(methodGoalSet, d.goalSetParams(budget), d.cfg.ReadTimeout)
	if err != nil {
		return refusedGoal(err)
	}
	d.goal.set, d.goal.status = true, result.Get("goal.status").Str
	return nil
}

// refusedGoal is the ending of a session whose server takes no goal: it has none, or
// they are switched off. The next run would fare no better.
func refusedGoal(err error) error {
	var refused *rpcError
	if !errors.As(err, &refused) {
		return err
	}
	return session.Failf(wire.CauseConfig, "app-server takes no goal: %s", refused.message)
}

// goalSetParams makes the goal active, also one that an earlier run has left. A budget
// of 0 is none.
func (d *driver) goalSetParams(budget int64) map[string]any {
	params := map[string]any{"threadId": d.thread, "objective": d.cfg.Goal, "status": goalActive}
	if budget > 0 {
		params["tokenBudget"] = budget
	}
	return params
}

// goalSpent returns what an older goal of the thread has used, since the server goes
// on counting where the goal is only changed. Not to know it is no reason to give up.
func (d *driver) goalSpent() int64 {
	if !d.resumed {
		return 0
	}
	result, err := d.call(methodGoalGet, d.goalParams(), d.cfg.ReadTimeout)
	if err != nil {
		d.Warn("goal", err.Error())
		return 0
	}
	return result.Get("goal.tokensUsed").Int()
}

func (d *driver) goalParams() map[string]any { return map[string]any{"threadId": d.thread} }

// askGoal asks how the goal stands, in case that it was told and not heard.
func (d *driver) askGoal() {
	d.goal.asked = true
	c := d.send(methodGoalGet, d.goalParams())
	c.then = func(result gjson.Result, err error) {
		if err != nil {
			d.Warn("goal", err.Error())
			return
		}
		d.goalTold(result.Get("goal.status").Str)
	}
}

// goalTold takes the server's word on how the goal stands; "" where there is none.
func (d *driver) goalTold(status string) {
	if d.goal != nil && d.goal.set {
		d.goal.status = status
	}
}

// waitGoal advances the wait for the next turn of an active goal.
func (d *driver) waitGoal(step time.Duration) {
	g := d.goal
	if g == nil || !g.waiting || d.turn.active {
		return
	}
	g.waited += step
	switch limit := d.cfg.GoalWait; {
	case limit <= 0:
	case g.waited >= limit/2 && !g.asked: // before giving up, also where one step is as long as the limit
		d.askGoal()
	case g.waited >= limit:
		d.Fail(session.Failf(wire.CauseProtocol, "app-server started no next turn of the goal within %s; the goal is %s", limit, g.word()))
	}
}

// word is the status for people.
func (g *goal) word() string {
	if g.status == "" {
		return "cleared"
	}
	return g.status
}

// goalEnding is what the end of the goal makes of the run; nil where the goal has not
// ended.
func (d *driver) goalEnding() *session.Ending {
	end := &session.Ending{Message: fmt.Sprintf("the goal is %s", d.goal.status)}
	switch d.goal.status {
	case goalComplete:
		return &session.Ending{Outcome: wire.Succeeded, FinishedBy: session.FinishedByAgent}
	case goalBudgetLimited:
		end.Outcome, end.Message = wire.BudgetExceeded, "the goal has used its token budget up"
	case goalUsageLimited:
		end.Outcome, end.Message = wire.RateLimited, "the provider's usage limit stopped the goal"
		end.RetryAt = d.retryAt()
	case goalBlocked, goalPaused:
		end.Outcome = wire.InputRequired
	default:
		return nil
	}
	end.Category = end.Outcome
	return end
}
