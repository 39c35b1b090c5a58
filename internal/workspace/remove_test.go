package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// remove removes p's workspace with the id "1" and returns the hook's result.
func remove(s *Store, p Place, force bool) (*HookResult, error) {
	e, err := s.Find(p.Key)
	if err != nil && !errors.Is(err, ErrElsewhere) {
		return nil, err
	}
	return s.Remove(context.Background(), e, RemoveOptions{Force: force, ID: "1"})
}

func missing(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is there: %v", path, err)
		}
	}
}

func present(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestRemove(t *testing.T) {
	c := configIn(canonicalDir(t))
	c.Hooks = workflow.Hooks{BeforeRemove: `test -e file && echo "$OS_KEY $OS_HOOK" > "$OS_STATE_DIR/seen"; exit 3`}
	s := open(t, c)
	p, other := place(t, s, "1", "A-1"), place(t, s, "2", "A-1-evil")
	must(t, p.Dir.Make(), other.Dir.Make())
	ensure(t, s, p)
	ensure(t, s, other)
	victim := filepath.Join(canonicalDir(t), "kept")
	must(t, os.WriteFile(filepath.Join(p.Path, "file"), nil, 0o600), os.WriteFile(victim, nil, 0o600),
		os.Symlink(filepath.Dir(victim), filepath.Join(p.Path, "out")))
	hook, err := remove(s, p, false)
	if err != nil || hook == nil || hook.ExitCode == nil || *hook.ExitCode != 3 {
		t.Fatalf("%v, %+v", err, hook)
	}
	missing(t, p.Path, string(p.Dir))
	present(t, other.Path, string(other.Dir), victim)
	archive := state.Dir(filepath.Join(s.State().Removed(), "A-1-1"))
	present(t, filepath.Join(string(archive), "before_remove.log"))
	if seen, _ := os.ReadFile(filepath.Join(string(archive), "seen")); string(seen) != "A-1 before_remove\n" {
		t.Errorf("the hook saw %q", seen)
	}
	var m Manifest
	if err := state.ReadJSON(archive.IssueFile(), &m); err != nil || m.BeforeRemove == nil || m.BeforeRemove.Status != HookFailed {
		t.Errorf("%v, %+v", err, m)
	}
	if _, err := remove(s, p, false); !errors.Is(err, ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	must(t, p.Dir.Make())
	if !ensure(t, s, p) {
		t.Error("it was not made anew")
	}
}

func TestRemoveKeepsUnsavedWork(t *testing.T) {
	s, p, _ := tree(t)
	s.config.Hooks.BeforeRemove = "touch ../../hooked"
	shell(t, p.Path, "git init -q; touch file")
	var unsaved *Unsaved
	if _, err := remove(s, p, false); !errors.As(err, &unsaved) {
		t.Fatalf("%v", err)
	}
	missing(t, filepath.Join(p.Path, "..", "..", "hooked"))
	shell(t, p.Path, "echo x > .git/HEAD")
	if _, err := remove(s, p, false); !errors.As(err, &unsaved) {
		t.Fatalf("with a repository that nobody understands: %v", err)
	}
	present(t, filepath.Join(p.Path, "file"), string(p.Dir))
	if _, err := remove(s, p, true); err != nil {
		t.Fatal(err)
	}
	missing(t, p.Path, string(p.Dir))
}

func TestRemoveWithoutTheFolder(t *testing.T) {
	c := configIn(canonicalDir(t))
	c.Hooks.BeforeRemove = "true"
	s := open(t, c)
	p := place(t, s, "1", "A-1")
	must(t, p.Dir.Make())
	ensure(t, s, p)
	must(t, os.Remove(p.Path))
	if hook, err := remove(s, p, false); hook != nil || err != nil {
		t.Errorf("%v, %v", hook, err)
	}
	missing(t, string(p.Dir))
}

// Case W12: the folder that counts is the one that was made, not the one that today's
// configuration would make.
func TestRemoveInAnotherRoot(t *testing.T) {
	c := configIn(canonicalDir(t))
	before := open(t, c)
	p := place(t, before, "1", "A-1")
	must(t, p.Dir.Make())
	ensure(t, before, p)
	c.Root += "2"
	now := open(t, c)
	neighbour := filepath.Join(now.Root(), "A-1")
	must(t, os.Mkdir(neighbour, 0o700))
	if _, err := remove(now, p, false); err != nil {
		t.Fatal(err)
	}
	missing(t, p.Path, string(p.Dir))
	present(t, neighbour, before.Root())
}

func TestRemoveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		change     func(t *testing.T, s *Store, p Place, m *Manifest, victim string)
	}{
		{"a link in its place (case W13)", "is a symbolic link", func(t *testing.T, _ *Store, p Place, _ *Manifest, victim string) {
			must(t, os.Remove(p.Path), os.Symlink(victim, p.Path))
		}},
		{"a file in its place", "is not a folder", func(t *testing.T, _ *Store, p Place, _ *Manifest, _ string) {
			must(t, os.Remove(p.Path), os.WriteFile(p.Path, nil, 0o600))
		}},
		{"a manifest of another folder", "which is not that of issue", func(_ *testing.T, _ *Store, _ Place, m *Manifest, victim string) { m.Path = victim }},
		{"a manifest of the root", "which is not that of issue", func(_ *testing.T, s *Store, _ Place, m *Manifest, _ string) { m.Path = s.root }},
		{"a manifest with another identifier", "which is not that of issue", func(_ *testing.T, _ *Store, _ Place, m *Manifest, _ string) { m.Identifier = "A-2" }},
		{"a root of nobody", "does not say whose", func(_ *testing.T, _ *Store, _ Place, m *Manifest, victim string) {
			m.Root, m.Path = filepath.Dir(victim), victim
		}},
		{"a root of somebody else", "belongs to state root", func(t *testing.T, s *Store, _ Place, m *Manifest, victim string) {
			m.Root, m.Path = filepath.Dir(victim), victim
			theirs := s.owner()
			theirs.StateRoot += "2"
			must(t, state.Claim(m.Root, theirs))
		}},
		{"a root behind a link", "leads to", func(t *testing.T, s *Store, p Place, m *Manifest, victim string) {
			link := filepath.Join(filepath.Dir(s.root), "link")
			must(t, os.Symlink(filepath.Dir(victim), link))
			m.Root, m.Path = link, filepath.Join(link, p.Key)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, configIn(canonicalDir(t)))
			p := place(t, s, "1", "A-1")
			must(t, p.Dir.Make())
			ensure(t, s, p)
			victim := filepath.Join(canonicalDir(t), "A-1")
			must(t, os.MkdirAll(filepath.Join(victim, "kept"), 0o700))
			e, err := s.Find("A-1")
			must(t, err)
			tt.change(t, s, p, &e.Manifest, victim)
			must(t, state.WriteJSON(p.Dir.IssueFile(), e.Manifest))
			_, err = s.Remove(context.Background(), e, RemoveOptions{Force: true, ID: "1"})
			wantRefusal(t, tt.name, tt.text, err)
			present(t, filepath.Join(victim, "kept"), p.Path, p.Dir.IssueFile())
			missing(t, s.State().Removed())
		})
	}
}

