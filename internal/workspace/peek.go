package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// lookAge is when the folder of a look without a lock must be a rest of one that was
// killed: a look takes no longer than gitLimit.
const lookAge = time.Hour

// Dirty is Unsaved for whoever only wants to tell of it and does not hold the issue's
// lock, so that it may be out of date once it is read. dirty is nil where there is no
// repository or no folder, and where nobody can say; err tells why then.
func (s *Store) Dirty(ctx context.Context, p Place) (dirty *bool, reason string, err error) {
	if _, err := os.Lstat(p.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err := s.tidyLooks(); err != nil {
		return nil, "", err
	}
	found, reason, err := unsaved(ctx, p, func(tree string) *gitLook {
		// Without marks: a run that begins now must not take this git for a rest of the last.
		return &gitLook{tree: tree, dir: filepath.Join(s.state.Looks(), rand.Text()), environ: s.config.Environ}
	})
	if err != nil || !found {
		return nil, "", err
	}
	dirty = new(bool)
	*dirty = reason != ""
	return dirty, reason, nil
}

// tidyLooks removes what looks have left that were killed.
func (s *Store) tidyLooks() error {
	entries, err := os.ReadDir(s.state.Looks())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tidy up after git: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || s.config.Now().Sub(info.ModTime()) < lookAge {
			continue // gone already, or in use
		}
		if err := os.RemoveAll(filepath.Join(s.state.Looks(), e.Name())); err != nil {
			return fmt.Errorf("tidy up after git: %w", err)
		}
	}
	return nil
}

// dirtyFact tells a hook whether there is work in the folder that is nowhere else: true,
// false, or nothing where nobody can say. The caller holds the lock.
func (s *Store) dirtyFact(ctx context.Context, p Place) string {
	found, reason, err := unsaved(ctx, p, func(tree string) *gitLook { return s.look(p, tree) })
	if err != nil || !found {
		return ""
	}
	return strconv.FormatBool(reason != "")
}
