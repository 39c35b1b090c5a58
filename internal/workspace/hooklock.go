package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// runLocked runs a hook of p under the lock that the workflow names for it, if it does.
// The time that passes until the lock is had counts against the hook's limit.
func (s *Store) runLocked(ctx context.Context, p Place, h Hook) HookResult {
	name := s.config.Hooks.Locks[h.Name]
	if name == "" {
		return RunHook(ctx, h, s.config.Now)
	}
	began, asked := s.config.Now(), time.Now()
	limited, cancel := withLimit(ctx, h.Timeout)
	defer cancel()
	lock, err := s.awaitLock(limited, p, h.Name, name)
	waited := time.Since(asked)
	var r HookResult
	if err != nil {
		r = unlocked(ctx, limited, h, name, err)
	} else {
		h.Lock = lock
		if h.Timeout > 0 {
			h.Timeout = max(h.Timeout-waited, time.Millisecond)
		}
		r = RunHook(ctx, h, s.config.Now)
		if err := lock.Release(); err != nil && r.Error == "" {
			r.Error = wire.Text(err.Error())
		}
	}
	r.StartedAt, r.DurationMS = wire.At(began), max(0, s.config.Now().Sub(began).Milliseconds())
	r.Lock, r.WaitedMS = name, wire.Count(waited.Milliseconds())
	return r
}

// withLimit is context.WithTimeout where 0 is no limit.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// awaitLock takes the lock of this name, however long it takes. A wait that is worth a
// line is told once.
func (s *Store) awaitLock(ctx context.Context, p Place, hook, name string) (*state.Lock, error) {
	path := s.state.HookLock(name)
	if err := state.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		lock, err := state.Acquire(ctx, path)
		if !errors.Is(err, state.ErrBusy) || ctx.Err() != nil {
			return lock, err
		}
		if !told && s.config.Waits != nil {
			s.config.Waits(p, hook, path)
		}
	}
}

// unlocked is the result of a hook that did not get its lock.
func unlocked(ctx, limited context.Context, h Hook, name string, err error) HookResult {
	r := HookResult{Name: h.Name, Command: h.Script, Status: HookFailed, Error: wire.Text(err.Error())}
	switch {
	case ctx.Err() != nil:
		r.Status, r.Error = HookCancelled, ""
	case limited.Err() != nil:
		r.Status = HookTimedOut
		r.Error = wire.Text(fmt.Sprintf("another hook had the lock %q for %v", name, h.Timeout))
	}
	return r
}
