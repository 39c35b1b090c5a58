package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	relayFrames = 500_000
	frameBytes  = 244 // of one frame with its LF: 122 MB in all
	thread      = "0199d1b2-7c41-7d13-a4a5-0d7c6f0b1a2e"
	turn        = "0199d1b2-7c55-7f02-9b1e-2f4b9c8d7e6f"

	relayGoal  = 1.2 // against server | cat
	deltasGoal = 0.5 // against server | jq -c
)

// relay measures what os-codex adds to a flood of deltas, with and without passing
// them on, and its peak of memory over ten times as many.
func relay(ctx context.Context, r *rig) ([]row, error) {
	n := r.rounds(relayFrames, relayFrames/10)
	if err := r.writeTranscripts(n); err != nil {
		return nil, err
	}
	rows, err := r.relayTimes(ctx, n)
	if err != nil {
		return rows, err
	}
	few, err := r.relayMemory(ctx, n/10)
	if err != nil {
		return rows, err
	}
	many, err := r.relayMemory(ctx, n)
	if err != nil {
		return rows, err
	}
	return append(rows, flat("memory of os-codex --deltas", few, many, n/10, n)), nil
}

func (r *rig) relayTimes(ctx context.Context, n int) ([]row, error) {
	jq, noJQ := exec.LookPath("jq")
	tasks := []task{
		{"server | cat", func(ctx context.Context) (time.Duration, error) { return r.flood(ctx, n, "cat") }},
		{"os-codex", func(ctx context.Context) (time.Duration, error) { return r.relayed(ctx, n) }},
		{"os-codex --deltas", func(ctx context.Context) (time.Duration, error) { return r.relayed(ctx, n, "--deltas") }},
	}
	if noJQ == nil {
		tasks = append(tasks, task{"server | jq", func(ctx context.Context) (time.Duration, error) { return r.flood(ctx, n, jq, "-c", ".") }})
	}
	s, err := inTurn(ctx, r.rounds(5, 3), tasks...)
	if err != nil {
		return nil, err
	}
	cat, plain, deltas := s[0].median(), s[1].median(), s[2].median()
	name := fmt.Sprintf("relay %d frames", n)
	rows := []row{compared(name, plain, cat, "server | cat").
		within(fmt.Sprintf("<= %.2fx", relayGoal), ratio(plain, cat) <= relayGoal)}
	if noJQ != nil {
		return append(rows, skipped(name+" --deltas", "jq is not installed")), nil
	}
	jqs := s[3].median()
	return append(rows, compared(name+" --deltas", deltas, jqs, "server | jq -c").
		within(fmt.Sprintf("<= %.2fx", deltasGoal), ratio(deltas, jqs) <= deltasGoal)), nil
}

// writeTranscripts writes, for n frames and a tenth of them, what the stand-in does
// as an app-server, and as a mere source of frames.
func (r *rig) writeTranscripts(n int) error {
	for _, n := range []int{n, n / 10} {
		flood := fmt.Sprintf(">many %d %s\n", n, deltaFrame())
		var errs [2]error
		errs[0] = os.WriteFile(r.transcript("flood", n), []byte(flood), 0o600)
		errs[1] = os.WriteFile(r.transcript("session", n), []byte(sessionTranscript(flood)), 0o600)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) transcript(kind string, n int) string { return r.path(fmt.Sprintf("%s-%d.as", kind, n)) }

// deltaFrame is a frame of Codex's kind, filled up to frameBytes.
func deltaFrame() string {
	frame := func(text string) string {
		return fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":"%s","turnId":"%s","itemId":"msg_1","delta":"%s"},"emittedAtMs":1764504000000}`, thread, turn, text)
	}
	words := strings.Repeat("and so on ", frameBytes)
	return frame(words[:frameBytes-1-len(frame(""))])
}

func sessionTranscript(flood string) string {
	return `<? initialize
> {"id":$ID,"result":{"userAgent":"os-codex/0.171.0 (x)"}}
<? thread/start
> {"id":$ID,"result":{"thread":{"id":"` + thread + `"},"sandbox":{"type":"dangerFullAccess"}}}
<? turn/start
> {"id":$ID,"result":{"turn":{"id":"` + turn + `"}}}
` + flood + `> {"method":"item/completed","params":{"threadId":"` + thread + `","turnId":"` + turn + `","item":{"type":"agentMessage","id":"msg_1","text":"done"}}}
> {"method":"turn/completed","params":{"threadId":"` + thread + `","turn":{"id":"` + turn + `","status":"completed"}}}
`
}

// flood is the stand-in into a filter, whose output is thrown away.
func (r *rig) flood(ctx context.Context, n int, filter string, args ...string) (time.Duration, error) {
	return timedPipe(r.command(ctx, r.self, standIn, r.transcript("flood", n)), r.command(ctx, filter, args...))
}

// codexSession is a session of os-codex with that app-server.
func (r *rig) codexSession(ctx context.Context, server string, flags ...string) (cmd *exec.Cmd, tidy func() error, err error) {
	return r.session(ctx, "os-codex", append([]string{"--command", server}, flags...)...)
}

func (r *rig) floodSession(ctx context.Context, n int, flags ...string) (*exec.Cmd, func() error, error) {
	server := fmt.Sprintf("%s %s %s", quote(r.self), standIn, quote(r.transcript("session", n)))
	return r.codexSession(ctx, server, append([]string{"--sandbox", "danger-full-access"}, flags...)...)
}

// quote makes one word of text for a shell, and for what splits like one.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (r *rig) relayed(ctx context.Context, n int, flags ...string) (took time.Duration, err error) {
	cmd, tidy, err := r.floodSession(ctx, n, flags...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tidy()) }()
	return timed(cmd)
}

// relayMemory returns the peak of os-codex in bytes, once it has seen that every
// delta came out.
func (r *rig) relayMemory(ctx context.Context, n int) (peak int64, err error) {
	cmd, tidy, err := r.floodSession(ctx, n, "--deltas")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tidy()) }()
	count := &lineCounter{part: `"event":"message.delta"`}
	cmd.Stdout = count
	if _, err := timed(cmd); err != nil {
		return 0, err
	}
	if count.lines != n {
		return 0, fmt.Errorf("%d deltas came out of %d", count.lines, n)
	}
	return maxRSS(cmd.ProcessState), nil
}
