// Package spawn gives sessions an OpenHands agent-server of their own: it starts one
// for all sessions of a state root, tells where it is and with which key, starts it
// again after it has died, and ends it with the last session that uses it, together
// with all that it has started.
//
// The server has a parent of its own, the keeper (Keep), which outlives the session
// that has started it. Who uses the server is told by a shared flock, so that a killed
// session counts no longer.
//
// It speaks to the server only to learn that it is ready, and to interrupt what a killed
// session has left running (Hold); conversations are internal/openhands' affair. A Server
// and a Hold belong to one goroutine.
package spawn

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
)

// Name is the name of the server among the shared things of a state root.
const Name = "openhands"

const (
	look = 50 * time.Millisecond // how often the keeper's file is read while it starts
	// abandonLimit is for the polite end of a server that is not ready: nothing runs there
	// that would have to be put away.
	abandonLimit = time.Second
	// endLimit is for a keeper that was told to hurry: it kills, and then clears up.
	endLimit = 5 * time.Second
	// logLimit is the size at which the server's log is begun anew.
	logLimit = 16 << 20
)

// Config says how the server is started.
type Config struct {
	Dir     string   // state.Root.Shared(Name); made if missing
	Keeper  []string // the command line that calls Keep
	Command []string // the server's own; --host and --port are added
	Env     []string // KEY=value, for the keeper; see Environ for what the server gets of it
	Limit   time.Duration
	Rand    io.Reader // of the secret key, once
}

// Server is a session's use of the server. URL, Key, Version and Command are set by Open
// and Again.
type Server struct {
	URL     string   // http://127.0.0.1:PORT
	Key     string   // the session key
	Version string   // as the server tells it
	Command []string // that it was started with: the first session's, which may differ from ours

	c      Config
	users  *state.Share
	keeper state.Keeper
}

// record is keeper.json.
type record struct {
	state.Keeper
	URL     string   `json:"url"`
	Version string   `json:"version"`
	Command []string `json:"command"`
	Ready   bool     `json:"ready"`
	Error   string   `json:"error,omitempty"` // why it is no server; the keeper is ending
}

// Files of Config.Dir besides keeper.json.
func (c *Config) startLock() string { return filepath.Join(c.Dir, "start.lock") }

// LogFile is where the server's and the keeper's output goes.
func LogFile(dir string) string { return filepath.Join(dir, "server.log") }

func usersLock(dir string) string { return filepath.Join(dir, "users.lock") }

// Conversations is the folder in which the server keeps its conversations.
func Conversations(dir string) string { return filepath.Join(dir, "conversations") }

func secretFile(dir string) string { return filepath.Join(dir, "secret.key") }

// Open joins the server, and starts it where there is none. It returns once the server
// answers, with an error after Config.Limit. A server that was not there in time is
// ended again, unless others wait for it too.
func Open(ctx context.Context, c Config) (*Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("it is not ready after %v", c.Limit))
	defer cancel()
	s, err := Join(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.ensure(ctx); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonLimit)
		defer cancel()
		return nil, errors.Join(err, s.Close(end))
	}
	return s, nil
}

// Join counts as a session that uses the server, if there is one: so it does not end
// between two sessions of ours. Only Close may be called then.
func Join(ctx context.Context, c Config) (*Server, error) {
	if err := state.MakeDir(c.Dir); err != nil {
		return nil, err
	}
	s := &Server{c: c}
	err := patiently(ctx, func() (err error) {
		s.users, err = state.AcquireShare(ctx, usersLock(c.Dir))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("use the agent-server: %w", err)
	}
	return s, nil
}

// Again is for a session that has lost the server: it returns once the server answers
// again, at the same URL unless somebody has taken its port. A server that has died is
// started anew, with its conversations.
func (s *Server) Again(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.Limit, fmt.Errorf("it is not ready after %v", s.c.Limit))
	defer cancel()
	return s.ensure(ctx)
}

// Gone reports whether the server has died: then only Again helps. A server that still
// runs and does not answer is not gone.
func (s *Server) Gone() bool { return !proc.Alive(s.keeper.PID, s.keeper.PIDStart) }

