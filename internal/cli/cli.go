// Package cli is the process shell that the five commands share: streams,
// signals, exit statuses, flags, help and version. It knows nothing of issues,
// records or agents.
//
// A command is a function run(ctx, env) error. Main runs it, prints its error
// once and turns it into an exit status, so that a command never exits, never
// listens for signals and never writes an error by itself. An Env is made once
// for a process and may be read from several goroutines; its streams are as safe
// as the writers behind them.
package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Env is all that a command takes from the outside world.
type Env struct {
	Args    []string // the arguments, without the command's own name
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string         // KEY=value, as in os.Environ
	Dir     string           // the working directory, absolute
	Now     func() time.Time // the wall clock
	Rand    io.Reader        // where ids get their randomness

	name    string
	errs    sync.Mutex // one message at a time on Stderr
	hurry   chan struct{}
	hangup  chan struct{}
	reloads atomic.Bool
}

// System returns the Env of the running process.
func System() *Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	return &Env{
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  stdout{os.Stdout},
		Stderr:  os.Stderr,
		Environ: os.Environ(),
		Dir:     dir,
		Now:     time.Now,
		Rand:    rand.Reader,
	}
}

// Getenv returns the value of the environment variable key, or "". Where a
// variable is given twice the last one counts, as in os/exec.
func (e *Env) Getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// LookupEnv is Getenv that also tells whether the variable is set at all.
func (e *Env) LookupEnv(key string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(e.Environ[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Hurry is closed at the second signal: what is still polite is cut short.
// It is nil, and so never ready, outside Main.
func (e *Env) Hurry() <-chan struct{} { return e.hurry }

// Warnf prints one line for people on stderr, "os-poll: warning: …". It is safe
// for concurrent use.
func (e *Env) Warnf(format string, args ...any) { e.say("warning: "+format, args...) }

// Errorf prints one line for people about a record that could not be done, while the
// command goes on with the next.
func (e *Env) Errorf(format string, args ...any) { e.say(format, args...) }

// Hintf prints what to type next, after an error or a warning.
func (e *Env) Hintf(format string, args ...any) { e.say("hint: "+format, args...) }

func (e *Env) say(format string, args ...any) {
	e.errs.Lock()
	defer e.errs.Unlock()
	// Nothing can be done where even stderr is gone.
	_, _ = fmt.Fprintf(e.Stderr, "%s: %s\n", e.name, fmt.Sprintf(format, args...))
}

// ErrStdoutClosed is what a write to stdout returns once its reader has gone.
// Listers end with 0 on it and say nothing; harnesses stop politely.
var ErrStdoutClosed = errors.New("stdout is closed")

// stdout turns EPIPE on the process's own stdout into ErrStdoutClosed, so that a
// broken pipe to some child is never taken for it.
type stdout struct{ *os.File }

func (s stdout) Write(p []byte) (int, error) {
	n, err := s.File.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = ErrStdoutClosed
	}
	return n, err
}

// WriteString implements io.StringWriter, which would otherwise be the file's own.
func (s stdout) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// Main runs one command and returns its exit status. It owns the context: the
// first SIGINT, SIGTERM or SIGHUP cancels it with an *Interrupted as its cause,
// the second closes Hurry.
func Main(name string, env *Env, run func(context.Context, *Env) error) int {
	env.name = name
	ctx, release := env.listen(context.Background())
	defer release()
	return env.report(run(ctx, env))
}

// report prints err, unless it has been told already, and returns its status.
func (e *Env) report(err error) int {
	var out *Output
	if errors.As(err, &out) {
		if _, err := io.WriteString(e.Stdout, out.Text); err != nil && !errors.Is(err, ErrStdoutClosed) {
			e.say("print: %v", err)
			return StatusFailed
		}
		return StatusOK
	}
	status := Status(err)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return status
	}
	if err != nil && status != StatusOK {
		e.say("%v", err)
		var hint *hinted
		if errors.As(err, &hint) {
			e.Hintf("%s", hint.hint)
		}
	}
	return status
}
