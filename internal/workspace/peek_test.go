package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Case W16: a tree with work that is nowhere else is told of and never touched.
func TestDirty(t *testing.T) {
	s, p, _ := tree(t)
	expect := func(step, want, reason string) {
		t.Helper()
		dirty, why, err := s.Dirty(t.Context(), p)
		got := ""
		if dirty != nil {
			got = map[bool]string{true: "true", false: "false"}[*dirty]
		}
		if err != nil || got != want || !strings.Contains(why, reason) || want != "true" && why != "" {
			t.Errorf("%s: %q, %q, %v", step, got, why, err)
		}
		if fact := s.dirtyFact(t.Context(), p); fact != want {
			t.Errorf("%s: hooks are told %q", step, fact)
		}
		if left, err := os.ReadDir(s.State().Looks()); err == nil && len(left) > 0 {
			t.Errorf("%s: left %v", step, left)
		}
	}
	expect("no repository", "", "")
	shell(t, p.Path, "git clone -q ../../origin .")
	expect("a fresh clone", "false", "")
	shell(t, p.Path, "touch new")
	expect("a new file", "true", "files that are not in git")
	present(t, filepath.Join(p.Path, "new"))
	must(t, os.RemoveAll(p.Path))
	if dirty, why, err := s.Dirty(t.Context(), p); dirty != nil || why != "" || err != nil {
		t.Errorf("no folder: %v, %q, %v", dirty, why, err)
	}
}

func TestDirtyThatNobodyCanTell(t *testing.T) {
	s, p, _ := tree(t)
	shell(t, p.Path, "git init -q; echo x > .git/HEAD")
	if dirty, _, err := s.Dirty(t.Context(), p); dirty != nil || err == nil {
		t.Errorf("%v, %v", dirty, err)
	}
	if fact := s.dirtyFact(t.Context(), p); fact != "" {
		t.Errorf("hooks are told %q", fact)
	}
}

// What a look has left that was killed goes with a later one, and not before.
func TestDirtyTidiesUp(t *testing.T) {
	s, p, _ := tree(t)
	old, young := filepath.Join(s.State().Looks(), "old"), filepath.Join(s.State().Looks(), "young")
	must(t, os.MkdirAll(filepath.Join(old, "objects"), 0o700), os.Mkdir(young, 0o700),
		os.Chtimes(old, noon.Add(-2*lookAge), noon.Add(-2*lookAge)), os.Chtimes(young, noon, noon))
	_, _, err := s.Dirty(t.Context(), p)
	must(t, err)
	missing(t, old)
	present(t, young)
}

func TestDiskUsage(t *testing.T) {
	dir := canonicalDir(t)
	empty, err := DiskUsage(t.Context(), dir)
	must(t, err)
	const size = 1 << 20
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, make([]byte, size), 0o600))
	one, err := DiskUsage(t.Context(), dir)
	must(t, err)
	if one-empty < size {
		t.Errorf("a file of %d bytes takes %d", size, one-empty)
	}
	outside := canonicalDir(t)
	must(t, os.WriteFile(filepath.Join(outside, "big"), make([]byte, size), 0o600))
	must(t, os.Link(file, filepath.Join(dir, "again")), os.Symlink(outside, filepath.Join(dir, "out")))
	if two, err := DiskUsage(t.Context(), dir); err != nil || two-one >= size {
		t.Errorf("a second name and a link out take %d, %v", two-one, err)
	}
	if n, err := DiskUsage(t.Context(), filepath.Join(dir, "gone")); n != 0 || err != nil {
		t.Errorf("what is not there: %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DiskUsage(ctx, dir); err == nil {
		t.Error("it did not stop")
	}
}

func TestArchives(t *testing.T) {
	s := open(t, configIn(canonicalDir(t)))
	if all, err := s.Archives(); len(all) != 0 || err != nil {
		t.Errorf("none yet: %v, %v", all, err)
	}
	p := place(t, s, "1", "A-1")
	ensure(t, s, p)
	e, err := s.Find("A-1")
	must(t, err)
	_, err = s.Remove(t.Context(), e, RemoveOptions{ID: "20260304-050607-008-0a0b0c0d"})
	must(t, err)
	removed := s.State().Removed()
	torn := filepath.Join(removed, "B-20260304-050607-008-00000000")
	must(t, os.Mkdir(filepath.Join(removed, "no-archive"), 0o700), os.Mkdir(torn, 0o700),
		os.WriteFile(filepath.Join(removed, "C-20260304-050607-008-00000000"), nil, 0o600),
		os.Mkdir(filepath.Join(removed, "-20260304-050607-008-00000000"), 0o700))
	all, err := s.Archives()
	must(t, err)
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	want := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if a := all[0]; a.Key != "A-1" || !a.At.Equal(want) || a.Err != nil || a.Place().Issue.ID != "1" || a.Dir != s.ArchiveDir("A-1", "20260304-050607-008-0a0b0c0d") {
		t.Errorf("%+v", a)
	}
	if b := all[1]; b.Key != "B" || b.Err == nil || b.Place().Path != filepath.Join(s.Root(), "B") {
		t.Errorf("%+v", b)
	}
	must(t, s.Prune(all[1]), s.Prune(all[1]))
	missing(t, torn)
	present(t, string(all[0].Dir))
}

func TestOtherSpelling(t *testing.T) {
	for _, tt := range []struct {
		key   string
		names []string
		want  string
	}{
		{"abc-1", nil, ""},
		{"abc-1", []string{"abc-1"}, ""},
		{"abc-1", []string{"ABC-1", "abc-1"}, ""},
		{"abc-1", []string{"abc-1", "ABC-1"}, ""},
		{"abc-1", []string{"abc-10", "ABC-1"}, "ABC-1"},
	} {
		if got := otherSpelling(tt.names, tt.key); got != tt.want {
			t.Errorf("%q among %q: %q, want %q", tt.key, tt.names, got, tt.want)
		}
	}
}

// Two identifiers that differ in case have two folders, or where the file system cannot
// have both the second is refused and nothing of the first is touched.
func TestKeysThatDifferInCase(t *testing.T) {
	c := configIn(canonicalDir(t))
	s := open(t, c)
	one, two := place(t, s, "1", "ABC-1"), place(t, s, "2", "abc-1")
	ensure(t, s, one)
	if !foldsCase(one.Path) {
		must(t, s.Check(two))
		if !ensure(t, s, two) {
			t.Error("the second has no folder of its own")
		}
		return
	}
	wantRefusal(t, "the second", "", s.Check(two))
	// Also where only the root cannot tell them apart.
	must(t, os.RemoveAll(string(one.Dir)))
	wantRefusal(t, "the second, without a manifest", "takes upper and lower case for the same", s.Check(two))
	present(t, one.Path)
}

// An identifier may be what another one's key looks like: the first comer has the folder
// (case W01).
func TestAnIdentifierThatIsAKey(t *testing.T) {
	s := open(t, configIn(canonicalDir(t)))
	one := place(t, s, "1", "a/b")
	two := place(t, s, "2", one.Key)
	if one.Path != two.Path {
		t.Fatalf("%q and %q", one.Path, two.Path)
	}
	ensure(t, s, one)
	wantRefusal(t, "the second", `belongs to issue "a/b" (1)`, s.Check(two))
}
