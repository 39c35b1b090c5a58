package openhands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

const (
	// readyLimit is how long a server may take to start: it computes for 20 s on a slow
	// machine before it listens.
	readyLimit  = time.Minute
	readyEvery  = 200 * time.Millisecond
	maxRestarts = 2
)

// Spawn says how a server of our own is started, ended with the session.
type Spawn struct {
	Argv []string // to which --host and --port are added
	Dir  string   // where Argv[0] is found, if it is a path
	Env  []string // KEY=value; what a server needs is added
	Home string   // the folder with its state, private to the issue
	Temp string   // its TMPDIR, short and private to the run
}

// server is a server of our own. A nil one is somebody else's.
type server struct {
	child    *proc.Child
	restarts int
	env      []string
	port     string
}

func (s *server) exited() <-chan struct{} {
	if s == nil || s.child == nil {
		return nil
	}
	return s.child.Done()
}

// exit returns how the process ended, or nil if it has not or there is none.
func (s *server) exit() *wire.Exit {
	if s == nil || s.child == nil {
		return nil
	}
	select {
	case <-s.child.Done():
	default:
		return nil
	}
	e := s.child.Exit()
	if e.Signal != 0 {
		return &wire.Exit{Signal: wire.Text(strings.TrimPrefix(e.String(), "signal "))}
	}
	return &wire.Exit{Code: wire.Count(int64(e.Code))}
}

// spawn starts a server and waits until it is ready.
func (d *driver) spawn() error {
	sp := d.cfg.Server.Spawn
	key, err := randomHex(d.cfg.Rand)
	if err != nil {
		return session.Failf(wire.CauseInternal, "make a session key: %v", err)
	}
	secret, err := secretKey(sp.Home, d.cfg.Rand)
	if err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	port, err := freePort()
	if err != nil {
		return session.Failf(wire.CauseUnavailable, "find a free port: %v", err)
	}
	d.server = &server{port: port, env: sp.environ(key, secret)}
	d.cfg.Server.URL, d.cfg.Server.Key = "http://127.0.0.1:"+port, key
	d.secrets = newRedactor(append(d.cfg.secrets(), secret))
	return d.launch()
}

