// Package workspace makes, checks and finds the agents' folders: one below the
// workspace root for each issue, with nothing of ours in it, and a state folder
// beside the root that says whose it is.
//
// It does not know runs (internal/run does). Its methods may be used from several
// goroutines; those that change a folder want the issue's lock held by the caller,
// which is what keeps processes apart.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Config is what a Store is opened with.
type Config struct {
	Root      string // absolute; made where it is missing
	StateRoot string // absolute, or "" for the default below StateHome
	StateHome string // XDG_STATE_HOME, "" for Home's default
	Home      string
	Host      string // this machine's name, for the owner file
	UID       int
	Unsafe    bool // state may lie on a network file system
	Hooks     workflow.Hooks
	Workflow  string   // path of WORKFLOW.md for hooks, or ""
	Environ   []string // what hooks get a part of
	Now       func() time.Time
}

// Store is one workspace root with its state root.
type Store struct {
	root   string // canonical
	state  state.Root
	config Config
}

// Open makes the two roots where they are missing, checks that they may be used and
// claims them. Whatever is in the way is a *state.Refusal.
func Open(c Config) (*Store, error) {
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return nil, fmt.Errorf("make workspace root: %w", err)
	}
	root, err := filepath.EvalSymlinks(c.Root)
	if err != nil {
		return nil, fmt.Errorf("resolve workspace root: %w", err)
	}
	s := &Store{root: root, state: state.Root(c.StateRoot), config: c}
	if c.StateRoot == "" {
		s.state = state.DefaultRoot(root, c.StateHome, c.Home)
	}
	if err := state.MakeDir(string(s.state)); err != nil {
		return nil, err
	}
	if err := os.Chmod(string(s.state), 0o700); err != nil {
		return nil, fmt.Errorf("close state root to others: %w", err)
	}
	canonical, err := filepath.EvalSymlinks(string(s.state))
	if err != nil {
		return nil, fmt.Errorf("resolve state root: %w", err)
	}
	s.state = state.Root(canonical)
	if err := s.checkRoots(); err != nil {
		return nil, err
	}
	me := state.Owner{StateRoot: canonical, Host: c.Host, UID: c.UID, CreatedAt: wire.At(c.Now())}
	return s, state.Claim(root, me)
}

// checkRoots refuses a state root that an agent could reach, or whose locks may not
// hold.
func (s *Store) checkRoots() error {
	if within(s.root, string(s.state)) {
		return &state.Refusal{Path: string(s.state), Reason: fmt.Sprintf("lies in the workspace root %q, where agents can write", s.root)}
	}
	if within(string(s.state), s.root) {
		return &state.Refusal{Path: s.root, Reason: fmt.Sprintf("lies in the state root %q", s.state)}
	}
	if fs := state.NetworkFS(string(s.state)); fs != "" && !s.config.Unsafe {
		return &state.Refusal{Path: string(s.state), Reason: fmt.Sprintf("lies on a network file system (%s), whose locks may not hold; --state-unsafe allows it", fs)}
	}
	return nil
}

// within reports whether path is dir or lies in it, by whole components.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Root is the canonical workspace root.
func (s *Store) Root() string { return s.root }

// State is the canonical state root.
func (s *Store) State() state.Root { return s.state }

// Manifest is issue.json: whose folder this is.
type Manifest struct {
	ID                string    `json:"id"`
	Identifier        string    `json:"identifier"`
	Title             string    `json:"title"`
	State             string    `json:"state"`
	Key               string    `json:"key"`
	Path              string    `json:"path"`
	Root              string    `json:"root"`
	CreatedAt         wire.Time `json:"created_at"`
	UpdatedAt         wire.Time `json:"updated_at"`
	LastSeenAt        wire.Time `json:"last_seen_at"`
	AfterCreateDoneAt wire.Time `json:"after_create_done_at"`
}

// Place is where an issue's work happens.
type Place struct {
	Issue *wire.Issue
	Key   string
	Path  string // the agent's folder
	Dir   state.Dir
}

// Record returns the workspace record of the place.
func (p Place) Record() *wire.Workspace {
	return &wire.Workspace{Issue: p.Issue, Key: p.Key, Path: p.Path, StateDir: string(p.Dir)}
}

// Place computes where issue belongs. It touches nothing.
func (s *Store) Place(issue *wire.Issue) (Place, error) {
	key, err := state.Key(issue.Identifier)
	if err != nil {
		return Place{}, err
	}
	return Place{Issue: issue, Key: key, Path: filepath.Join(s.root, key), Dir: s.state.Issue(key)}, nil
}

// Check refuses a place that is somebody else's or is not a plain folder. It
// touches nothing. A place that is not there yet is fine.
func (s *Store) Check(p Place) error {
	for _, path := range []string{string(p.Dir), p.Path} {
		switch fi, err := os.Lstat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at workspace: %w", err)
		case fi.Mode()&os.ModeSymlink != 0:
			return &state.Refusal{Path: path, Reason: "is a symbolic link"}
		case !fi.IsDir():
			return &state.Refusal{Path: path, Reason: "is not a folder"}
		}
	}
	_, err := s.manifest(p)
	return err
}

// manifest reads issue.json and checks that it speaks of p. Without one it returns
// nil.
func (s *Store) manifest(p Place) (*Manifest, error) {
	var m Manifest
	err := state.ReadJSON(p.Dir.IssueFile(), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.ID != p.Issue.ID || m.Identifier != p.Issue.Identifier {
		return nil, &state.Refusal{Path: p.Dir.IssueFile(), Reason: fmt.Sprintf("belongs to issue %q (%s), not to %q (%s)",
			m.Identifier, m.ID, p.Issue.Identifier, p.Issue.ID)}
	}
	if m.Path != p.Path {
		return nil, &state.Refusal{Path: p.Dir.IssueFile(), Reason: fmt.Sprintf("speaks of the folder %q, not of %q", m.Path, p.Path)}
	}
	return &m, nil
}

// HookError is the error of a hook that had to succeed.
type HookError struct{ Result HookResult }

func (e *HookError) Error() string {
	r := e.Result
	how := "was cancelled"
	switch {
	case r.Status == "timed_out":
		how = "timed out"
	case r.ExitCode != nil:
		how = fmt.Sprintf("ended with status %d", *r.ExitCode)
	case r.Signal != "":
		how = fmt.Sprintf("was ended by %s", r.Signal)
	}
	return fmt.Sprintf("%s hook %s", r.Name, how)
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
	created, err = s.makeFolder(p)
	if err != nil {
		return created, nil, err
	}
	now := wire.At(s.config.Now())
	if m == nil {
		m = &Manifest{ID: p.Issue.ID, Identifier: p.Issue.Identifier, Key: p.Key, Path: p.Path, Root: s.root, CreatedAt: now}
	}
	if created {
		// The folder is new although the manifest may be old: it was removed by hand.
		m.AfterCreateDoneAt = wire.Time{}
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

func (s *Store) makeFolder(p Place) (created bool, err error) {
	err = os.Mkdir(p.Path, 0o755)
	created = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make workspace: %w", err)
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
	if r.Status != "succeeded" {
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
	for k, v := range facts {
		env[k] = v
	}
	r := RunHook(ctx, Hook{
		Name: name, Script: script, Dir: p.Path, LogPath: log,
		Env: HookEnv(s.config.Environ, s.config.Hooks.Env, env), Timeout: s.config.Hooks.Timeout,
	}, s.config.Now)
	return &r
}
