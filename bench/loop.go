package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	dispatches    = 15
	crowdSessions = 200
	crowdWork     = 5 * time.Second // of each agent
	boardLimit    = "10m"
	cardLimit     = 20 * time.Second // from a saved card to the agent's first step
)

// loops measures os-loop with real sessions on a stand-in: how long a saved card takes
// to reach its agent, and what many sessions at once cost.
func loops(ctx context.Context, r *rig) ([]row, error) {
	dispatch, err := r.dispatch(ctx, r.rounds(dispatches, dispatches/3))
	if err != nil {
		return nil, err
	}
	crowd, err := r.crowd(ctx, r.rounds(crowdSessions, crowdSessions/10))
	return append([]row{dispatch}, crowd...), err
}

// desk is a folder with a workflow and cards, whose agent marks its first step by the
// file "begun" and then works for so long.
type desk struct {
	r   *rig
	dir string
}

func (r *rig) desk(slots int, work time.Duration) (*desk, error) {
	dir, err := os.MkdirTemp(r.dir, "board-")
	if err != nil {
		return nil, err
	}
	b := &desk{r: r, dir: dir}
	flow := fmt.Sprintf(`---
workspace: {root: root, state_root: state}
agent: {max_turns: 1, max_concurrent_agents: %d}
codex:
  command: >-
    os-codex rehearse --run ': > begun; sleep %.1f; $OS_TOOL issue_update "{\"state\":\"Done\"}"'
---
{{ issue.title }}
`, slots, work.Seconds())
	return b, errors.Join(os.WriteFile(filepath.Join(dir, "WORKFLOW.md"), []byte(flow), 0o600), os.Mkdir(filepath.Join(dir, "issues"), 0o700))
}

func (b *desk) close() error { return os.RemoveAll(b.dir) }

// add saves a card, as an editor would.
func (b *desk) add(key string) error {
	temp, card := filepath.Join(b.dir, "card"), filepath.Join(b.dir, "issues", key+".md")
	return errors.Join(os.WriteFile(temp, []byte("---\ntitle: Work\nstate: Todo\n---\n"), 0o600), os.Rename(temp, card))
}

// begun waits for the agent's first step and returns when it was.
func (b *desk) begun(ctx context.Context, key string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cardLimit, fmt.Errorf("%s did not begin within %v", key, cardLimit))
	defer cancel()
	for {
		fi, err := os.Stat(filepath.Join(b.dir, "root", key, "begun"))
		if err == nil {
			return fi.ModTime(), nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
}

// dispatch compares the time from a saved card to the agent's first step under os-loop
// with that of os-workspace run on the same card by hand.
func (r *rig) dispatch(ctx context.Context, n int) (_ row, err error) {
	watched, err := r.desk(1, 0)
	if err != nil {
		return row{}, err
	}
	byHand, err := r.desk(1, 0)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, watched.close(), byHand.close()) }()
	ctx, stop := context.WithCancel(ctx)
	loop := r.command(ctx, "os-loop")
	loop.Dir = watched.dir
	var said bytes.Buffer
	loop.Stderr = &said
	if err := loop.Start(); err != nil {
		stop()
		return row{}, err
	}
	defer func() {
		stop()
		_ = loop.Wait() // it was told to stop
	}()
	var ours, theirs sample
	for i := range n + 1 { // the first one waits for os-loop to be up, and does not count
		key := fmt.Sprintf("A-%d", i)
		a, err := watched.timed(ctx, key, func() error { return nil })
		if err != nil {
			return row{}, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		b, err := byHand.timed(ctx, key, func() error { return byHand.run(ctx, key) })
		if err != nil {
			return row{}, err
		}
		if i > 0 {
			ours, theirs = append(ours, a), append(theirs, b)
		}
	}
	return compared(fmt.Sprintf("saved card to agent, median of %d", n), ours.median(), theirs.median(), "os-poll | os-workspace run"), nil
}

func (b *desk) timed(ctx context.Context, key string, start func() error) (time.Duration, error) {
	from := time.Now()
	if err := b.add(key); err != nil {
		return 0, err
	}
	if err := start(); err != nil {
		return 0, err
	}
	at, err := b.begun(ctx, key)
	return at.Sub(from), err
}

func (b *desk) run(ctx context.Context, key string) error {
	_, err := timed(b.command(ctx, "sh", "-c", "os-poll --identifier "+key+" | os-workspace run -- os-codex"))
	return err
}

// crowd lets so many agents work at once and compares with the time that each works.
func (r *rig) crowd(ctx context.Context, n int) (_ []row, err error) {
	b, err := r.desk(n, crowdWork)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for i := range n {
		if err := b.add(fmt.Sprintf("A-%d", i)); err != nil {
			return nil, err
		}
	}
	loop := b.command(ctx, "os-loop", "--until-idle", "--timeout", boardLimit)
	took, err := timed(loop)
	if err != nil {
		return nil, err
	}
	events, err := b.events()
	if err != nil {
		return nil, err
	}
	usage, ok := loop.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok || events == 0 {
		return nil, errors.New("os-loop told nothing of what it used")
	}
	// The supervisors are children of os-loop's, and so is all that they have waited for.
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return []row{
		compared(fmt.Sprintf("%d sessions at once", n), took, crowdWork, "one agent's work"),
		{name: "  CPU an event, all processes", measured: short(cpu / time.Duration(events)), reference: fmt.Sprintf("%d events, %s", events, short(cpu))},
		{name: "  os-loop's memory at its most", measured: megabytes(maxRSS(loop.ProcessState)), reference: fmt.Sprintf("%d runs", n)},
	}, nil
}

// command is a program that works in the desk's folder.
func (b *desk) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := b.r.command(ctx, name, args...)
	cmd.Dir = b.dir
	return cmd
}

// events counts the lines of all runs' logs.
func (b *desk) events() (int, error) {
	logs, err := filepath.Glob(filepath.Join(b.dir, "state/issues/*/runs/*/events.ndjson"))
	total := 0
	for _, log := range logs {
		text, readErr := os.ReadFile(log)
		total += bytes.Count(text, []byte("\n"))
		err = errors.Join(err, readErr)
	}
	return total, err
}
