package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	steers      = 300
	pollEach    = 50 * time.Millisecond
	steerPause  = 20 * time.Millisecond // at most, between two texts
	steerLimit  = 5 * time.Second       // for one text to arrive
	steerMedian = time.Millisecond
	steerTail   = 5 * time.Millisecond
)

// starter starts what reads a mailbox.
type starter func(context.Context) (*steered, error)

// steering measures how long a text takes from the rename of its file to the stdin of
// the app-server, through os-codex and through a loop that polls the folder.
func steering(ctx context.Context, r *rig) ([]row, error) {
	return r.steerRows(ctx, "steer", r.steerCodex, r.steerPoller)
}

// agentSteering measures the same up to the request at the agent-server, through
// os-openhands.
func agentSteering(ctx context.Context, r *rig) ([]row, error) {
	return r.steerRows(ctx, "oh-steer", r.steerAgent, r.steerAgentPoller)
}

func (r *rig) steerRows(ctx context.Context, name string, session, poller starter) ([]row, error) {
	n := r.rounds(steers, steers/5)
	ours, theirs, err := steer(ctx, n, session, poller)
	if err != nil {
		return nil, err
	}
	of := fmt.Sprintf("a poller of %v", pollEach)
	line := func(p int, goal time.Duration) row {
		took := ours.percentile(p)
		return compared(fmt.Sprintf("%s, p%d of %d", name, p, n), took, theirs.percentile(p), of).
			within(fmt.Sprintf("< %v", goal), took < goal)
	}
	return []row{line(50, steerMedian), line(99, steerTail)}, nil
}

// steer sends n texts each way, in turn, so that both meet the same load.
func steer(ctx context.Context, n int, startSession, startPoller starter) (ours, theirs sample, err error) {
	session, err := startSession(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, session.close()) }()
	poller, err := startPoller(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, poller.close()) }()
	for i := range n + 1 { // the first one waits for the turn and the caches, and does not count
		for _, to := range []struct {
			*steered
			sample *sample
		}{{session, &ours}, {poller, &theirs}} {
			// At no fixed distance from the poller's tick, and into a session that is at rest.
			if err := pause(ctx, rand.N(steerPause)); err != nil {
				return nil, nil, err
			}
			took, err := to.send(ctx, fmt.Sprintf("%06d", i))
			if err != nil {
				return nil, nil, err
			}
			if i > 0 {
				*to.sample = append(*to.sample, took)
			}
		}
	}
	return ours, theirs, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
