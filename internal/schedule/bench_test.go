package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// BenchmarkTick measures the decisions of one whole pass, from the answer of the
// poll on, over a board of which one tenth, at most 1000, runs.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, now, poll := crowd(n)
			b.ReportAllocs()
			for b.Loop() {
				s.Apply(now, schedule.Command{Kind: schedule.CommandRefresh})
				s.Apply(now, schedule.ReadFailed{})
				s.Apply(now, poll)
			}
		})
	}
}

func crowd(n int) (*schedule.Scheduler, time.Time, schedule.Fact) {
	cfg := schedule.Config{Workflow: flow()}
	cfg.Workflow.Agent.MaxConcurrent = min(1000, n/10)
	poll := schedule.Polled{Complete: true}
	for i := range n {
		c := issue(fmt.Sprintf("A-%d", i), priority(int64(i%6)), created(epoch.Add(-time.Duration(i*7919%n)*time.Second)))
		if i%3 == 0 {
			blockedBy(fmt.Sprintf("A-%d", (i+1)%n), "Todo")(c)
		}
		poll.Issues = append(poll.Issues, c)
	}
	s := schedule.New(cfg)
	s.Apply(epoch, schedule.Begin{})
	for _, a := range s.Apply(epoch, poll) {
		if a, ok := a.(schedule.Start); ok {
			run := "run-" + a.Issue.ID
			s.Apply(epoch, schedule.RunStarted{IssueID: a.Issue.ID, RunID: run})
			s.Apply(epoch, schedule.RunEvent{IssueID: a.Issue.ID, RunID: run, Kind: schedule.Opened})
		}
	}
	return s, epoch.Add(time.Second), poll
}

// BenchmarkProgress measures the event that comes most often.
func BenchmarkProgress(b *testing.B) {
	s, now, _ := crowd(10_000)
	var f schedule.Fact = schedule.RunEvent{IssueID: "id-A-1", RunID: "run-id-A-1", Kind: schedule.Progress, Tokens: wire.Count(1)}
	for b.Loop() {
		s.Apply(now, f)
	}
}
