package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ostoolkit/internal/peertest"
)

// agentSessions measures what os-openhands adds to a session of one turn, against a
// client that makes the same requests in the same order.
func agentSessions(ctx context.Context, r *rig) ([]row, error) {
	line, err := r.onStandIn(ctx)
	if err != nil {
		return nil, err
	}
	rows := []row{line}
	const name = "oh-session on the real agent-server"
	if _, err := os.Stat(r.realAgent()); err != nil {
		return append(rows, skipped(name, "no agent-server: run make peers")), nil
	}
	if line, err = r.onRealAgent(ctx, name); err != nil {
		return rows, err
	}
	return append(rows, line), nil
}

func (r *rig) onStandIn(ctx context.Context) (line row, err error) {
	server, err := r.startAgent(ctx, "run *\nsay hello\n")
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	return r.compareAgents(ctx, "oh-session", server)
}

// onRealAgent compares on the real server with the scripted model for its provider.
func (r *rig) onRealAgent(ctx context.Context, name string) (line row, err error) {
	model, err := peertest.StartModel(peertest.ModelOptions{})
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	server, err := r.startRealAgent(ctx)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	server.model = model.URL()
	return r.compareAgents(ctx, name, server)
}

func (r *rig) compareAgents(ctx context.Context, name string, on *agent) (row, error) {
	s, err := inTurn(ctx, r.rounds(20, 5),
		task{"bare client", func(ctx context.Context) (time.Duration, error) { return r.bareAgent(ctx, on) }},
		task{"os-openhands", func(ctx context.Context) (time.Duration, error) { return r.wholeAgent(ctx, on) }})
	if err != nil {
		return row{}, fmt.Errorf("%s: %w", name, err)
	}
	return overhead(name, s[1].median(), s[0].median()), nil
}

// bareAgent is one session of the bare client, from the fork to its end.
func (r *rig) bareAgent(ctx context.Context, on *agent) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(r.dir, "bare-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return timed(r.command(ctx, r.self, agentClient, on.url, dir, on.model))
}

// overhead is a row of what a session takes and what that of a bare client does.
func overhead(name string, whole, bare time.Duration) row {
	line := compared(name, whole, bare, "a bare client")
	line.reference += fmt.Sprintf(", %+.1f ms", float64(whole-bare)/float64(time.Millisecond))
	return line.within(fmt.Sprintf("< +%v", sessionGoal), whole-bare < sessionGoal)
}

func (r *rig) wholeAgent(ctx context.Context, on *agent) (took time.Duration, err error) {
	cmd, tidy, err := r.agentSession(ctx, on)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tidy()) }()
	return timed(cmd)
}
