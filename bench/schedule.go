package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

const (
	tickGoal    = 10 * time.Millisecond
	goalWaiting = 10_000 // the candidates and the runs that the goal is for
	goalRunning = 1_000
)

// decisions measures one pass of the scheduler: all that it decides from the answers
// of the tracker, without the tracker.
func decisions(ctx context.Context, r *rig) ([]row, error) {
	var rows []row
	for _, running := range []int{0, 100, goalRunning} {
		var before time.Duration
		for _, waiting := range []int{100, 1_000, goalWaiting, 100_000} {
			if r.quick && waiting > goalWaiting {
				continue
			}
			took, err := tick(ctx, waiting, running, r.rounds(50, 10))
			if err != nil {
				return rows, err
			}
			name := fmt.Sprintf("tick, %d candidates, %d running", waiting, running)
			line := row{name: name, measured: short(took)}
			if before > 0 {
				line = compared(name, took, before, "a tenth of the candidates")
			}
			if waiting == goalWaiting && running == goalRunning {
				line = line.within(fmt.Sprintf("< %v", tickGoal), took < tickGoal)
			}
			rows, before = append(rows, line), took
		}
	}
	return rows, nil
}

// tick returns the median of so many passes.
func tick(ctx context.Context, waiting, running, rounds int) (time.Duration, error) {
	b := newBoard(waiting, running)
	if got := b.fill(); got != running {
		return 0, fmt.Errorf("%d of %d runs were started", got, running)
	}
	s, err := inTurn(ctx, rounds, task{"pass", func(context.Context) (time.Duration, error) {
		b.now = b.now.Add(time.Second)
		return b.pass(schedule.Command{Kind: schedule.CommandRefresh})
	}})
	if err != nil {
		return 0, err
	}
	return s[0].median(), nil
}

// board is a scheduler and a tracker that answers at once. Polls tell the same
// issues, each time in copies of their own, as a program that reads them would.
type board struct {
	s     *schedule.Scheduler
	now   time.Time
	polls [2][]*wire.Issue
	turn  int
	byID  map[string]*wire.Issue
	read  bool // the last pass had its poll
}

func newBoard(waiting, running int) *board {
	w := &workflow.Workflow{
		Polling: workflow.Polling{Interval: 30 * time.Second},
		Agent:   workflow.Agent{MaxConcurrent: running, MaxRetryBackoff: 5 * time.Minute, RunTimeout: 6 * time.Hour},
		Routing: workflow.Routing{Harness: "codex"},
		Budget:  workflow.Budget{RunsPerIssue: 50, NoProgressRuns: 3},
	}
	b := &board{
		s:    schedule.New(schedule.Config{Workflow: w, Grace: 10 * time.Second}),
		now:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		byID: map[string]*wire.Issue{},
	}
	for i := range waiting + running {
		issue := b.issue(i, waiting+running, i >= running)
		again := *issue
		b.polls[0], b.polls[1] = append(b.polls[0], issue), append(b.polls[1], &again)
		b.byID[issue.ID] = issue
	}
	return b
}

// issue makes one of n issues: priorities and ages are mixed. A sixth of those that
// may wait for another one do.
func (b *board) issue(i, n int, mayWait bool) *wire.Issue {
	key := fmt.Sprintf("A-%d", i)
	at := wire.At(b.now.Add(-time.Duration(i*7919%n) * time.Second))
	issue := &wire.Issue{
		ID: "id-" + key, Identifier: key, Title: "Do " + key, State: "Todo", Category: wire.CategoryActive,
		Priority: wire.Count(int64(i % 6)), Dispatchable: true, CreatedAt: at, UpdatedAt: at,
	}
	if mayWait && i%6 == 5 {
		other := fmt.Sprintf("A-%d", (i+1)%n)
		issue.BlockedBy = []wire.Blocker{{ID: wire.Text("id-" + other), Identifier: wire.Text(other), State: "Todo", Known: true}}
	}
	return issue
}

// fill begins, and returns how many runs there are then.
func (b *board) fill() int {
	started := 0
	for _, f := range []schedule.Fact{schedule.Begin{}, schedule.Tick{}} {
		for queue := []schedule.Fact{f}; len(queue) > 0; queue = queue[1:] {
			for _, a := range b.s.Apply(b.now, queue[0]) {
				if start, ok := a.(schedule.Start); ok {
					started++
					id := start.Issue.ID
					queue = append(queue, schedule.RunStarted{IssueID: id, RunID: "run-" + id},
						schedule.RunEvent{IssueID: id, RunID: "run-" + id, Kind: schedule.Opened},
						schedule.RunEvent{IssueID: id, RunID: "run-" + id, Kind: schedule.Progress})
				} else if answer := b.answer(a); answer != nil {
					queue = append(queue, answer)
				}
			}
		}
	}
	return started
}

// pass applies a fact and all answers that are asked for, and returns what the
// scheduler took over them, of the processor. A pass that did not poll has decided nothing.
func (b *board) pass(f schedule.Fact) (took time.Duration, err error) {
	b.read = false
	for queue := []schedule.Fact{f}; len(queue) > 0; queue = queue[1:] {
		from := cpuTime()
		actions := b.s.Apply(b.now, queue[0])
		took += cpuTime() - from
		for _, a := range actions {
			if answer := b.answer(a); answer != nil {
				queue = append(queue, answer)
			}
		}
	}
	if !b.read {
		return 0, fmt.Errorf("a pass without a poll")
	}
	return took, nil
}

// cpuTime is what this process has used of the processors until now. Nothing else runs
// in it meanwhile, and unlike the wall clock it does not count the time in which
// somebody else had them.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // it fails for bad arguments alone
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (b *board) answer(a schedule.Action) schedule.Fact {
	switch a := a.(type) {
	case schedule.Poll:
		b.read = true
		b.turn = 1 - b.turn
		return schedule.Polled{Issues: b.polls[b.turn], Complete: true}
	case schedule.ReadIDs:
		var answer schedule.Read
		for _, id := range a.IDs {
			answer.Issues = append(answer.Issues, b.byID[id])
		}
		return answer
	}
	return nil
}
