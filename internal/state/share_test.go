package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	a, err := AcquireShare(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AcquireShare(t.Context(), path)
	if err != nil {
		t.Fatalf("a second share: %v", err)
	}
	if last, err := a.Last(); last || err != nil {
		t.Fatalf("one of two is the last: %v, %v", last, err)
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	if last, err := b.Last(); !last || err != nil {
		t.Fatalf("who is alone is not the last: %v, %v", last, err)
	}
	if _, err := TryAcquire(path); !errors.Is(err, ErrBusy) {
		t.Fatalf("a lock beside the last share: %v, want ErrBusy", err)
	}
	if _, err := AcquireShare(t.Context(), path); !errors.Is(err, ErrBusy) {
		t.Fatalf("a share while the last one clears up: %v, want ErrBusy", err)
	}
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	c, err := AcquireShare(t.Context(), path)
	if err != nil {
		t.Fatalf("a share after all: %v", err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	d, err := TryAcquire(path)
	if err != nil {
		t.Fatalf("a lock after all: %v", err)
	}
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestShareRefusesLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "other"), filepath.Join(dir, "users")); err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	if _, err := AcquireShare(t.Context(), filepath.Join(dir, "users")); !errors.As(err, &refusal) {
		t.Errorf("a link: %v, want a Refusal", err)
	}
}

func TestKeepers(t *testing.T) {
	root := Root(t.TempDir())
	for name, text := range map[string]string{"one": `{"pid":7,"pid_start":"x","url":"u"}`, "two": `{`, "three": `{"pid":0}`} {
		if err := MakeDir(root.Shared(name)); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(KeeperFile(root.Shared(name)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := root.Keepers(); len(got) != 1 || got[0] != (Keeper{7, "x"}) {
		t.Errorf("keepers are %v", got)
	}
}

func TestRootOf(t *testing.T) {
	if got := Root("/s").Issue("A-1").Root(); got != "/s" {
		t.Errorf("root of an issue's folder is %q", got)
	}
	if got := Dir("/elsewhere/one").Root(); got != "/elsewhere/one" {
		t.Errorf("root of a folder of its own is %q", got)
	}
}
