package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/run"
	"ostoolkit/internal/state"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
	"ostoolkit/internal/workspace"
)

// show prints one workspace, or one of its paths.
func (c *command) show(ctx context.Context) error {
	entry, err := c.store.Find(c.ref)
	if errors.Is(err, workspace.ErrNotFound) {
		return cli.WithHint(cli.Errorf(cli.StatusNoInput, "%w", err), "os-workspace list")
	}
	if err != nil {
		return stateError(err)
	}
	if c.field == "" {
		c.dirty = true
		rec, err := c.listing(ctx, entry, nil)
		if err != nil {
			return stateError(err)
		}
		return c.out.Write(rec)
	}
	path, err := c.path(entry)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.env.Stdout, path+"\n")
	return err
}

func (c *command) path(entry workspace.Entry) (string, error) {
	switch c.field {
	case "path":
		return entry.Manifest.Path, nil
	case "mailbox":
		return entry.Dir.Mailbox(), nil
	case "state":
		return string(entry.Dir), nil
	}
	m, err := run.ReadManifest(entry.Dir)
	if err != nil {
		return "", stateError(err)
	}
	if m == nil {
		return "", cli.Errorf(cli.StatusNoInput, "issue %q has no run yet", entry.Manifest.Identifier)
	}
	return string(entry.Dir.Run(m.RunID)), nil
}

// list prints every workspace; one that cannot be read hides no other.
func (c *command) list(ctx context.Context) error {
	entries, holders, err := c.survey()
	if err != nil {
		return stateError(err)
	}
	damaged := false
	for _, e := range entries {
		rec, err := c.listing(ctx, e, holders)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			damaged = true
			c.env.Errorf("%v", err)
			continue
		}
		if err := c.out.Write(rec); err != nil {
			return err
		}
	}
	if damaged {
		return cli.Exit(cli.StatusState)
	}
	return nil
}

// survey returns all workspaces, and who holds their locks.
func (c *command) survey() ([]workspace.Entry, map[string][]proc.Process, error) {
	entries, err := c.store.Entries()
	if err != nil {
		return nil, nil, err
	}
	locks := make([]string, len(entries))
	for i, e := range entries {
		locks[i] = e.Dir.Lock()
	}
	holders, err := proc.HoldersOf(locks)
	if err != nil {
		return nil, nil, fmt.Errorf("look for held locks: %v", err)
	}
	return entries, holders, nil
}

// listing is the record of one entry. holders may be nil, then it looks itself.
func (c *command) listing(ctx context.Context, e workspace.Entry, holders map[string][]proc.Process) (*wire.Workspace, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if holders == nil {
		var err error
		if holders, err = proc.HoldersOf([]string{e.Dir.Lock()}); err != nil {
			return nil, fmt.Errorf("look for the lock's holder: %v", err)
		}
	}
	rec := e.Place().Record()
	locked := len(holders[e.Dir.Lock()]) > 0
	m, err := run.ReadManifest(e.Dir)
	if err != nil {
		return nil, err
	}
	if m != nil {
		rec.Attempt = m.Attempt
		rec.Run = &wire.RunRef{ID: m.RunID, Attempt: m.Attempt, StartedAt: m.StartedAt}
		rec.Run.Status, rec.Run.Outcome = verdict(e.Dir, m, locked)
	}
	if err := c.complete(rec.Issue); err != nil {
		return nil, fmt.Errorf("%q is damaged: it has no identifier", e.Dir.IssueFile())
	}
	rec.Listing = &wire.Listing{Locked: locked, Category: rec.Issue.Category, LastSeenAt: e.Manifest.LastSeenAt}
	rec.Conversation, rec.Harness = c.conversation(e.Dir)
	return rec, c.look(ctx, e.Place(), rec.Listing)
}

// look adds what takes a look into the folder. A git tree that nobody can judge is a
// warning and no more.
func (c *command) look(ctx context.Context, p workspace.Place, l *wire.Listing) error {
	if c.dirty {
		dirty, _, err := c.store.Dirty(ctx, p)
		if err != nil && ctx.Err() == nil {
			c.env.Warnf("issue %q: look into its folder: %v", p.Issue.Identifier, err)
		}
		l.Dirty = dirty
	}
	if c.du {
		return c.measure(ctx, p.Path, l)
	}
	return nil
}

func (c *command) measure(ctx context.Context, dir string, l *wire.Listing) error {
	bytes, err := workspace.DiskUsage(ctx, dir)
	l.Bytes = &bytes
	return err
}

// verdict tells how a run stands, by the lock and by what it left: a run without an
// owner has ended if it left an outcome, else it was interrupted.
func verdict(dir state.Dir, m *run.Manifest, locked bool) (status, outcome string) {
	if m.Status == run.Ended || locked {
		return m.Status, string(m.Outcome)
	}
	out, err := run.Recorded(dir, m.RunID)
	if err != nil || out == nil {
		return wire.Interrupted, ""
	}
	return run.Ended, out.Outcome
}

// conversation returns what is known of the session, or nil, and of which harness it is.
func (c *command) conversation(dir state.Dir) (*wire.Conversation, string) {
	var conv struct {
		wire.Conversation
		Contract string `json:"contract"`
	}
	err := state.ReadJSON(dir.Conversation(), &conv)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.env.Warnf("%v", err)
	}
	if err != nil {
		return nil, wire.HarnessUnknown
	}
	if conv.Harness == "" {
		// The contract names the peer: codex-app-server-v2.
		conv.Harness, _, _ = strings.Cut(conv.Contract, "-")
	}
	conv.Harness = cmp.Or(conv.Harness, wire.HarnessUnknown)
	return &conv.Conversation, conv.Harness
}

// category is that of a state by the workflow's lists, or by those of the folder board
// and Linear where it has none.
func (c *command) category(name string) string {
	rules := tracker.Rules{Active: c.flow.Tracker.ActiveStates, Terminal: c.flow.Tracker.TerminalStates}
	if rules.Active == nil {
		rules.Active = workflow.DefaultActive()
	}
	if rules.Terminal == nil {
		rules.Terminal = workflow.DefaultTerminal()
	}
	return rules.Category(name)
}
