// Package codex drives one session of a Codex app-server: it launches the program,
// speaks its protocol over two pipes, turns what happens into the events and the
// outcome of internal/wire, and ends the program again.
//
// Frames of the peer stay in here. It reads no flags, renders no prompt, asks no
// tracker and owns no run. A session belongs to one goroutine, which waits for
// frames, timers and requests to stop in one select; the goroutines beside it read
// and write frames and run host-side tools, and all have ended when Run returns.
package codex

import (
	"context"
	"encoding/json"
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// Harness is the name of this harness in routes and in conversation.json.
const Harness = "codex"

// contract names the protocol that a recorded thread can be resumed with.
const contract = "codex-app-server-v2"

// Config is one session.
type Config struct {
	session.Config

	Launch Launch
	Thread Thread

	Goal     string        // of the thread, whose server then makes turns by itself; "": none
	GoalWait time.Duration // for the next turn of an active goal; 0: no limit

	InputWait time.Duration // for the answer to a question, as ApprovalWait
	Tools     *toolbox.Box  // nil: none

	StartTimeout time.Duration // for initialize, thread/start and thread/resume
	ReadTimeout  time.Duration // for the answer to any other request
	// Sweep ends what outlived the app-server; nil does nothing.
	Sweep func(context.Context)
	// Schema says what an app-server of that version would not understand of our
	// requests, "" for nothing; nil: it is not asked. It runs beside the session, which
	// ends it by its context and never waits for its word.
	Schema func(ctx context.Context, version string) string

	dial func() (*peer, error) // tests: an app-server without a process
}

// Thread is how a thread is opened and its turns are run. Empty members are left to
// Codex.
type Thread struct {
	Model          string
	Effort         string
	ApprovalPolicy any            // a word or the granular object
	Sandbox        string         // read-only, workspace-write, danger-full-access
	WritableRoots  []string       // in workspace-write, besides the working folder
	TurnPolicy     map[string]any // the sandboxPolicy of each turn; nil: the thread's
	Overrides      map[string]any // more of Codex's configuration
}

// Run makes one session and returns its outcome, which has been written already. The
// outcome is nil where the session belongs to somebody else (a busy thread); the
// error says so then. Cancelling ctx is a polite stop.
func Run(ctx context.Context, cfg Config) (*wire.Outcome, error) {
	d := newDriver(ctx, cfg)
	defer d.Close()
	end := d.session(ctx)
	d.shutdown(end)
	return d.conclude(end)
}

// DryRun says what a session would do and makes nothing.
func DryRun(cfg Config) (*wire.Outcome, error) {
	return session.DryRun(cfg.Place, cfg.Emitter, cfg.planned(), cfg.Now())
}

func (c *Config) planned() *wire.Session {
	return &wire.Session{
		Route:          c.Route,
		Model:          wire.Text(c.Thread.Model),
		Effort:         wire.Text(c.Thread.Effort),
		Cwd:            c.Place.Workspace.Path,
		Sandbox:        wire.Text(c.Thread.Sandbox),
		ApprovalPolicy: policyText(c.Thread.ApprovalPolicy),
		Peer:           &wire.Peer{Name: Harness},
	}
}

// policyText is an approval policy for people: the word, or the object as JSON.
func policyText(policy any) wire.Text {
	switch p := policy.(type) {
	case nil:
		return ""
	case string:
		return wire.Text(p)
	}
	b, err := json.Marshal(policy)
	if err != nil {
		return ""
	}
	return wire.Text(b)
}
