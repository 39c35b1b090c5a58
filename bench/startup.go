package main

import (
	"context"
	"fmt"
	"time"
)

const startGoal = 10 * time.Millisecond

// startup measures how long each command takes to say its version and its help,
// from the fork to the end.
func startup(ctx context.Context, r *rig) ([]row, error) {
	tasks := []task{r.start("minimal")}
	for _, name := range commands {
		tasks = append(tasks, r.start(name, "--version"), r.start(name, "--help"))
	}
	samples, err := inTurn(ctx, r.rounds(50, 10), tasks...)
	if err != nil {
		return nil, err
	}
	least := samples[0].median()
	var rows []row
	for i, s := range samples[1:] {
		took := s.median()
		line := compared("start "+tasks[i+1].name, took, least, "a minimal Go program")
		rows = append(rows, line.within(fmt.Sprintf("< %v", startGoal), took < startGoal))
	}
	return rows, nil
}

func (r *rig) start(name string, args ...string) task {
	label := name
	for _, a := range args {
		label += " " + a
	}
	return task{label, func(ctx context.Context) (time.Duration, error) { return timed(r.command(ctx, name, args...)) }}
}
