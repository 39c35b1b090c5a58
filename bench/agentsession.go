package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// agentSessions measures what os-openhands adds to a session of one turn, against a
// client that makes the same requests in the same order.
func agentSessions(ctx context.Context, r *rig) (rows []row, err error) {
	server, err := r.startAgent(ctx, "run *\nsay hello\n")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	s, err := inTurn(ctx, r.rounds(20, 5),
		task{"bare client", func(ctx context.Context) (time.Duration, error) {
			return timed(r.command(ctx, r.self, agentClient, server.url, r.dir))
		}},
		task{"os-openhands", func(ctx context.Context) (time.Duration, error) { return r.wholeAgent(ctx, server) }})
	if err != nil {
		return nil, err
	}
	return []row{overhead("oh-session", s[1].median(), s[0].median())}, nil
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
