package watch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ostoolkit/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for something that must come.
const patience = 10 * time.Second

// open watches dir so rarely by clock that a hint in a test is one of the system's.
func open(t *testing.T, dirs ...string) *watch.Watcher {
	t.Helper()
	w, err := watch.Open(dirs, watch.Options{
		Interval: time.Hour, Degraded: time.Millisecond,
		Warn: func(format string, args ...any) { t.Logf(format, args...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	await(t, w)
	return w
}

func await(t *testing.T, w *watch.Watcher) {
	t.Helper()
	select {
	case <-w.C():
	case <-time.After(patience):
		t.Fatal("no hint")
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHintAfterARename(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, "temp"))
	w := open(t, a, b)
	for _, dir := range []string{a, b, a} {
		target := filepath.Join(dir, fmt.Sprint("f", len(dir)))
		if err := os.Rename(filepath.Join(a, "temp"), target); err != nil {
			t.Fatal(err)
		}
		await(t, w)
		if err := os.Rename(target, filepath.Join(a, "temp")); err != nil {
			t.Fatal(err)
		}
		await(t, w)
	}
}

func TestFolderThatComesBack(t *testing.T) {
	gone := map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"renamed": func(dir string) error { return os.Rename(dir, dir+".old") },
		"replaced at once": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		},
	}
	for name, vanish := range gone {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "box")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			w := open(t, dir)
			for round := range 3 {
				if err := vanish(dir); err != nil {
					t.Fatal(err)
				}
				await(t, w)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				// Each entry is one event; more hints than could be left over.
				for i := range 10 {
					if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(round, "-", i)), 0o700); err != nil {
						t.Fatal(err)
					}
					await(t, w)
				}
				if err := os.RemoveAll(dir + ".old"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestMissingFolder(t *testing.T) {
	for _, forbid := range []bool{false, true} {
		_, err := watch.Open([]string{filepath.Join(t.TempDir(), "none")}, watch.Options{Forbid: forbid})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("forbid %v: %v", forbid, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file)
	if _, err := watch.Open([]string{file}, watch.Options{}); err == nil {
		t.Error("a plain file was taken for a folder")
	}
}

// Nobody takes the hints of a flood: the watcher still follows it to its end.
func TestHintsAreCoalesced(t *testing.T) {
	const flood = 2000 // events
	dir := t.TempDir()
	w := open(t, dir)
	for i := range flood / 2 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := errors.Join(os.Mkdir(name, 0o700), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "last"))
	for entries := 0; entries == 0; {
		await(t, w)
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		entries = len(list)
	}
}

func TestIntervalWithoutAWatcher(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		warnings := 0
		w, err := watch.Open([]string{dir}, watch.Options{Forbid: true, Warn: func(string, ...any) { warnings++ }})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		<-w.C()
		start := time.Now()
		for i := range 5 {
			<-w.C()
			if got, want := time.Since(start), time.Duration(i+1)*time.Second; got != want {
				t.Errorf("hint %d after %v, want %v", i, got, want)
			}
		}
		if warnings != 1 {
			t.Errorf("%d warnings", warnings)
		}
	})
}

func TestChangeWithoutAWatcher(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"a file appears", func() error { return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600) }},
		{"the folder vanishes", func() error { return os.RemoveAll(dir) }},
		{"the folder comes back", func() error { return os.Mkdir(dir, 0o700) }},
		{"the mtime goes back", func() error { return os.Chtimes(dir, time.Time{}, time.Unix(1, 0)) }},
	}
	synctest.Test(t, func(t *testing.T) {
		w, err := watch.Open([]string{dir}, watch.Options{Forbid: true, Interval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		<-w.C()
		<-time.After(time.Millisecond) // changes fall between looks
		for _, step := range steps {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			<-w.C()
			if late := time.Since(start); late > 200*time.Millisecond {
				t.Errorf("%s: hint after %v", step.name, late)
			}
		}
	})
}

func TestCloseTwice(t *testing.T) {
	w, err := watch.Open([]string{t.TempDir()}, watch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
}

func BenchmarkRenameToHint(b *testing.B) {
	dir := b.TempDir()
	from, to := filepath.Join(dir, ".from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	w, err := watch.Open([]string{dir}, watch.Options{Interval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	<-w.C()
	for b.Loop() {
		if err := os.Rename(from, to); err != nil {
			b.Fatal(err)
		}
		<-w.C()
		from, to = to, from
	}
}
