package state_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

func TestKey(t *testing.T) {
	tests := []struct {
		identifier, base string
		hashed           bool
	}{
		{"ABC-1", "ABC-1", false},
		{"a_b", "a_b", false},
		{"v1.2", "v1.2", false},
		{"a/b", "a_b", true},
		{"a:b", "a_b", true},
		{".", "_", true},
		{"..", "_.", true},
		{".git", "_git", true},
		{"Größe", "Gr__e", true},
		{strings.Repeat("x", 100), strings.Repeat("x", 100), false},
		{strings.Repeat("x", 101), strings.Repeat("x", 100), true},
	}
	for _, tt := range tests {
		want := tt.base
		if tt.hashed {
			sum := sha256.Sum256([]byte(tt.identifier))
			want += fmt.Sprintf("-%x", sum[:8])
		}
		if got, err := state.Key(tt.identifier); err != nil || got != want {
			t.Errorf("Key(%q) = %q, %v, want %q", tt.identifier, got, err, want)
		}
	}
	if _, err := state.Key(""); err == nil {
		t.Error("an empty identifier has a key")
	}
}

// Case W01: identifiers that look alike once they are safe must not share a folder.
func TestKeysDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune("ab/_:. -é"))
		one := rapid.StringOfN(alphabet, 1, 8, -1).Draw(t, "one")
		two := rapid.StringOfN(alphabet, 1, 8, -1).Draw(t, "two")
		a, err := state.Key(one)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := state.Key(two)
		if one != two && a == b {
			t.Fatalf("%q and %q share the key %q", one, two, a)
		}
		if again, _ := state.Key(one); again != a {
			t.Fatalf("%q has two keys, %q and %q", one, a, again)
		}
		checkKey(t, a)
	})
}

