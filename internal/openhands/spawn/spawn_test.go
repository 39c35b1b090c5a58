package spawn

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
)

func TestOneServerForAll(t *testing.T) {
	c := testConfig(t, "well")
	a := open(t, c)
	if a.Version != "1.2.3" || !a.answers(t) || a.Gone() {
		t.Fatalf("the server is %+v", a)
	}
	b := open(t, c)
	if b.URL != a.URL || b.Key != a.Key || b.keeper.PID != a.keeper.PID {
		t.Errorf("the second session has %q of keeper %d, the first one %q of %d", b.URL, b.keeper.PID, a.URL, a.keeper.PID)
	}
	tmux := daemon(t, c)
	closeIt(t, a)
	if !b.answers(t) {
		t.Error("the first one out has ended the server of the second")
	}
	closeIt(t, b)
	if b.answers(t) || !gone(tmux) || !b.Gone() {
		t.Error("the last one out has left something")
	}
	if _, err := os.Stat(state.TempDir("agent-server of " + c.Dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its TMPDIR is left: %v", err)
	}
	again := open(t, c)
	if again.Key != a.Key {
		t.Error("a new server has another key, and cannot read what the first one wrote")
	}
	closeIt(t, again)
}

func TestServersOwnWorld(t *testing.T) {
	c := testConfig(t, "well")
	s := open(t, c)
	defer closeIt(t, s)
	text, err := os.ReadFile(filepath.Join(state.TempDir("agent-server of "+c.Dir), "started"))
	if err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Environ: strings.Split(string(text), "\n")}
	secret, err := readSecret(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"OH_SECRET_KEY": secret, "OPENAI_API_KEY": "", "OS_RUN_ID": "", "OS_STATE_DIR": "", "PLAIN": "plain", "TZ": "UTC",
		"HOME": filepath.Join(c.Dir, "home"), "OH_CONVERSATIONS_PATH": filepath.Join(c.Dir, "conversations"), mark: c.Dir,
	} {
		if got := env.Getenv(name); got != want {
			t.Errorf("the server has %s=%q, want %q", name, got, want)
		}
	}
	fi, err := os.Stat(secretFile(c.Dir))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the secret key: %v, %v", fi.Mode(), err)
	}
	for _, file := range []string{state.KeeperFile(c.Dir), LogFile(c.Dir)} {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), secret) || strings.Contains(string(text), s.Key) {
			t.Errorf("%s tells a key: %v", file, err)
		}
	}
}

// A killed server is started again on demand, a killed keeper's server is ended first.
func TestAgain(t *testing.T) {
	for _, who := range []string{"server", "keeper"} {
		t.Run(who, func(t *testing.T) {
			c := testConfig(t, "well")
			s := open(t, c)
			defer closeIt(t, s)
			key, old, tmux := s.Key, s.URL, daemon(t, c)
			keeper := proc.Process{Pid: s.keeper.PID, Started: s.keeper.PIDStart}
			victim := keeper.Pid
			if who == "server" {
				victim = pidIn(t, c, "persistence.server")
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := proc.Await(t.Context(), keeper); err != nil {
				t.Fatal(err)
			}
			if !s.Gone() {
				t.Error("a server without its keeper is not gone")
			}
			if err := s.Again(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !s.answers(t) || s.Key != key || s.URL != old || !gone(tmux) {
				t.Errorf("after it: %s (before: %s), daemon gone: %v", s.URL, old, gone(tmux))
			}
		})
	}
}

// A session that was killed counts no longer: the keeper ends by itself.
func TestKilledSession(t *testing.T) {
	c := testConfig(t, "well")
	s := open(t, c)
	keeper := proc.Process{Pid: s.keeper.PID, Started: s.keeper.PIDStart}
	tmux := daemon(t, c)
	if err := s.users.Release(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := proc.Await(ctx, keeper); err != nil {
		t.Fatalf("the keeper goes on without a session: %v", err)
	}
	if !gone(tmux) {
		t.Error("what the server had started is left")
	}
}

func take(t *testing.T, c Config, id string) *Hold {
	t.Helper()
	h, err := Take(t.Context(), c.Dir, id)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// eventually waits for what the keeper does at its next look.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick, over := time.NewTicker(look), time.NewTimer(10*time.Second)
	defer tick.Stop()
	defer over.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("%s: not in 10 s", what)
		}
	}
}

// What ran for a session that was killed is interrupted, though the server goes on for
// the others; what runs for them, or has ended, is not.
func TestAbandoned(t *testing.T) {
	c := testConfig(t, "well")
	s := open(t, c)
	defer closeIt(t, s)
	kept, ended := take(t, c, "kept"), take(t, c, "ended")
	if err := ended.Release(true); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"killed", "old", "unknown"} {
		if err := take(t, c, id).share.Release(); err != nil { // as the kernel does
			t.Fatal(err)
		}
	}
	if err := take(t, c, "busy").Release(false); err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(c.Dir, name))
		return err == nil
	}
	eventually(t, "interrupts", func() bool {
		return there("persistence.interrupt.killed") && there("persistence.interrupt.busy") && there("persistence.pause.old")
	})
	eventually(t, "holds that nobody has", func() bool {
		files, _ := filepath.Glob(holdFile(c.Dir, "*"))
		return len(files) == 1 && files[0] == kept.path
	})
	if there("persistence.interrupt.kept") || there("persistence.interrupt.ended") {
		t.Error("what runs, or has ended, was interrupted")
	}
	if err := kept.Release(true); err != nil {
		t.Error(err)
	}
}

