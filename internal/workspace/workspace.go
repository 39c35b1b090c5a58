// Package workspace makes, checks and finds the agents' folders: one below the
// workspace root for each issue, with nothing of ours in it, and a state folder
// beside the root that says whose it is.
//
// It does not know runs (internal/run does). Its methods may be used from several
// goroutines; those that change a folder want the issue's lock held by the caller,
// which is what keeps processes apart.
package workspace

import (
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
	// Waits is told when a hook of p has to wait for the lock file lock; nil: nobody is.
	Waits func(p Place, hook, lock string)
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
	if err := s.resolveState(); err != nil {
		return nil, err
	}
	if err := s.checkRoots(); err != nil {
		return nil, err
	}
	return s, state.Claim(root, s.owner())
}

func (s *Store) resolveState() error {
	canonical, err := filepath.EvalSymlinks(string(s.state))
	if err != nil {
		return fmt.Errorf("resolve state root: %w", err)
	}
	s.state = state.Root(canonical)
	return nil
}

// owner is who we are to a workspace root.
func (s *Store) owner() state.Owner {
	return state.Owner{StateRoot: string(s.state), Host: s.config.Host, UID: s.config.UID, CreatedAt: wire.At(s.config.Now())}
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
	fi, err := os.Stat(string(s.state))
	if err != nil {
		return fmt.Errorf("look at state root: %w", err)
	}
	if others := fi.Mode().Perm() & 0o022; others != 0 {
		return &state.Refusal{Path: string(s.state), Reason: fmt.Sprintf("can be written by others (mode %v); state wants a folder of its own", fi.Mode())}
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
	// RemovingAt says that the folder is being deleted: what is left of it is nobody's
	// work any more.
	RemovingAt   wire.Time   `json:"removing_at,omitzero"`
	BeforeRemove *HookResult `json:"before_remove,omitempty"`
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
	m, err := s.manifest(p)
	if err != nil || m != nil && !m.AfterCreateDoneAt.IsZero() {
		return err // a folder that is ready was found to be ours when it was made
	}
	return s.checkSpelling(p)
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
