package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ostoolkit/internal/state"
)

// The levels of a Finding.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it works, and somebody should know
	FindingError   = "error"   // it does not work, or not for long
)

const (
	lowBytes  = 1 << 30 // free on a file system, below which a clone may fail
	lowInodes = 10_000
	tempAge   = time.Minute // what a write of a state file never takes
)

// Finding is one thing that is known of the roots.
type Finding struct{ Level, Name, Text string }

// Inspection is a look at the roots that makes nothing and changes nothing. It belongs
// to one goroutine.
type Inspection struct {
	Findings []Finding
	// Store is what the roots hold; nil where there are none yet, or they cannot be used.
	// Nothing must be changed through it.
	Store *Store
}

// Say adds a finding.
func (i *Inspection) Say(level, name, format string, args ...any) {
	i.Findings = append(i.Findings, Finding{level, name, fmt.Sprintf(format, args...)})
}

// Inspect looks at the roots of c.
func Inspect(c Config) *Inspection {
	i := &Inspection{}
	root := i.folder("root", c.Root)
	if root == "" {
		return i
	}
	s := &Store{root: root, state: state.Root(c.StateRoot), config: c}
	if c.StateRoot == "" {
		s.state = state.DefaultRoot(root, c.StateHome, c.Home)
	}
	stateRoot := i.folder("state", string(s.state))
	i.owner(s)
	i.fileSystem("root", root, true)
	if stateRoot == "" {
		return i
	}
	s.state = state.Root(stateRoot)
	s.config.Unsafe = true // told below, with what allows it
	if err := s.checkRoots(); err != nil {
		i.Say(FindingError, "state", "%v", err)
		return i
	}
	i.fileSystem("state", stateRoot, c.Unsafe)
	i.manifests(s)
	i.leftovers(s)
	i.Store = s
	return i
}

// folder tells whether a root can be used, and returns its canonical path if it is there.
func (i *Inspection) folder(name, path string) string {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		i.Say(FindingOK, name, "%s is not there yet; it is made when it is needed", path)
		return ""
	}
	var fi fs.FileInfo
	if err == nil {
		fi, err = os.Stat(real)
	}
	switch {
	case err != nil:
		i.Say(FindingError, name, "look at %q: %v", path, err)
	case !fi.IsDir():
		i.Say(FindingError, name, "%q is not a folder", path)
	case unix.Access(real, unix.W_OK|unix.X_OK) != nil:
		i.Say(FindingError, name, "%q cannot be written", path)
		return real
	default:
		i.Say(FindingOK, name, "%s", real)
		return real
	}
	return ""
}

// owner compares the owner file with us.
func (i *Inspection) owner(s *Store) {
	var owner state.Owner
	err := state.ReadJSON(filepath.Join(s.root, state.OwnerFile), &owner)
	if errors.Is(err, fs.ErrNotExist) {
		i.Say(FindingOK, "owner", "nobody yet")
		return
	}
	if err != nil {
		i.Say(FindingError, "owner", "%v", err)
		return
	}
	if real, err := filepath.EvalSymlinks(string(s.state)); err == nil {
		s.state = state.Root(real)
	}
	me, wrong := s.owner(), false
	differs := func(what string, theirs, ours any) {
		if theirs != ours {
			wrong = true
			i.Say(FindingError, "owner", "this root belongs to %s %v, not to %v", what, theirs, ours)
		}
	}
	differs("state root", owner.StateRoot, me.StateRoot)
	differs("host", owner.Host, me.Host)
	differs("uid", owner.UID, me.UID)
	if !wrong {
		i.Say(FindingOK, "owner", "uid %d on host %s, since %s", owner.UID, owner.Host, owner.CreatedAt.Format(time.RFC3339))
	}
}

