package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ostoolkit/internal/state"
)

// archiveStamp is how the id of an archive begins; archiveID is its whole length, as of
// state.NewRunID.
const (
	archiveStamp = "20060102-150405"
	archiveID    = len(archiveStamp + "-000-00000000")
)

// Archive is the state of a workspace that was removed.
type Archive struct {
	Dir state.Dir
	Key string
	At  time.Time // when it was removed
	// Manifest is what the folder was; with Err it could not be read, and is a guess.
	Manifest Manifest
	Err      error
}

// Place returns where the archive's issue worked, with the archive for its state.
func (a Archive) Place() Place {
	p := Entry{Dir: a.Dir, Manifest: a.Manifest}.Place()
	p.Key = a.Key
	return p
}

// Archives returns what was put aside, ordered by key and time. What does not have the
// name of an archive is left out: it is not ours.
func (s *Store) Archives() ([]Archive, error) {
	folders, err := os.ReadDir(s.state.Removed())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list removed workspaces: %w", err)
	}
	var all []Archive
	for _, f := range folders {
		key, at, ok := splitArchive(f.Name())
		if !ok || !f.IsDir() {
			continue
		}
		a := Archive{Dir: state.Dir(filepath.Join(s.state.Removed(), f.Name())), Key: key, At: at}
		if a.Err = state.ReadJSON(a.Dir.IssueFile(), &a.Manifest); a.Err != nil {
			a.Manifest = Manifest{Path: filepath.Join(s.root, key)}
		}
		all = append(all, a)
	}
	return all, nil
}

// splitArchive takes the name of an archive apart: KEY-ID.
func splitArchive(name string) (key string, at time.Time, ok bool) {
	cut := len(name) - archiveID - 1
	if cut < 1 || name[cut] != '-' {
		return "", time.Time{}, false
	}
	at, err := time.Parse(archiveStamp, name[cut+1:][:len(archiveStamp)])
	return name[:cut], at, err == nil
}

// ArchiveDir is where Remove puts the state of the workspace of this key.
func (s *Store) ArchiveDir(key, id string) state.Dir {
	return state.Dir(filepath.Join(s.state.Removed(), key+"-"+id))
}

// Prune deletes an archive. Two at once do no harm.
func (s *Store) Prune(a Archive) error {
	if err := state.RemoveTree(string(a.Dir)); err != nil {
		return fmt.Errorf("delete the state of a removed workspace: %w", err)
	}
	return nil
}