// Nobody joins a server that is on its way out: neither one whose keeper was told to
// end, nor one that nobody used any more.
func TestOpenWhileItEnds(t *testing.T) {
	for _, why := range []string{"told", "unused"} {
		t.Run(why, func(t *testing.T) {
			c := testConfig(t, "lingers")
			a := open(t, c)
			if why == "told" {
				defer closeIt(t, a)
				if err := proc.SignalTo(proc.Process{Pid: a.keeper.PID, Started: a.keeper.PIDStart}, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			} else if err := a.users.Release(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end of the server's answers", func() bool { return !a.answers(t) })
			b := open(t, c)
			defer closeIt(t, b)
			if !b.answers(t) || b.keeper.PID == a.keeper.PID {
				t.Errorf("the second session has joined what has ended: keeper %d, before %d", b.keeper.PID, a.keeper.PID)
			}
		})
	}
}

// Where the state root is gone as well nobody can come any more.
func TestFolderIsGone(t *testing.T) {
	c := testConfig(t, "well")
	s := open(t, c)
	keeper := proc.Process{Pid: s.keeper.PID, Started: s.keeper.PIDStart}
	if err := errors.Join(s.users.Release(), os.RemoveAll(c.Dir)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := proc.Await(ctx, keeper); err != nil {
		t.Errorf("the keeper of a folder that is gone: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	tests := []struct{ mode, want string }{
		{"dies", "has ended before it was ready"},
		{"foreign", "does not take its own session key"},
		{"mute", "not ready after"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			c := testConfig(t, tt.mode)
			if tt.mode == "mute" {
				c.Limit = 2 * time.Second
			}
			_, err := Open(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), LogFile(c.Dir)) {
				t.Errorf("Open: %v, want %q and the log", err, tt.want)
			}
			if r := readRecord(c.Dir); r.alive() {
				t.Error("the keeper is left")
			}
		})
	}
	c := testConfig(t, "well")
	c.Keeper = []string{filepath.Join(c.Dir, "none")}
	if _, err := Open(t.Context(), c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a keeper that is not there: %v", err)
	}
}

// Whoever gives up on a server that is not ready does not wait for it, polite or not.
func TestOpenIsAbandoned(t *testing.T) {
	for _, mode := range []string{"mute", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			c := testConfig(t, mode)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			time.AfterFunc(300*time.Millisecond, cancel)
			if _, err := Open(ctx, c); !errors.Is(err, context.Canceled) {
				t.Errorf("Open: %v, want it to be abandoned", err)
			}
			if took := time.Since(begun); took > abandonLimit+2*time.Second {
				t.Errorf("it took %v", took)
			}
			if r := readRecord(c.Dir); r.alive() {
				t.Error("the keeper is left")
			}
		})
	}
}

// A server that does not end by itself is killed once the session is in a hurry.
func TestCloseHurries(t *testing.T) {
	c := testConfig(t, "stubborn")
	s := open(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second || !s.Gone() || s.answers(t) {
		t.Errorf("it took %v; gone: %v", took, s.Gone())
	}
}

// A symbolic link in place of the TMPDIR, in the folder that is everybody's, stays.
func TestTempOfSomebodyElse(t *testing.T) {
	c := testConfig(t, "well")
	temp := state.TempDir("agent-server of " + c.Dir)
	if err := os.Symlink(t.TempDir(), temp); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("Open: %v", err)
	}
	if fi, err := os.Lstat(temp); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if err := os.Remove(temp); err != nil {
		t.Fatal(err)
	}
}

// Who joins keeps the server between two sessions, and is the last one out.
func TestJoin(t *testing.T) {
	c := testConfig(t, "well")
	joined, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	first := open(t, c)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := open(t, c)
	if !second.answers(t) || second.keeper != first.keeper {
		t.Errorf("the second session has the keeper %+v, the first had %+v", second.keeper, first.keeper)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := joined.CloseWithin(10*time.Second, nil); err != nil || !second.Gone() || second.answers(t) {
		t.Errorf("after the last: %v, gone %v", err, second.Gone())
	}
}