// patiently repeats what somebody else's lock keeps from being done.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, state.ErrBusy) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// ensure sees to it that a server is there. One session at a time looks.
func (s *Server) ensure(ctx context.Context) (err error) {
	var lock *state.Lock
	err = patiently(ctx, func() (err error) {
		lock, err = state.Acquire(ctx, s.c.startLock())
		return err
	})
	if err != nil {
		return fmt.Errorf("start the agent-server: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	secret, err := s.c.secret()
	if err != nil {
		return err
	}
	s.Key = sessionKey(secret)
	if r := readRecord(s.c.Dir); r.alive() && r.Error == "" {
		if err := s.await(ctx, nil); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return s.start(ctx)
}

// start ends what a killed keeper has left and starts another one, which takes the same
// address if it can.
func (s *Server) start(ctx context.Context) error {
	if err := s.c.sweep(ctx); err != nil {
		return err
	}
	log, err := s.c.openLog()
	if err != nil {
		return fmt.Errorf("open the agent-server's log: %v", err)
	}
	child, err := proc.Start(proc.Spec{
		Argv: slices.Concat(s.c.Keeper, []string{s.c.Dir, "--"}, s.c.Command),
		Dir:  s.c.Dir, Env: proc.Environ(s.c.Env, foreign, map[string]string{mark: s.c.Dir}),
		Stdout: log, Stderr: log, Session: true, Leave: true,
	})
	closeErr := log.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("start the agent-server: %w", err)
	}
	s.keeper = state.Keeper{PID: child.Pid(), PIDStart: child.Started()}
	return errors.Join(closeErr, s.await(ctx, child))
}

// await returns once the keeper says that the server is ready, or why it is not. child
// is the keeper where we have started it: what an older one has written means nothing.
func (s *Server) await(ctx context.Context, child *proc.Child) error {
	var ended <-chan struct{}
	if child != nil {
		ended = child.Done()
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		r := readRecord(s.c.Dir)
		switch {
		case child != nil && r.PID != child.Pid():
		case r.Error != "":
			return fmt.Errorf("start the agent-server: %s; its output is in %s", r.Error, LogFile(s.c.Dir))
		case r.Ready && r.alive():
			s.URL, s.Version, s.Command, s.keeper = r.URL, r.Version, r.Command, r.Keeper
			return nil
		case child == nil && !r.alive():
			return errors.New("the agent-server has ended while we waited for it")
		}
		select {
		case <-tick.C:
		case <-ended:
			if r := readRecord(s.c.Dir); r.PID != child.Pid() || r.Error == "" {
				return fmt.Errorf("start the agent-server: its keeper has ended; its output is in %s", LogFile(s.c.Dir))
			}
			ended = nil
		case <-ctx.Done():
			return fmt.Errorf("start the agent-server: %w; its output is in %s", context.Cause(ctx), LogFile(s.c.Dir))
		}
	}
}

func readRecord(dir string) record {
	var r record
	if err := state.ReadJSON(state.KeeperFile(dir), &r); err != nil {
		return record{} // there is none, or none that says anything
	}
	return r
}

func (r record) alive() bool { return r.PID > 0 && proc.Alive(r.PID, r.PIDStart) }

// CloseWithin is Close with that much time, or until somebody is in a hurry.
func (s *Server) CloseWithin(limit time.Duration, hurry <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	select {
	case err := <-closed:
		return err
	case <-hurry:
		cancel()
		return <-closed // it kills, which takes no long
	}
}

// Close leaves the server. The last one out ends it and waits until nothing of it is
// left; once ctx is done, it is killed.
func (s *Server) Close(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.users.Release()) }()
	last, err := s.users.Last()
	if err != nil || !last {
		return err
	}
	if r := readRecord(s.c.Dir); r.PID > 0 {
		s.keeper = r.Keeper
	}
	keeper := proc.Process{Pid: s.keeper.PID, Started: s.keeper.PIDStart}
	if keeper.Pid > 0 {
		err = endKeeper(ctx, keeper)
	}
	sweep, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	return errors.Join(err, s.c.sweep(sweep))
}

// endKeeper tells the keeper to end, and to hurry once ctx is done.
func endKeeper(ctx context.Context, keeper proc.Process) error {
	if err := proc.SignalTo(keeper, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the agent-server: %v", err)
	}
	if proc.Await(ctx, keeper) == nil {
		return nil
	}
	if err := proc.SignalTo(keeper, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the agent-server: %v", err)
	}
	hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	_ = proc.Await(hurry, keeper) // the sweep kills what is still there
	return nil
}

// sweep kills what belongs to the server and its keeper.
func (c *Config) sweep(ctx context.Context) error {
	_, err := proc.Sweep(ctx, func(env func(string) string) bool { return env(mark) == c.Dir })
	if err != nil {
		return fmt.Errorf("end what an agent-server has left: %w", err)
	}
	return nil
}

func (c *Config) openLog() (*os.File, error) {
	if fi, err := os.Stat(LogFile(c.Dir)); err == nil && fi.Size() > logLimit {
		if err := os.Rename(LogFile(c.Dir), LogFile(c.Dir)+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(LogFile(c.Dir), os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

// secret returns the key with which the server encrypts what it keeps. It is made once:
// with another one the server cannot read the models' keys of older conversations.
func (c *Config) secret() (string, error) {
	key, err := readSecret(c.Dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	var b [32]byte
	if _, err := io.ReadFull(c.Rand, b[:]); err != nil {
		return "", fmt.Errorf("make the agent-server's secret key: %v", err)
	}
	key = hex.EncodeToString(b[:])
	return key, state.WriteFile(secretFile(c.Dir), []byte(key+"\n"))
}

func readSecret(dir string) (string, error) {
	text, err := state.ReadFile(secretFile(dir))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("%q is empty", secretFile(dir))
	}
	return key, nil
}

// sessionKey is the key that clients show. It follows from the secret, so that each
// session knows it and no second secret lies on the disk.
func sessionKey(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("session key"))
	return hex.EncodeToString(mac.Sum(nil))
}
