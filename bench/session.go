package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ostoolkit/internal/peertest"
)

const sessionGoal = 30 * time.Millisecond

// server is an app-server to be talked to, as words and as a command line.
type server struct {
	name string
	argv []string
}

func (s *server) line() string {
	line := ""
	for _, word := range s.argv {
		line += quote(word) + " "
	}
	return line
}

// sessions measures what os-codex adds to a session of one turn, against a client
// that does nothing but ask.
func sessions(ctx context.Context, r *rig) ([]row, error) {
	rehearsal := &server{"rehearse", []string{r.path("bin", "os-codex"), "rehearse", "--run", "cat"}}
	line, err := r.compareSessions(ctx, rehearsal, r.rounds(20, 5))
	if err != nil {
		return nil, err
	}
	rows := []row{line}
	program := filepath.Join(r.module, ".peers", "codex", "node_modules", ".bin", "codex")
	if _, err := os.Stat(program); err != nil {
		return append(rows, skipped("session on the real Codex", "no codex: run make peers")), nil
	}
	model, err := peertest.StartModel(peertest.ModelOptions{})
	if err != nil {
		return rows, err
	}
	line, err = r.compareSessions(ctx, realCodex(program, model.URL()), r.rounds(20, 5))
	if err = errors.Join(err, model.Close()); err != nil {
		return rows, err
	}
	return append(rows, line), nil
}

// realCodex is the real app-server with the scripted model for its provider.
func realCodex(program, url string) *server {
	provider := fmt.Sprintf(`model_providers.lab={name="lab",base_url="%s",wire_api="responses",request_max_retries=1,stream_max_retries=1}`, url)
	return &server{"real Codex", []string{program, "app-server", "-c", `model="scripted"`, "-c", `model_provider="lab"`, "-c", provider}}
}

func (r *rig) compareSessions(ctx context.Context, on *server, rounds int) (row, error) {
	s, err := inTurn(ctx, rounds,
		task{"bare client", func(ctx context.Context) (time.Duration, error) { return r.bare(ctx, on) }},
		task{"os-codex", func(ctx context.Context) (time.Duration, error) { return r.whole(ctx, on) }})
	if err != nil {
		return row{}, fmt.Errorf("%s: %w", on.name, err)
	}
	return overhead("session on "+on.name, s[1].median(), s[0].median()), nil
}

// bare is one session of the bare client, from the fork to the server's end.
func (r *rig) bare(ctx context.Context, on *server) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(r.dir, "bare-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := r.command(ctx, on.argv[0], on.argv[1:]...)
	cmd.Dir = dir
	from := time.Now()
	err = bareSession(cmd, dir)
	return time.Since(from), err
}

func (r *rig) whole(ctx context.Context, on *server) (took time.Duration, err error) {
	cmd, tidy, err := r.codexSession(ctx, on.line())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tidy()) }()
	return timed(cmd)
}
