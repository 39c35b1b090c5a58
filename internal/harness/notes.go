package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	notesLimit  = 30 * time.Second // for os-poll, which may have to wait for a tracker
	notesReason = 1 << 10          // bytes that are quoted of its stderr
)

// Notes returns what asks os-poll for the newest notes that an agent has left at the
// issue, "" for none. It is nil where there is no issue, or no tracker that could know
// it. What it returns has no secrets in it.
func (c *Command) Notes(ws *wire.Workspace) func(context.Context) (string, error) {
	if ws.Issue == nil || c.Workflow.Path == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, notesLimit, fmt.Errorf("os-poll gave no answer within %v", notesLimit))
		defer cancel()
		r, err := proc.Ask(ctx, proc.Spec{
			Argv: []string{"os-poll", "comment", "latest", ws.Issue.ID}, Dir: c.Env.Dir, Env: proc.Environ(c.HostEnv(), nil, map[string]string{"PATH": proc.SearchPath(c.Env.Getenv("PATH"))}),
		}, nil)
		if err != nil {
			return "", fmt.Errorf("ask for the notes at the issue: %v", err)
		}
		defer r.Close()
		text, err := readNotes(r)
		return session.Redact(text, c.output().Secrets), err
	}
}

// readNotes returns the body of the comment that os-poll has printed.
func readNotes(r *proc.Reply) (string, error) {
	if !r.Exit.Success() {
		return "", fmt.Errorf("ask for the notes at the issue: os-poll ended with %v: %s", r.Exit, strings.TrimSpace(proc.Tail(r.Err, notesReason)))
	}
	if _, err := r.Out.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the notes at the issue: %v", err)
	}
	line, err := wire.NewReader(r.Out, wire.MaxRecord).Next()
	if err == io.EOF {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the notes at the issue: %v", err)
	}
	rec, err := wire.Decode(bytes.TrimSpace(line.Bytes), "")
	if err != nil {
		return "", fmt.Errorf("read the notes at the issue: %v", err)
	}
	comment, ok := rec.(*wire.Comment)
	if !ok { // the issue is gone
		return "", nil
	}
	return comment.Body, nil
}
