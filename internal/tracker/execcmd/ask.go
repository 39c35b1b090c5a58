package execcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

const maxStderr = 16 << 10 // of what is read of its stderr

// answer is one line that the program printed: one of the three is set.
type answer struct {
	issue   *wire.Issue
	gone    string
	problem *tracker.Problem
}

// ending is what else it told.
type ending struct {
	warnings []tracker.Problem
	limit    *wire.RateLimit
}

// ask runs the program with one question, and then calls take for each of its answers,
// in order. Its output is kept in a file until its exit status says that it is whole;
// so memory stays flat, and nothing that it left behind can hold us up.
func (p *Program) ask(ctx context.Context, question []string, stdin []byte, take func(*answer) error) (*ending, error) {
	r, err := proc.Ask(ctx, proc.Spec{
		Argv: append(p.argv[:len(p.argv):len(p.argv)], question...), Dir: p.dir, Env: p.environ,
	}, stdin)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, startError(err)
	}
	defer r.Close()
	if err := p.judge(r); err != nil {
		return nil, err
	}
	end, err := p.read(r.Out, take)
	if err != nil {
		return nil, err
	}
	end.warnings = p.warnings(r)
	return end, nil
}

// read passes on what the program printed.
func (p *Program) read(out *os.File, take func(*answer) error) (*ending, error) {
	end := &ending{}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", p.argv[0], err)
	}
	lines := wire.NewReader(out, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer of %s: %w", p.argv[0], err)
		}
		a, err := p.parse(line, end)
		if err != nil {
			a = &answer{problem: &tracker.Problem{Where: p.argv[0], Line: line.Number, Message: err.Error()}}
		}
		if a == nil {
			continue
		}
		if err := take(a); err != nil {
			return nil, err
		}
	}
}

// parse returns the answer in one line, or nil where there is none.
func (p *Program) parse(line wire.Line, end *ending) (*answer, error) {
	if line.Err != nil {
		return nil, line.Err
	}
	if len(bytes.TrimSpace(line.Bytes)) == 0 {
		return nil, nil
	}
	rec, err := wire.Decode(line.Bytes, "issue")
	if err != nil {
		return nil, err
	}
	switch rec := rec.(type) {
	case *wire.Issue:
		if err := p.complete(rec, line.Bytes); err != nil {
			return nil, err
		}
		return &answer{issue: rec}, nil
	case *wire.Gone:
		return &answer{gone: rec.ID}, nil
	case *wire.Summary:
		end.limit = rec.RateLimit
		return nil, nil
	}
	return nil, errors.New("it is neither an issue nor a gone record")
}

// complete gives an issue the members that a short script leaves out.
func (p *Program) complete(issue *wire.Issue, text []byte) error {
	var given struct {
		Dispatchable *bool `json:"dispatchable"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	if given.Dispatchable == nil {
		issue.Dispatchable = !issue.Archived
	}
	if issue.Identifier == "" {
		issue.Identifier = issue.ID
	}
	for i := range issue.BlockedBy {
		b := &issue.BlockedBy[i]
		b.Known = b.Known || b.State != ""
	}
	issue.Tracker = Kind
	if tracker.Contains(p.trusted, string(issue.Author)) {
		issue.Trusted = new(true)
	}
	return p.rules.Normalise(issue)
}

func startError(err error) error {
	category := tracker.Unavailable
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		category = tracker.InvalidConfig
	}
	return &tracker.Error{Category: category, Message: "start the tracker's program", Err: err}
}

// judge turns the exit status into an error: they mean what they mean for os-poll.
func (p *Program) judge(r *proc.Reply) error {
	status := r.Exit.Status()
	if status == cli.StatusOK || status == cli.StatusData {
		return nil
	}
	e := tracker.Errorf(categoryOf(status), "%s %s", p.argv[0], ended(r.Exit, lastLine(p.said(r))))
	if e.Category == tracker.RateLimited {
		end, err := p.read(r.Out, func(*answer) error { return nil })
		if err == nil && end.limit != nil {
			e.RetryAt = end.limit.ResetAt.Time
		}
	}
	return e
}

// warnings are what it said although it ended well.
func (p *Program) warnings(r *proc.Reply) []tracker.Problem {
	var all []tracker.Problem
	for line := range strings.Lines(p.said(r)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, tracker.Problem{Where: p.argv[0], Message: line})
		}
	}
	return all
}

// said is the end of what it wrote to stderr, without the values that the
// configuration gave it.
func (p *Program) said(r *proc.Reply) string {
	said := proc.Tail(r.Err, maxStderr)
	for _, s := range p.secrets {
		said = strings.ReplaceAll(said, s, "***")
	}
	return said
}

func ended(exit proc.Exit, said string) string {
	if said == "" {
		return "ended with " + exit.String()
	}
	return fmt.Sprintf("ended with %s: %s", exit, said)
}

func categoryOf(status int) tracker.Category {
	switch status {
	case cli.StatusUsage, cli.StatusConfig, 126, 127: // the last two are the shell's, for a command that it cannot run
		return tracker.InvalidConfig
	case cli.StatusNoInput:
		return tracker.NotFound
	case cli.StatusUnavailable:
		return tracker.Unavailable
	case cli.StatusAuth:
		return tracker.Denied
	case cli.StatusTemporary:
		return tracker.RateLimited
	}
	return tracker.BadStatus
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