// What a killed removal leaves: the folder is marked and half gone.
func halfRemoved(t *testing.T) (*Store, Place) {
	s, p, _ := tree(t)
	s.config.Hooks = workflow.Hooks{AfterCreate: "echo made > made", BeforeRemove: "touch ../../hooked"}
	shell(t, p.Path, "git init -q; touch file; rm .git/HEAD")
	e, err := s.Find("G-1")
	must(t, err)
	must(t, s.condemn(p.Dir, &e.Manifest))
	return s, p
}

func TestRemoveFinishesAHalfRemove(t *testing.T) {
	s, p := halfRemoved(t)
	if hook, err := remove(s, p, false); hook != nil || err != nil {
		t.Fatalf("%v, %v", hook, err)
	}
	missing(t, p.Path, string(p.Dir), filepath.Join(p.Path, "..", "..", "hooked"))
}

func TestEnsureAfterAHalfRemove(t *testing.T) {
	s, p := halfRemoved(t)
	if ready, begun, err := s.Ready(p); ready || !begun || err != nil {
		t.Fatalf("ready %v, begun %v, %v", ready, begun, err)
	}
	if !ensure(t, s, p) {
		t.Error("the folder was not made anew")
	}
	missing(t, filepath.Join(p.Path, "file"), filepath.Join(p.Path, ".git"))
	present(t, filepath.Join(p.Path, "made"))
	var m Manifest
	if err := state.ReadJSON(p.Dir.IssueFile(), &m); err != nil || !m.RemovingAt.IsZero() || m.AfterCreateDoneAt != wire.At(noon) {
		t.Errorf("%v, %+v", err, m)
	}
}

// A stop during the hook leaves everything as it was.
func TestRemoveStoppedInItsHook(t *testing.T) {
	dir := canonicalDir(t)
	c := configIn(dir)
	c.Hooks.BeforeRemove = "mkfifo pipe; echo > ../../begun; cat pipe"
	s := open(t, c)
	p := place(t, s, "1", "A-1")
	must(t, p.Dir.Make())
	ensure(t, s, p)
	shell(t, dir, "mkfifo begun")
	ctx, cancel := context.WithCancel(context.Background())
	e, err := s.Find("A-1")
	must(t, err)
	done := make(chan error)
	go func() {
		_, err := s.Remove(ctx, e, RemoveOptions{ID: "1"})
		done <- err
	}()
	_, err = os.ReadFile(filepath.Join(dir, "begun")) // a pipe: it ends once the hook has written
	must(t, err)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if ready, _, err := s.Ready(p); !ready || err != nil {
		t.Errorf("ready %v, %v", ready, err)
	}
}
