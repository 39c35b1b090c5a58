package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// RemoveOptions says how Remove is to go about it.
type RemoveOptions struct {
	Force bool   // also where work would be lost
	ID    string // tells this removal from others of the same key, as from state.NewRunID
}

// Unsaved is the refusal to remove a folder with work that is nowhere else.
type Unsaved struct{ Path, Reason string }

func (u *Unsaved) Error() string { return fmt.Sprintf("%q %s", u.Path, u.Reason) }

// Remove runs before_remove, deletes the folder that e's manifest names, and moves the
// state folder with its logs to the removed ones. The caller holds the issue's lock and
// has settled its last run. Work that is nowhere else is an *Unsaved, a folder that is
// not plainly ours a *state.Refusal; nothing was touched then. The result is that of
// the hook, whose failure stops nothing, or nil where none ran.
//
// A removal that was cut off is finished by the next Remove, or undone as if the
// folder had been deleted by hand by the next Ensure.
func (s *Store) Remove(ctx context.Context, e Entry, o RemoveOptions) (hook *HookResult, err error) {
	var m Manifest // read again: e may be older than the lock
	err = state.ReadJSON(e.Dir.IssueFile(), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, e.Manifest.Identifier)
	}
	if err != nil {
		return nil, err
	}
	e.Manifest = m
	there, err := s.contained(e.Dir, &m)
	if err != nil {
		return nil, err
	}
	if there && m.RemovingAt.IsZero() {
		if hook, err = s.leave(ctx, e.Place(), o); err != nil {
			return hook, err
		}
		m.BeforeRemove = hook
	}
	if err := s.condemn(e.Dir, &m); err != nil {
		return hook, err
	}
	if err := s.clear(e.Dir, &m); err != nil {
		return hook, err
	}
	return hook, s.archive(e, o.ID)
}

// leave is what comes before the folder is touched: nothing may be lost, and the hook
// has its say. The hook comes second, since it may well take the folder away itself.
func (s *Store) leave(ctx context.Context, p Place, o RemoveOptions) (*HookResult, error) {
	if !o.Force {
		reason, err := s.Unsaved(ctx, p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			reason = "may hold work that is nowhere else: " + err.Error()
		}
		if reason != "" {
			return nil, &Unsaved{Path: p.Path, Reason: reason}
		}
	}
	hook := s.RunHook(ctx, p, "before_remove", filepath.Join(string(p.Dir), "before_remove.log"), nil)
	if ctx.Err() != nil {
		return hook, context.Cause(ctx)
	}
	return hook, nil
}

// condemn writes down that the folder is not to be looked at any more. From then on
// half a folder is taken neither for work nor for one that is ready.
func (s *Store) condemn(dir state.Dir, m *Manifest) error {
	if !m.RemovingAt.IsZero() {
		return nil
	}
	m.RemovingAt, m.AfterCreateDoneAt = wire.At(s.config.Now()), wire.Time{}
	return state.WriteJSON(dir.IssueFile(), m)
}

// clear deletes the folder, having looked once more whose it is.
func (s *Store) clear(dir state.Dir, m *Manifest) error {
	there, err := s.contained(dir, m)
	if err != nil || !there {
		return err
	}
	if err := state.RemoveTree(m.Path); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return nil
}

// archive moves the state folder out of the way in one step.
func (s *Store) archive(e Entry, id string) error {
	if err := state.MakeDir(s.state.Removed()); err != nil {
		return err
	}
	if err := os.Rename(string(e.Dir), string(s.ArchiveDir(e.Manifest.Key, id))); err != nil {
		return fmt.Errorf("put the state of the workspace aside: %w", err)
	}
	return nil
}

// contained checks that the folder of a manifest is the one that its identifier has in
// the root that it records, and that this root is ours. It tells whether the folder is
// there. The root need not be the store's: the workflow may name another one by now.
func (s *Store) contained(dir state.Dir, m *Manifest) (there bool, err error) {
	key, err := state.Key(m.Identifier)
	if err != nil || key != m.Key || key != filepath.Base(string(dir)) || m.Path != filepath.Join(m.Root, key) || !filepath.IsAbs(m.Root) {
		return false, &state.Refusal{Path: dir.IssueFile(), Reason: fmt.Sprintf("speaks of the folder %q, which is not that of issue %q in %q", m.Path, m.Identifier, m.Root)}
	}
	if there, err := s.rootOf(m); err != nil || !there {
		return false, err
	}
	switch fi, err := os.Lstat(m.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at workspace: %w", err)
	case fi.Mode()&os.ModeSymlink != 0:
		return false, &state.Refusal{Path: m.Path, Reason: "is a symbolic link"}
	case !fi.IsDir():
		return false, &state.Refusal{Path: m.Path, Reason: "is not a folder"}
	}
	return true, nil
}

// rootOf tells whether the recorded root is there, and refuses one that is a link by
// now or that another state root owns.
func (s *Store) rootOf(m *Manifest) (there bool, err error) {
	real, err := filepath.EvalSymlinks(m.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("resolve workspace root: %w", err)
	}
	if real != m.Root {
		return false, &state.Refusal{Path: m.Root, Reason: fmt.Sprintf("leads to %q", real)}
	}
	// Claim would make the file where it is missing, in a root that nobody opened.
	if _, err := os.Lstat(filepath.Join(m.Root, state.OwnerFile)); err != nil {
		return false, &state.Refusal{Path: m.Root, Reason: "does not say whose workspace root it is"}
	}
	return true, state.Claim(m.Root, s.owner())
}
