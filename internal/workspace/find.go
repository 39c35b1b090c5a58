package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// ErrNotFound is the error of a workspace that nobody made.
var ErrNotFound = errors.New("no such workspace")

// ErrElsewhere is the error of a workspace that was made in another root than the
// store's. Only Remove takes it.
var ErrElsewhere = errors.New("outside this root")

// Entry is one workspace as it lies on disk, or why it cannot be read.
type Entry struct {
	Dir      state.Dir
	Manifest Manifest
	Err      error
}

// Key is the name of the entry's folders.
func (e Entry) Key() string { return filepath.Base(string(e.Dir)) }

// Place returns where the entry's issue works. Of the issue it has what the
// manifest keeps.
func (e Entry) Place() Place {
	m := e.Manifest
	issue := &wire.Issue{ID: m.ID, Identifier: m.Identifier, Title: m.Title, State: m.State, UpdatedAt: m.LastSeenAt}
	return Place{Issue: issue, Key: m.Key, Path: m.Path, Dir: e.Dir}
}

// Entries returns every workspace of the store, ordered by key. One that cannot be
// read has its Err and hides no other. State folders without a manifest belong to
// issues that were never brought up and are left out.
func (s *Store) Entries() ([]Entry, error) {
	folders, err := os.ReadDir(s.state.Issues())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var entries []Entry
	for _, f := range folders {
		if e := s.Entry(f.Name()); !errors.Is(e.Err, ErrNotFound) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// Entry returns the workspace of this key. Where there is none its Err is an
// ErrNotFound.
func (s *Store) Entry(key string) Entry {
	e := Entry{Dir: s.state.Issue(key)}
	e.Err = state.ReadJSON(e.Dir.IssueFile(), &e.Manifest)
	switch m := e.Manifest; {
	case errors.Is(e.Err, fs.ErrNotExist):
		e.Err = fmt.Errorf("%w: %q", ErrNotFound, key)
	case e.Err != nil:
	case m.Key != key:
		e.Err = &state.Refusal{Path: e.Dir.IssueFile(), Reason: fmt.Sprintf("is the manifest of key %q", m.Key)}
	case m.Path != filepath.Join(s.root, m.Key):
		e.Err = fmt.Errorf("%q speaks of the folder %q %w", e.Dir.IssueFile(), m.Path, ErrElsewhere)
	}
	return e
}

// Find returns the workspace that ref names: an identifier in any letter case, an
// issue id or a key. An exact match wins. None is an ErrNotFound.
func (s *Store) Find(ref string) (Entry, error) {
	entries, err := s.Entries()
	if err != nil {
		return Entry{}, err
	}
	matches := []func(Entry) bool{
		func(e Entry) bool { return e.Manifest.Identifier == ref },
		func(e Entry) bool { return e.Key() == ref },
		func(e Entry) bool { return e.Manifest.ID == ref },
		func(e Entry) bool { return strings.EqualFold(e.Manifest.Identifier, ref) },
	}
	for _, match := range matches {
		for _, e := range entries {
			if match(e) {
				return e, e.Err
			}
		}
	}
	return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, ref)
}
