package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// configIn returns a configuration below dir with a clock that stands still.
func configIn(dir string) Config {
	return Config{
		Root: filepath.Join(dir, "root"), StateRoot: filepath.Join(dir, "state"), Home: dir,
		Host: "here", UID: os.Getuid(), Environ: os.Environ(), Now: func() time.Time { return noon },
	}
}

func open(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// canonicalDir is TempDir without a link in it, as on macOS.
func canonicalDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantRefusal(t *testing.T, name, text string, err error) {
	t.Helper()
	var refusal *state.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want a refusal with %q", name, err, text)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		change     func(t *testing.T, c *Config)
	}{
		{"state in the root", "lies in the workspace root", func(_ *testing.T, c *Config) { c.StateRoot = filepath.Join(c.Root, "state") }},
		{"state that is the root", "lies in the workspace root", func(_ *testing.T, c *Config) { c.StateRoot = c.Root }},
		{"the root in the state", "lies in the state root", func(_ *testing.T, c *Config) { c.Root = filepath.Join(c.StateRoot, "root") }},
		{"state that leads into the root", "is a symbolic link", func(t *testing.T, c *Config) {
			must(t, os.Mkdir(c.Root, 0o700), os.Symlink(c.Root, c.StateRoot))
		}},
		{"a file for a state root", "is not a folder", func(t *testing.T, c *Config) { must(t, os.WriteFile(c.StateRoot, nil, 0o600)) }},
		{"state that others can write", "can be written by others", func(t *testing.T, c *Config) {
			must(t, os.Mkdir(c.StateRoot, 0o700), os.Chmod(c.StateRoot, 0o777))
		}},
		{"another machine's root", `on "there"`, func(t *testing.T, c *Config) { open(t, *c); c.Host = "there" }},
		{"another user's root", "of uid", func(t *testing.T, c *Config) { open(t, *c); c.UID++ }},
		{"another state root", "belongs to state root", func(t *testing.T, c *Config) { open(t, *c); c.StateRoot += "2" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configIn(canonicalDir(t))
			tt.change(t, &c)
			_, err := Open(c)
			wantRefusal(t, tt.name, tt.text, err)
		})
	}
}

// A name that only begins like the root's is beside it, not in it.
func TestOpenBesideTheRoot(t *testing.T) {
	c := configIn(canonicalDir(t))
	c.StateRoot = c.Root + "-state"
	s := open(t, c)
	if s.Root() != c.Root || string(s.State()) != c.StateRoot {
		t.Errorf("root %q, state %q", s.Root(), s.State())
	}
	fi, err := os.Stat(c.StateRoot)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("state root: %v, %v", fi, err)
	}
}

func TestOpenByALinkToTheRoot(t *testing.T) {
	dir := canonicalDir(t)
	c := configIn(dir)
	c.StateRoot = ""
	one := open(t, c)
	must(t, os.Symlink(c.Root, filepath.Join(dir, "link")))
	c.Root = filepath.Join(dir, "link")
	if two := open(t, c); two.Root() != one.Root() || two.State() != one.State() {
		t.Errorf("%q has state %q, %q has %q", one.Root(), one.State(), two.Root(), two.State())
	}
}

