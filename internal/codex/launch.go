package codex

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/shlex"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// Launch says how the app-server is started.
type Launch struct {
	Command string   // a command line; with shell syntax it is given to bash -lc
	Program string   // replaces the command's first word; "" keeps it
	Base    string   // the folder that a relative program is relative to
	Env     []string // KEY=value
}

// Argv returns the command as a list of words, the program still to be found.
func (l Launch) Argv() ([]string, error) {
	command := strings.TrimSpace(l.Command)
	if needsShell(command) {
		if l.Program != "" {
			command = quote(l.Program) + strings.TrimPrefix(command, firstWord(command))
		}
		return []string{"bash", "-lc", command}, nil
	}
	argv, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("split the command %q: %v", command, err)
	}
	if len(argv) == 0 {
		return nil, errors.New("the command of the app-server is empty")
	}
	if l.Program != "" {
		argv[0] = l.Program
	}
	return argv, nil
}

// Resolve is Argv with the program found, as an absolute path. Its errors are of the
// type *session.Ending: a wrong command is a CauseConfig, a program that is not there
// CauseUnavailable.
func (l Launch) Resolve() ([]string, error) {
	argv, err := l.Argv()
	if err != nil {
		return nil, session.Failf(wire.CauseConfig, "%v", err)
	}
	program, err := proc.LookPath(argv[0], l.Base, lookup(l.Env))
	if err != nil {
		return nil, session.Failf(wire.CauseUnavailable, "start codex: %v", err)
	}
	argv[0] = program
	return argv, nil
}

// needsShell reports whether a command line means more than a list of words: an
// operator, an expansion or a pattern outside quotes, or an assignment in front.
func needsShell(command string) bool {
	if strings.Contains(firstWord(command), "=") {
		return true
	}
	quoted := rune(0)
	escaped := false
	for _, r := range command {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quoted != '\'':
			escaped = true
		case quoted == 0 && (r == '\'' || r == '"'):
			quoted = r
		case r == quoted:
			quoted = 0
		case quoted == '\'':
		case strings.ContainsRune("$`", r), quoted == 0 && strings.ContainsRune("|&;<>()*?~{}\n", r):
			return true
		}
	}
	return false
}

func firstWord(command string) string {
	word, _, _ := strings.Cut(command, " ")
	return word
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// peer is a running app-server. child is nil where there is no process behind the
// pipes.
type peer struct {
	conn  *conn
	child *proc.Child
	log   string // the file with its stderr
}

// launch starts the app-server in the workspace.
func (c *Config) launch() (*peer, error) {
	argv, err := c.Launch.Resolve()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Place.Run.PeerLog(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, session.Failf(wire.CauseState, "open the app-server's log: %v", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	p, err := c.start(argv, log)
	if err != nil {
		return nil, session.Failf(wire.CauseUnavailable, "start codex: %v", err)
	}
	return p, nil
}

func (c *Config) start(argv []string, log *os.File) (*peer, error) {
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), ourIn.Close())
	}
	child, err := proc.Start(proc.Spec{
		Argv: argv, Dir: c.Place.Workspace.Path, Env: c.Launch.Env,
		Stdin: theirIn, Stdout: theirOut, Stderr: log, Session: true,
	})
	closed := errors.Join(theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, ourIn.Close(), ourOut.Close())
	}
	conn := newConn(ourIn, ourOut, newTracer(c.Trace, c.Now), c.skimmer())
	return &peer{conn: conn, child: child, log: log.Name()}, closed
}

func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				return v
			}
		}
		return ""
	}
}

func (p *peer) exited() <-chan struct{} {
	if p.child == nil {
		return nil
	}
	return p.child.Done()
}

// await waits for the process to end and returns how it did, or "" if it has not.
func (p *peer) await(limit time.Duration, hurry <-chan struct{}) string {
	if p.child == nil {
		return ""
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.child.Done():
		return p.child.Exit().String()
	case <-timer.C:
	case <-hurry:
	}
	return ""
}

// exit returns how the process ended, or nil if it has not or there is none.
func (p *peer) exit() *wire.Exit {
	if p.child == nil {
		return nil
	}
	select {
	case <-p.child.Done():
	default:
		return nil
	}
	e := p.child.Exit()
	if e.Signal != 0 {
		return &wire.Exit{Signal: wire.Text(strings.TrimPrefix(e.String(), "signal "))}
	}
	if e.Code < 0 {
		return nil
	}
	return &wire.Exit{Code: wire.Count(int64(e.Code))}
}

// logNote tells where the peer's stderr is and how long it is. Its content is no
// part of an outcome: anything may stand there.
func (p *peer) logNote() string {
	n, err := countLines(p.log)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("it wrote %d lines to %s", n, p.log)
}

func countLines(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
	n, buf := 0, make([]byte, 64<<10)
	for {
		k, err := f.Read(buf)
		n += bytes.Count(buf[:k], []byte("\n"))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// skimmer is nil where deltas are printed.
func (c *Config) skimmer() *skimmer {
	if c.Deltas {
		return nil
	}
	return &skimmer{now: c.Now}
}
