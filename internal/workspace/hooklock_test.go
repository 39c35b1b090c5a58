package workspace

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/workflow"
)

// lockedStore has a before_run that wants a lock which somebody else holds until release.
func lockedStore(t *testing.T, timeout time.Duration) (s *Store, p Place, waits chan string, release func()) {
	t.Helper()
	c := configIn(canonicalDir(t))
	c.Hooks = workflow.Hooks{BeforeRun: "echo ran", Timeout: timeout, Locks: map[string]string{"before_run": "one"}}
	waits = make(chan string, 8)
	c.Waits = func(p Place, hook, lock string) { waits <- p.Key + " " + hook + " " + filepath.Base(lock) }
	s = open(t, c)
	p = place(t, s, "1", "A-1")
	must(t, p.Dir.Make())
	ensure(t, s, p)
	path := s.State().HookLock("one")
	must(t, state.MakeDir(filepath.Dir(path)))
	lock, err := state.Acquire(t.Context(), path)
	must(t, err)
	return s, p, waits, func() { must(t, lock.Release()) }
}

func (s *Store) beforeRun(ctx context.Context, p Place) *HookResult {
	return s.RunHook(ctx, p, "before_run", filepath.Join(string(p.Dir), "log"), nil)
}

func TestHookWaitsForItsLock(t *testing.T) {
	s, p, waits, release := lockedStore(t, time.Minute)
	done := make(chan *HookResult)
	go func() { done <- s.beforeRun(t.Context(), p) }()
	if told := <-waits; told != "A-1 before_run one" {
		t.Errorf("told %q", told)
	}
	release()
	r := <-done
	if !r.Succeeded() || r.Lock != "one" || r.WaitedMS == nil || *r.WaitedMS < 900 || r.OutputHead != "ran\n" {
		t.Errorf("got %+v", r)
	}
	if len(waits) > 0 {
		t.Error("it was told more than once")
	}
	// The lock is free again.
	if r := s.beforeRun(t.Context(), p); !r.Succeeded() || *r.WaitedMS > 900 || len(waits) > 0 {
		t.Errorf("afterwards: %+v", r)
	}
	// A hook without a lock waits for nothing and says nothing of one.
	s.config.Hooks.AfterRun = "true"
	if r := s.RunHook(t.Context(), p, "after_run", filepath.Join(string(p.Dir), "log"), nil); !r.Succeeded() || r.Lock != "" || r.WaitedMS != nil {
		t.Errorf("without a lock: %+v", r)
	}
}

func TestHookThatDoesNotGetItsLock(t *testing.T) {
	s, p, _, release := lockedStore(t, 50*time.Millisecond)
	defer release()
	r := s.beforeRun(t.Context(), p)
	if r.Status != HookTimedOut || r.ExitCode != nil || r.Error != `another hook had the lock "one" for 50ms` {
		t.Errorf("timeout: %+v", r)
	}
	if text := (&HookError{*r}).Error(); text != `before_run hook timed out: another hook had the lock "one" for 50ms` {
		t.Error(text)
	}
	s.config.Hooks.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := s.beforeRun(ctx, p); r.Status != HookCancelled || r.Error != "" {
		t.Errorf("stop: %+v", r)
	}
}

func TestHookWhoseLockIsNoFile(t *testing.T) {
	s, p, _, release := lockedStore(t, time.Minute)
	defer release()
	s.config.Hooks.Locks["before_run"] = "two"
	must(t, state.MakeDir(s.State().HookLock("two")))
	if r := s.beforeRun(t.Context(), p); r.Status != HookFailed || !strings.Contains(string(r.Error), "two") {
		t.Errorf("got %+v", r)
	}
}