// launch starts the process.
func (d *driver) launch() error {
	sp := d.cfg.Server.Spawn
	log, err := os.OpenFile(d.cfg.Place.Run.PeerLog(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return session.Failf(wire.CauseState, "open the agent-server's log: %v", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	argv := append(append([]string{}, sp.Argv...), "--host", "127.0.0.1", "--port", d.server.port)
	if strings.ContainsRune(argv[0], filepath.Separator) && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(sp.Dir, argv[0])
	}
	child, err := proc.Start(proc.Spec{Argv: argv, Dir: sp.Home, Env: d.server.env, Stdout: log, Stderr: log, Session: true})
	if err != nil {
		return session.Failf(wire.CauseUnavailable, "start agent-server: %v", err)
	}
	d.server.child = child
	return nil
}

// environ is the environment of the server: nothing of another server's, folders of its
// own, and nothing that asks the network for more than the model.
func (sp *Spawn) environ(key, secret string) []string {
	at := func(name string) string { return filepath.Join(sp.Home, name) }
	set := map[string]string{
		"HOME": at("home"), "TMPDIR": sp.Temp, "TMUX_TMPDIR": sp.Temp, "TZ": "UTC",
		"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "LOG_JSON": "true", "OPENHANDS_SUPPRESS_BANNER": "1",
		"OH_SESSION_API_KEYS_0": key, "OH_SECRET_KEY": secret,
		"OH_CONVERSATIONS_PATH": at("conversations"), "OH_BASH_EVENTS_DIR": at("bash"), "OH_PERSISTENCE_DIR": at("persistence"),
		"OH_CONVERSATION_WORKTREE_ROOT": at("worktrees"),
		"OH_ENABLE_VSCODE":              "false", "OH_ENABLE_VNC": "false", "OH_PRELOAD_TOOLS": "false",
		"DO_NOT_TRACK": "1", "ANONYMIZED_TELEMETRY": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
	}
	if !speaksUTF8(sp.Env) {
		set["LC_ALL"] = "C.UTF-8"
	}
	return proc.Environ(sp.Env, foreign, set)
}

// speaksUTF8 reports whether the locale has UTF-8: without it tmux garbles the answers
// that the server reads, and no terminal can be had.
func speaksUTF8(environ []string) bool {
	values := make(map[string]string)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	locale := strings.ToLower(cmp.Or(values["LC_ALL"], values["LC_CTYPE"], values["LANG"]))
	return strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
}

// foreign tells variables that would make the server another's, or that make it wait
// for a person.
func foreign(name string) bool {
	for _, prefix := range []string{"OH_", "LMNR_", "OTEL_", "OPENHANDS_AGENT_SERVER_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "SESSION_API_KEY" || name == "DEBUG_LLM" || name == "TMUX"
}

func randomHex(random io.Reader) (string, error) {
	var b [24]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// secretKey returns the key with which the server keeps secrets, made once: with another
// one it could not read what it has written.
func secretKey(home string, random io.Reader) (string, error) {
	for _, dir := range []string{home, filepath.Join(home, "home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make the agent-server's folder: %w", err)
		}
	}
	path := filepath.Join(home, "secret.key")
	b, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(b)) > 0 {
		return string(bytes.TrimSpace(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the agent-server's secret key: %w", err)
	}
	key, err := randomHex(random)
	if err != nil {
		return "", fmt.Errorf("make a secret key: %v", err)
	}
	return key, state.WriteFile(path, []byte(key+"\n"))
}

// freePort returns a port that is free now. Another may take it before the server does,
// which then ends at once.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// awaitReady waits until a server of our own answers.
func (d *driver) awaitReady() error {
	if d.server == nil {
		return nil
	}
	ready := request{op: "ready", method: "GET", path: "/ready", root: true, limit: readLimit}
	for due := d.clocks.Elapsed() + readyLimit; ; {
		_, err := d.call(ready)
		switch {
		case err == nil, isEnding(err):
			return err
		case d.clocks.Elapsed() >= due:
			return &session.Ending{Outcome: wire.Failed, Category: wire.CauseUnavailable,
				Message: fmt.Sprintf("agent-server was not ready within %v", readyLimit), Detail: d.logNote()}
		}
		if err := d.sleep(readyEvery); err != nil {
			return err
		}
	}
}

// serverEnded starts a server again that has ended by itself; the conversation is on
// disk. One that never answered would not do so the next time either.
func (d *driver) serverEnded() {
	exit := d.server.child.Exit()
	d.sweep()
	if d.id == "" || d.server.restarts >= maxRestarts {
		category := wire.CausePeerDied
		if d.id == "" {
			category = wire.CauseUnavailable
		}
		d.fail(&session.Ending{Outcome: wire.Failed, Category: category,
			Message: fmt.Sprintf("agent-server ended with %v", exit), Detail: d.logNote()})
		return
	}
	d.server.restarts++
	d.warn("server_restarted", fmt.Sprintf("agent-server ended with %v, and is started again", exit))
	if err := d.launch(); err != nil {
		d.fail(session.EndingOf(err))
	}
}

// sweep ends what the server has started outside its group: above all the terminals,
// whose commands go on without it.
func (d *driver) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	sockets, _ := filepath.Glob(filepath.Join(d.cfg.Server.Spawn.Temp, "tmux-*", "openhands-*")) // the pattern is good
	for _, socket := range sockets {
		child, err := proc.Start(proc.Spec{Argv: []string{"tmux", "-S", socket, "kill-server"}, Env: d.server.env})
		if err != nil {
			break // there is no tmux, and so no terminal of it
		}
		select {
		case <-child.Done():
		case <-ctx.Done():
		}
	}
	if d.cfg.Sweep != nil {
		d.cfg.Sweep(ctx)
	}
}

// logNote tells where the server's output is; its content is no part of an outcome.
func (d *driver) logNote() string {
	return "its output is in " + strconv.Quote(d.cfg.Place.Run.PeerLog())
}
