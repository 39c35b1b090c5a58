package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// HookError is the error of a hook that had to succeed.
type HookError struct{ Result HookResult }

func (e *HookError) Error() string {
	r := e.Result
	how := "was cancelled"
	switch {
	case r.Status == HookTimedOut && r.Error != "":
		how = fmt.Sprintf("timed out: %s", r.Error)
	case r.Status == HookTimedOut:
		how = "timed out"
	case r.ExitCode != nil:
		how = fmt.Sprintf("ended with status %d", *r.ExitCode)
	case r.Status == HookFailed && r.Error != "":
		how = fmt.Sprintf("did not run: %s", r.Error)
	case r.Signal != "":
		how = fmt.Sprintf("was ended by %s", r.Signal)
	}
	return fmt.Sprintf("%s hook %s%s", r.Name, how, r.lastLine())
}

// Ensure makes the folder of p and brings it up: after_create runs until it has
// succeeded once, and that is on disk before anything else can fail. The caller
// holds the issue's lock. A failed hook is a *HookError, what is in the way a
// *state.Refusal. results has the hook that ran, if any.
func (s *Store) Ensure(ctx context.Context, p Place, logs func(hook string) string) (created bool, results []HookResult, err error) {
	m, err := s.manifest(p)
	if err != nil {
		return false, nil, err
	}
	if err := s.forget(p, m); err != nil {
		return false, nil, err
	}
	created, err = s.makeFolder(p)
	if err != nil {
		return created, nil, err
	}
	now := wire.At(s.config.Now())
	if m == nil {
		m = &Manifest{ID: p.Issue.ID, Identifier: p.Issue.Identifier, Key: p.Key, Path: p.Path, Root: s.root, CreatedAt: now}
	}
	m.Title, m.State, m.UpdatedAt, m.LastSeenAt = p.Issue.Title, p.Issue.State, now, now
	if err := state.WriteJSON(p.Dir.IssueFile(), m); err != nil {
		return created, nil, err
	}
	if !m.AfterCreateDoneAt.IsZero() {
		return created, nil, nil
	}
	if results, err = s.bootstrap(ctx, p, logs); err != nil {
		return created, results, err
	}
	m.AfterCreateDoneAt = wire.At(s.config.Now())
	return created, results, state.WriteJSON(p.Dir.IssueFile(), m)
}

// forget takes the success of after_create back where the folder was removed by hand,
// and finishes a removal that was cut off. It is on disk before the folder is there
// again: if we are killed in between, an empty folder must not look ready.
func (s *Store) forget(p Place, m *Manifest) error {
	if m != nil && !m.RemovingAt.IsZero() {
		if err := s.clear(p.Dir, m); err != nil {
			return err
		}
		m.RemovingAt, m.BeforeRemove = wire.Time{}, nil
		return state.WriteJSON(p.Dir.IssueFile(), m)
	}
	if m == nil || m.AfterCreateDoneAt.IsZero() {
		return nil
	}
	if _, err := os.Lstat(p.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil // makeFolder looks closer
	}
	m.AfterCreateDoneAt = wire.Time{}
	return state.WriteJSON(p.Dir.IssueFile(), m)
}

// Ready tells whether p was brought up, that is, whether after_create has succeeded in
// its folder. begun tells that it was at least tried, and that something of the try may
// be alive.
func (s *Store) Ready(p Place) (ready, begun bool, err error) {
	m, err := s.manifest(p)
	if err != nil || m == nil {
		return false, false, err
	}
	_, err = os.Lstat(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, true, nil
	}
	return err == nil && !m.AfterCreateDoneAt.IsZero(), true, err
}

func (s *Store) makeFolder(p Place) (created bool, err error) {
	err = os.Mkdir(p.Path, 0o755)
	created = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make workspace: %w", err)
	}
	if !created {
		if err := s.checkSpelling(p); err != nil {
			return false, err
		}
	}
	real, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return created, fmt.Errorf("resolve workspace: %w", err)
	}
	if real != p.Path {
		return created, &state.Refusal{Path: p.Path, Reason: fmt.Sprintf("leads out of the workspace root, to %q", real)}
	}
	if fi, err := os.Lstat(p.Path); err != nil || !fi.IsDir() {
		return created, &state.Refusal{Path: p.Path, Reason: "is not a folder"}
	}
	return created, nil
}

func (s *Store) bootstrap(ctx context.Context, p Place, logs func(string) string) ([]HookResult, error) {
	r := s.RunHook(ctx, p, "after_create", logs("after_create"), nil)
	if r == nil {
		return nil, nil
	}
	if !r.Succeeded() {
		return []HookResult{*r}, &HookError{*r}
	}
	return []HookResult{*r}, nil
}

// RunHook runs the hook of this name in p's folder, or returns nil where the
// workflow has none. facts are added to the OS_* variables that every hook gets.
func (s *Store) RunHook(ctx context.Context, p Place, name, log string, facts map[string]string) *HookResult {
	script := map[string]string{
		"after_create":  s.config.Hooks.AfterCreate,
		"before_run":    s.config.Hooks.BeforeRun,
		"after_run":     s.config.Hooks.AfterRun,
		"before_remove": s.config.Hooks.BeforeRemove,
	}[name]
	if strings.TrimSpace(script) == "" {
		return nil
	}
	env := map[string]string{
		"OS_HOOK":        name,
		"OS_WORKSPACE":   p.Path,
		"OS_STATE_DIR":   string(p.Dir),
		"OS_WORKFLOW":    s.config.Workflow,
		"OS_KEY":         p.Key,
		"OS_ISSUE_ID":    p.Issue.ID,
		"OS_IDENTIFIER":  p.Issue.Identifier,
		"OS_ISSUE_TITLE": p.Issue.Title,
		"OS_ISSUE_STATE": p.Issue.State,
	}
	if name == "before_run" {
		env["OS_DIRTY"] = s.dirtyFact(ctx, p)
	}
	maps.Copy(env, facts)
	for k, v := range env {
		env[k] = fact(v)
	}
	r := s.runLocked(ctx, p, Hook{
		Name: name, Script: script, Dir: p.Path, LogPath: log,
		Env: HookEnv(s.config.Environ, s.config.Hooks.Env, env), Timeout: s.config.Hooks.Timeout,
	})
	return &r
}

// fact makes a tracker's text fit for a variable: the kernel takes no NUL and no more
// than 128 KiB, and a title must not keep a hook from starting.
func fact(text string) string {
	const limit = 32 << 10
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
