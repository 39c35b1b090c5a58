package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	agentEvents = 100_000
	agentFew    = 1_000 // what the memory of many is compared with

	rateGoal = 0.5 // of what a reader that only counts takes
)

// agentRelay measures how many events a second os-openhands reads from the socket and
// prints as records, against a client that reads and counts the same frames.
func agentRelay(ctx context.Context, r *rig) ([]row, error) {
	n := r.rounds(agentEvents, agentEvents/10)
	var bareCPU, ourCPU sample
	s, err := inTurn(ctx, r.rounds(5, 3),
		task{"bare reader", func(ctx context.Context) (time.Duration, error) { return r.agentCounted(ctx, n, &bareCPU) }},
		task{"os-openhands", func(ctx context.Context) (time.Duration, error) { return r.agentRelayed(ctx, n, &ourCPU) }})
	if err != nil {
		return nil, err
	}
	bare, ours := s[0].median(), s[1].median()
	share := ratio(bare, ours)
	rate := row{
		name: fmt.Sprintf("oh-relay %d events", n), measured: perSecond(n, ours),
		reference: perSecond(n, bare) + " a bare socket reader", ratio: fmt.Sprintf("%.2fx", share),
	}
	each := func(cpu sample) time.Duration { return cpu[1:].median() / time.Duration(n) } // without the first round
	return []row{
		rate.within(fmt.Sprintf(">= %.2fx", rateGoal), share >= rateGoal),
		compared("oh-relay, processor time an event", each(ourCPU), each(bareCPU), "a bare socket reader"),
	}, nil
}

func perSecond(n int, took time.Duration) string {
	return fmt.Sprintf("%.0f/s", float64(n)/took.Seconds())
}

// agentMemory measures the peak of os-openhands over many events and over few.
func agentMemory(ctx context.Context, r *rig) ([]row, error) {
	n := r.rounds(agentEvents, agentEvents/10)
	few, err := r.agentPeak(ctx, agentFew)
	if err != nil {
		return nil, err
	}
	many, err := r.agentPeak(ctx, n)
	if err != nil {
		return nil, err
	}
	return []row{flat("memory of os-openhands", few, many, agentFew, n)}, nil
}

// agentFlood is the script of a run that says n things, and that it is done.
func agentFlood(n int) string {
	const event = `{"kind":"MessageEvent","llm_message":{"role":"assistant","content":[{"type":"text","text":"%s"}]}}`
	return fmt.Sprintf("run *\nmany %d "+event+"\nsay done\n", n, strings.Repeat("and so on ", 10))
}

// agentSession is a session of os-openhands on that agent-server.
func (r *rig) agentSession(ctx context.Context, on *agent) (*exec.Cmd, func() error, error) {
	cmd, tidy, err := r.session(ctx, "os-openhands", "--server", on.url, "--model", scriptedModel, "--llm-base-url", on.model)
	if err == nil {
		cmd.Env = append(cmd.Env, "LLM_API_KEY="+scriptedKey)
	}
	return cmd, tidy, err
}

// flooded runs one client on a new agent-server that says n things, and returns how long
// it took. Nothing but the client is in the time.
func (r *rig) flooded(ctx context.Context, n int, run func(*agent) (time.Duration, error)) (took time.Duration, err error) {
	server, err := r.startAgent(ctx, agentFlood(n))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	return run(server)
}

// agentCounted is the bare client over n events.
func (r *rig) agentCounted(ctx context.Context, n int, cpu *sample) (time.Duration, error) {
	return r.flooded(ctx, n, func(on *agent) (time.Duration, error) {
		cmd := r.command(ctx, r.self, agentClient, on.url, r.dir, on.model)
		var out bytes.Buffer
		cmd.Stdout = &out
		took, err := timed(cmd)
		if err != nil {
			return 0, err
		}
		*cpu = append(*cpu, processorTime(cmd))
		if frames, err := strconv.Atoi(strings.TrimSpace(out.String())); err != nil || frames <= n {
			return 0, fmt.Errorf("%q frames came, for %d events", out.String(), n)
		}
		return took, nil
	})
}

// agentRelayed is os-openhands over n events.
func (r *rig) agentRelayed(ctx context.Context, n int, cpu *sample) (time.Duration, error) {
	return r.flooded(ctx, n, func(on *agent) (took time.Duration, err error) {
		cmd, tidy, err := r.agentSession(ctx, on)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, tidy()) }()
		if took, err = timed(cmd); err == nil {
			*cpu = append(*cpu, processorTime(cmd))
		}
		return took, err
	})
}

func processorTime(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// agentPeak returns the peak of os-openhands in bytes, once it has seen that every event
// came out.
func (r *rig) agentPeak(ctx context.Context, n int) (peak int64, err error) {
	_, err = r.flooded(ctx, n, func(on *agent) (took time.Duration, err error) {
		cmd, tidy, err := r.agentSession(ctx, on)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, tidy()) }()
		count := &lineCounter{part: `"event":"message"`}
		cmd.Stdout = count
		if took, err = timed(cmd); err != nil {
			return 0, err
		}
		if want := n + 1; count.lines != want { // and that it is done
			return 0, fmt.Errorf("%d messages came out of %d", count.lines, want)
		}
		peak = maxRSS(cmd.ProcessState)
		return took, nil
	})
	return peak, err
}
