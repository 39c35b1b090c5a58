// Package loop drives internal/schedule: it brings the scheduler facts from programs,
// files and clocks, and carries out what it decides.
//
// One goroutine owns the scheduler and all that is remembered. Whatever may be slow
// (a program, the reading of a log, the wait for an end) has a goroutine of its own
// that sends notes to the owner; Run waits for every one of them. Runs are processes
// in sessions of their own and need no os-loop: one that dies leaves them to the
// next.
//
// It decides nothing about issues (schedule does), writes nothing into a run's folder
// (os-workspace and the harness do) and knows no tracker and no agent: it runs
// os-poll, os-workspace and a harness as programs. Run may be called once at a time
// for a state root, which the caller has locked.
package loop

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/workflow"
)

// Config is what Run is told.
type Config struct {
	Workflow *workflow.Workflow
	// Load reads the workflow again. Its error says what is wrong with the file.
	Load func() (*workflow.Workflow, error)
	Root state.Root // of the state; its loop folder exists and is locked by the caller

	Schedule schedule.Config // Workflow is filled in
	Timeout  time.Duration   // of everything; 0: none
	Reading  time.Duration   // of one os-poll

	Listen string // address of the HTTP API; "": none
	Token  string // what its callers must know; "": nothing, which only loopback allows

	Environ []string // of the programs; its PATH finds them
	Stdout  io.Writer
	Warn    func(format string, args ...any)
	Now     func() time.Time
	Rand    io.Reader       // safe for concurrent use
	Hurry   <-chan struct{} // closed: stop at once
	Reload  <-chan struct{} // read the workflow again
	PID     int
}

// Run works until the scheduler ends, and returns the exit status that it ends with.
// When ctx ends, the runs are stopped politely or left alone, as the configuration
// says; when Hurry is closed, at once.
func Run(ctx context.Context, c Config) (status int, err error) {
	d := newDriver(c)
	defer d.close()
	if err := d.open(); err != nil {
		return 0, err
	}
	if err := d.recover(ctx); err != nil {
		return 0, err
	}
	return d.run(ctx), nil
}

// Plan returns what a scheduler would decide now on every issue of the board. It
// touches nothing. recovered tells whether there is a state root to look into.
func Plan(ctx context.Context, c Config, recovered bool) ([]schedule.Decision, int, error) {
	c.Schedule.Mode = schedule.PlanOnly
	d := newDriver(c)
	defer d.close()
	if recovered {
		if err := d.recover(ctx); err != nil {
			return nil, 0, err
		}
	}
	status := d.run(ctx)
	return d.scheduler.Plan(c.Now()), status, nil
}

// paths of os-loop's own folder.
func (c *Config) path(name ...string) string {
	return filepath.Join(append([]string{c.Root.Loop()}, name...)...)
}

// Files below the loop folder.
const (
	StateFile = "state.json"    // what the scheduler last knew
	LogFile   = "events.ndjson" // what it printed
	copyFile  = "workflow.md"   // the text of the last good workflow
	runsDir   = "runs"          // what the supervisors of this loop read and print
	holdsDir  = "holds"

	asideSuffix = ".1" // of a log that has become too long
)