// fileSystem tells what a root lies on and what is free there.
func (i *Inspection) fileSystem(name, path string, remoteAllowed bool) {
	switch kind := state.NetworkFS(path); {
	case kind != "" && !remoteAllowed:
		i.Say(FindingError, name, "lies on a network file system (%s), whose locks may not hold; --state-unsafe allows it", kind)
	case kind != "":
		i.Say(FindingWarning, name, "lies on a network file system (%s)", kind)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		i.Say(FindingError, name, "ask what is free on its file system: %v", err)
		return
	}
	free, level := uint64(st.Bavail)*uint64(st.Bsize), FindingOK
	text := fmt.Sprintf("%d MiB free", free>>20)
	if st.Files > 0 { // some file systems have no fixed number of inodes
		text += fmt.Sprintf(", %d inodes", st.Ffree)
	}
	if free < lowBytes || st.Files > 0 && st.Ffree < lowInodes {
		level = FindingWarning
	}
	i.Say(level, name+" space", "%s", text)
}

// manifests tells of those that are broken, and of folders and manifests without their
// other half.
func (i *Inspection) manifests(s *Store) {
	entries, err := s.Entries()
	if err != nil {
		i.Say(FindingError, "manifests", "%v", err)
		return
	}
	known, broken := map[string]bool{}, 0
	for _, e := range entries {
		known[e.Key()] = true
		switch {
		case errors.Is(e.Err, ErrElsewhere):
			i.Say(FindingWarning, "manifests", "%v", e.Err)
		case e.Err != nil:
			broken++
			i.Say(FindingError, "manifests", "%v", e.Err)
		default:
			i.halves(s, e)
		}
	}
	i.strangers(s, known)
	if broken == 0 {
		i.Say(FindingOK, "manifests", "%d, none broken", len(entries))
	}
}

// halves looks at a workspace whose manifest is whole.
func (i *Inspection) halves(s *Store, e Entry) {
	m := e.Manifest
	if err := s.Check(e.Place()); err != nil {
		i.Say(FindingError, "manifests", "%v", err)
		return
	}
	_, err := os.Lstat(m.Path)
	switch {
	case !m.RemovingAt.IsZero():
		i.Say(FindingWarning, "workspaces", "%s is half removed; os-workspace remove goes on", m.Identifier)
	case errors.Is(err, fs.ErrNotExist):
		i.Say(FindingWarning, "workspaces", "the folder of %s is gone; the next run makes it anew", m.Identifier)
	case m.AfterCreateDoneAt.IsZero():
		i.Say(FindingWarning, "workspaces", "%s is not ready: after_create has not succeeded yet", m.Identifier)
	}
}

// strangers tells of what lies in the root and is no workspace.
func (i *Inspection) strangers(s *Store, known map[string]bool) {
	names, err := os.ReadDir(s.root)
	if err != nil {
		i.Say(FindingError, "root", "%v", err)
		return
	}
	for _, e := range names {
		if !known[e.Name()] && e.Name()[0] != '.' { // no key begins with a dot
			i.Say(FindingWarning, "workspaces", "%q belongs to no issue", filepath.Join(s.root, e.Name()))
		}
	}
}

// leftovers tells of what killed processes have left.
func (i *Inspection) leftovers(s *Store) {
	before := s.config.Now().Add(-tempAge)
	dirs := []string{s.root, string(s.state), s.state.Loop()}
	if issues, err := os.ReadDir(s.state.Issues()); err == nil {
		for _, e := range issues {
			dirs = append(dirs, filepath.Join(s.state.Issues(), e.Name()))
		}
	}
	found := false
	for _, dir := range dirs {
		temps, err := state.Temps(dir, before)
		if err != nil {
			i.Say(FindingError, "temp files", "%v", err)
		}
		for _, temp := range temps {
			found = true
			i.Say(FindingWarning, "temp files", "%q was left by a process that was killed; the next run of the issue removes it", temp)
		}
	}
	if !found {
		i.Say(FindingOK, "temp files", "none")
	}
}
