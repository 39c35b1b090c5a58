package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ostoolkit/internal/state"
)

func TestTemps(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	leave := func(age time.Duration, names ...string) {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{".issue.json123", ".tmp-77", "..os-root9", ".workflow.md1"}
	leave(time.Hour, want...)
	leave(time.Hour, "issue.json", "issue.json1", ".json", ".keep1", state.OwnerFile, "lock", "after_create.log")
	leave(time.Second, ".run.json5")
	got, err := state.Temps(dir, now.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range got {
		got[i] = filepath.Base(path)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, err := state.Temps(filepath.Join(dir, "gone"), now); len(got) > 0 || err != nil {
		t.Errorf("a folder that is not there: %q, %v", got, err)
	}
}