func checkKey(t interface{ Fatalf(string, ...any) }, key string) {
	if key == "" || key[0] == '.' || strings.ContainsAny(key, "/\x00") || len(key) > 117 {
		t.Fatalf("key %q is no safe folder name", key)
	}
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{"ABC-1", "..", "a/b", "\xff\xfe", strings.Repeat("é", 80), "a\x00b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, identifier string) {
		key, err := state.Key(identifier)
		if identifier == "" {
			if err == nil {
				t.Fatal("an empty identifier has a key")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkKey(t, key)
	})
}

func TestRunIDsSortByTime(t *testing.T) {
	random := bytes.NewReader(make([]byte, 8))
	at := time.Date(2026, 11, 30, 12, 0, 0, 999e6, time.UTC)
	one, err := state.NewRunID(at, random)
	if err != nil {
		t.Fatal(err)
	}
	two, err := state.NewRunID(at.Add(2*time.Millisecond), random)
	if err != nil {
		t.Fatal(err)
	}
	if one != "20261130-120000-999-00000000" || one >= two {
		t.Errorf("ids %q and %q", one, two)
	}
	if _, err := state.NewRunID(at, random); err == nil {
		t.Error("an id was made without randomness")
	}
}

func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	for _, write := range []func(string, any) error{state.WriteJSON, state.WriteVolatile} {
		for _, want := range []string{"one", "two <&>"} {
			if err := write(path, map[string]string{"a": want}); err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := state.ReadJSON(path, &got); err != nil || got["a"] != want {
				t.Errorf("read %v, %v", got, err)
			}
		}
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReadJSONRefuses(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target.json")
	if err := os.WriteFile(target, []byte(`{"a":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	var refusal *state.Refusal
	var v any
	if err := state.ReadJSON(link, &v); !errors.As(err, &refusal) {
		t.Errorf("a symbolic link was read: %v", err)
	}
	if err := state.WriteJSON(link, 1); !errors.As(err, &refusal) {
		t.Errorf("a symbolic link was replaced: %v", err)
	}
	if err := state.ReadJSON(dir, &v); !errors.As(err, &refusal) {
		t.Errorf("a folder was read: %v", err)
	}
	if err := state.ReadJSON(target, &v); err == nil || !strings.Contains(err.Error(), target) {
		t.Errorf("half a file: %v", err)
	}
	if err := state.ReadJSON(filepath.Join(dir, "none"), &v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Whoever waits for a lock must not get that of a folder that has been moved away.
func TestLockOfAMovedFolder(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "dir")
	path := filepath.Join(dir, "lock")
	if err := state.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		lock, err := state.Acquire(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() {
			late, err := state.Acquire(t.Context(), path)
			waited <- errors.Join(err, late.Release())
		}()
		synctest.Wait() // it has the file open
		if err := errors.Join(os.Rename(dir, filepath.Join(root, "moved")), state.MakeDir(dir)); err != nil {
			t.Fatal(err)
		}
		now, err := state.Acquire(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; !errors.Is(err, state.ErrBusy) {
			t.Errorf("the waiting one got %v", err)
		}
		if err := now.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestLockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := state.Acquire(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := state.Acquire(ctx, path); !errors.Is(err, state.ErrBusy) {
		t.Errorf("a second lock: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := state.Acquire(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the lock file is gone: %v", err)
	}
}

// Case L20: what is written in a lock file means nothing.
func TestLockIgnoresText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := state.Acquire(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestInheritChecksTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, fd := range []string{"", "x", "-1", "2"} {
		if _, err := state.Inherit(fd, filepath.Join(dir, "lock")); err == nil {
			t.Errorf("descriptor %q was taken for a lock", fd)
		}
	}
}

// Case X02: a record after half a line stands alone, and the half line is counted.
func TestLogAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(path, []byte(`{"v":1,"type":"outcome","run_`), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := state.OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	w := wire.NewWriter(log)
	for _, o := range []*wire.Outcome{
		{RunID: "r1", Outcome: wire.Failed},
		{RunID: "r1", Outcome: wire.Succeeded},
		{RunID: "r2", Outcome: wire.Cancelled},
		{RunID: "r1", Outcome: "made_up"},
	} {
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	out, damaged, err := state.LastOutcome(path, "r1")
	if err != nil || out == nil || out.Outcome != wire.Succeeded || damaged != 1 {
		t.Errorf("outcome %+v, %d damaged, %v", out, damaged, err)
	}
	if out, _, err := state.LastOutcome(path, "r3"); out != nil || err != nil {
		t.Errorf("an outcome of a run that never was: %+v, %v", out, err)
	}
}

func TestClaim(t *testing.T) {
	root := t.TempDir()
	me := state.Owner{StateRoot: "/state/a", Host: "here", UID: 1}
	for range 2 {
		if err := state.Claim(root, me); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []state.Owner{
		{StateRoot: "/state/b", Host: "here", UID: 1},
		{StateRoot: "/state/a", Host: "there", UID: 1},
		{StateRoot: "/state/a", Host: "here", UID: 2},
	} {
		var refusal *state.Refusal
		err := state.Claim(root, other)
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "/state/a") || !strings.Contains(err.Error(), other.StateRoot) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if left, _ := os.ReadDir(root); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMakeDirRefusesALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	var refusal *state.Refusal
	if err := state.MakeDir(link); !errors.As(err, &refusal) {
		t.Errorf("a symbolic link was used: %v", err)
	}
}

// Of several first comers one gets the root, and what a killed one left is gone.
func TestClaimRace(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "."+state.OwnerFile+"123"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	const comers = 8
	errs := make(chan error, comers)
	for i := range comers {
		go func() { errs <- state.Claim(root, state.Owner{StateRoot: fmt.Sprint("/state/", i), Host: "here"}) }()
	}
	won := 0
	for range comers {
		var refusal *state.Refusal
		switch err := <-errs; {
		case err == nil:
			won++
		case !errors.As(err, &refusal):
			t.Error(err)
		}
	}
	left, err := os.ReadDir(root)
	if err != nil || won != 1 || len(left) != 1 || left[0].Name() != state.OwnerFile {
		t.Errorf("%d have won; left %v, %v", won, left, err)
	}
}