func place(t *testing.T, s *Store, id, identifier string) Place {
	t.Helper()
	p, err := s.Place(&wire.Issue{ID: id, Identifier: identifier, Title: "t", State: "Todo"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlaceStaysInTheRoot(t *testing.T) {
	s := open(t, configIn(canonicalDir(t)))
	for _, identifier := range []string{"A-1", "..", ".", "/etc", "../x", "a\nb", "a\x00b", ".os-root", strings.Repeat("x", 500)} {
		p := place(t, s, "1", identifier)
		if filepath.Dir(p.Path) != s.Root() || filepath.Dir(string(p.Dir)) != s.State().Issues() || filepath.Base(p.Path) == state.OwnerFile {
			t.Errorf("%q is at %q with state %q", identifier, p.Path, p.Dir)
		}
	}
	if _, err := s.Place(&wire.Issue{ID: "1"}); err == nil {
		t.Error("an issue without an identifier has a place")
	}
}

func noLogs(string) string { return os.DevNull }

func ensure(t *testing.T, s *Store, p Place) (created bool) {
	t.Helper()
	must(t, p.Dir.Make())
	created, _, err := s.Ensure(t.Context(), p, noLogs)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestCheckRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		block      func(t *testing.T, p Place)
	}{
		{"a link to a folder", "is a symbolic link", func(t *testing.T, p Place) { must(t, os.Symlink(t.TempDir(), p.Path)) }},
		{"a link to nothing", "is a symbolic link", func(t *testing.T, p Place) { must(t, os.Symlink("nowhere", p.Path)) }},
		{"a file", "is not a folder", func(t *testing.T, p Place) { must(t, os.WriteFile(p.Path, nil, 0o600)) }},
		{"a link for the state", "is a symbolic link", func(t *testing.T, p Place) {
			must(t, os.MkdirAll(filepath.Dir(string(p.Dir)), 0o700), os.Symlink(t.TempDir(), string(p.Dir)))
		}},
		{"another issue's manifest", "belongs to issue", func(t *testing.T, p Place) {
			must(t, p.Dir.Make(), state.WriteJSON(p.Dir.IssueFile(), Manifest{ID: "2", Identifier: "A-1", Path: p.Path}))
		}},
		{"a manifest of another folder", "speaks of the folder", func(t *testing.T, p Place) {
			must(t, p.Dir.Make(), state.WriteJSON(p.Dir.IssueFile(), Manifest{ID: "1", Identifier: "A-1", Path: "/etc"}))
		}},
		{"a link for the manifest", "is a symbolic link", func(t *testing.T, p Place) {
			must(t, p.Dir.Make(), os.Symlink("nowhere", p.Dir.IssueFile()))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, configIn(canonicalDir(t)))
			p := place(t, s, "1", "A-1")
			if err := s.Check(p); err != nil {
				t.Errorf("an empty place: %v", err)
			}
			tt.block(t, p)
			wantRefusal(t, tt.name, tt.text, s.Check(p))
		})
	}
}

// What appears between Check and Ensure is refused by Ensure.
func TestEnsureRefusesALinkThatLeadsOut(t *testing.T) {
	dir := canonicalDir(t)
	s := open(t, configIn(dir))
	p := place(t, s, "1", "A-1")
	victim := filepath.Join(dir, "victim")
	must(t, os.Mkdir(victim, 0o700), os.Symlink(victim, p.Path), p.Dir.Make())
	_, _, err := s.Ensure(t.Context(), p, noLogs)
	wantRefusal(t, "a link", "leads out of the workspace root", err)
	if left, err := os.ReadDir(victim); err != nil || len(left) != 0 {
		t.Errorf("the victim has %v, %v", left, err)
	}
}

func TestEnsureWithoutItsRoot(t *testing.T) {
	c := configIn(canonicalDir(t))
	s := open(t, c)
	p := place(t, s, "1", "A-1")
	must(t, p.Dir.Make(), os.RemoveAll(c.Root))
	if _, _, err := s.Ensure(t.Context(), p, noLogs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a root that was removed: %v", err)
	}
}

// after_create runs once a folder, and a folder whose after_create did not succeed is
// not ready (W03).
func TestEnsureBootstraps(t *testing.T) {
	c := configIn(canonicalDir(t))
	c.Hooks = workflow.Hooks{AfterCreate: `echo x >> ../../state/tries; test -e ../../state/pass`, Timeout: time.Minute}
	s := open(t, c)
	p := place(t, s, "1", "A-1")
	must(t, p.Dir.Make())
	logs := func(hook string) string { return filepath.Join(c.StateRoot, hook+".log") }
	expect := func(step string, wantReady, wantCreated bool, wantTries int) {
		t.Helper()
		created, _, err := s.Ensure(context.Background(), p, logs)
		var hook *HookError
		if (err == nil) != wantReady || err != nil && !errors.As(err, &hook) || created != wantCreated {
			t.Errorf("%s: created %v, %v", step, created, err)
		}
		ready, begun, err := s.Ready(p)
		if err != nil || ready != wantReady || !begun {
			t.Errorf("%s: ready %v, begun %v, %v", step, ready, begun, err)
		}
		text, err := os.ReadFile(filepath.Join(c.StateRoot, "tries"))
		if err != nil || len(text) != 2*wantTries {
			t.Errorf("%s: tries %q, %v", step, text, err)
		}
	}
	expect("a hook that fails", false, true, 1)
	expect("again", false, false, 2)
	must(t, os.WriteFile(filepath.Join(c.StateRoot, "pass"), nil, 0o600))
	expect("a hook that succeeds", true, false, 3)
	expect("once more", true, false, 3)
	must(t, os.Remove(p.Path))
	if ready, _, err := s.Ready(p); ready || err != nil {
		t.Errorf("a folder that was removed is ready: %v", err)
	}
	expect("a folder that was removed", true, true, 4)

	// Killed after it had made the folder anew: the old success must not count.
	must(t, os.Remove(p.Path))
	m, err := s.manifest(p)
	must(t, err, s.forget(p, m), os.Mkdir(p.Path, 0o700))
	if ready, _, err := s.Ready(p); ready || err != nil {
		t.Errorf("an empty folder is ready: %v", err)
	}
	expect("an empty folder", true, false, 5)
}

func TestFindAndEntries(t *testing.T) {
	s := open(t, configIn(canonicalDir(t)))
	for id, identifier := range map[string]string{"1": "ABC-1", "2": "abc-1", "3": "a/b", "ABC-1": "X-9"} {
		ensure(t, s, place(t, s, id, identifier))
	}
	key, err := state.Key("a/b")
	must(t, err)
	for ref, want := range map[string]string{
		"ABC-1": "ABC-1", "abc-1": "abc-1", "x-9": "X-9", "3": "a/b", key: "a/b", "A/B": "a/b", "2": "abc-1",
	} {
		if e, err := s.Find(ref); err != nil || e.Manifest.Identifier != want {
			t.Errorf("%q is %q, %v", ref, e.Manifest.Identifier, err)
		}
	}
	for _, ref := range []string{"", "ABC", "..", "4"} {
		if _, err := s.Find(ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q was found: %v", ref, err)
		}
	}
}

// An entry that cannot be used says why and hides no other.
func TestEntriesThatCannotBeRead(t *testing.T) {
	s := open(t, configIn(canonicalDir(t)))
	good := place(t, s, "1", "A-1")
	ensure(t, s, good)
	for name, text := range map[string]string{
		"torn":    `{"id":"1`,
		"copied":  `{"id":"1","identifier":"A-1","key":"A-1"}`,
		"outside": `{"id":"5","identifier":"outside","key":"outside","path":"/etc"}`,
	} {
		dir := s.State().Issue(name)
		must(t, dir.Make(), os.WriteFile(dir.IssueFile(), []byte(text), 0o600))
	}
	must(t, s.State().Issue("never-brought-up").Make())
	entries, err := s.Entries()
	must(t, err)
	broken := 0
	for _, e := range entries {
		if e.Err != nil {
			broken++
		}
	}
	if len(entries) != 4 || broken != 3 {
		t.Errorf("%d entries, %d of them broken", len(entries), broken)
	}
	if _, err := s.Find("outside"); err == nil {
		t.Error("a folder outside the root was found")
	}
	if e, err := s.Find("A-1"); err != nil || e.Place().Path != good.Path {
		t.Errorf("the good one: %+v, %v", e, err)
	}
}

func TestFactFitsAnEnvironment(t *testing.T) {
	for in, want := range map[string]string{
		"plain\nlines":             "plain\nlines",
		"a\x00b":                   "ab",
		strings.Repeat("€", 20000): strings.Repeat("€", 10922),
	} {
		if got := fact(in); got != want {
			t.Errorf("%.20q: %d bytes, want %d", in, len(got), len(want))
		}
	}
}
