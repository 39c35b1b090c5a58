package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	realAgentReady = 2 * time.Minute // it computes for 15 s before it listens, on an idle machine
	readyLook      = 100 * time.Millisecond
)

// realAgent is where make peers puts the real agent-server.
func (r *rig) realAgent() string {
	return filepath.Join(r.module, ".peers", "openhands", "bin", "agent-server")
}

// startRealAgent starts the real agent-server and waits until it is ready.
func (r *rig) startRealAgent(ctx context.Context) (*agent, error) {
	dir := r.path("oh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := r.command(ctx, r.realAgent(), "--host", host, "--port", port)
	cmd.Dir, cmd.Env = dir, realAgentEnv(dir, r.search)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	a := &agent{url: "http://" + address, close: func() error { return endRealAgent(cmd, ended) }}
	if err := awaitReady(ctx, a.url, ended); err != nil {
		err = errors.Join(err, a.close()) // before what it has said is read
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return a, nil
}

// endRealAgent stops the server politely, so that it ends what it has started. It ends by
// the signal even so.
func endRealAgent(cmd *exec.Cmd, ended chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := <-ended
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// awaitReady waits until a server answers. What tells of its end is left in ended.
func awaitReady(ctx context.Context, url string, ended chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, realAgentReady, fmt.Errorf("the agent-server is not ready within %v", realAgentReady))
	defer cancel()
	for {
		if err := (&restClient{base: url}).call(ctx, http.MethodGet, "/ready", nil, nil); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return errors.New("the agent-server has ended before it was ready")
		default:
		}
		if err := pause(ctx, readyLook); err != nil {
			return err
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// realAgentEnv is all that the server gets: nothing of the person who measures, and
// nothing that looks outside.
func realAgentEnv(dir, path string) []string {
	return []string{
		"PATH=" + path, "HOME=" + dir, "TMPDIR=" + dir, "TMUX_TMPDIR=" + dir,
		"TZ=UTC", "LANG=C.UTF-8", "PYTHONUTF8=1", "LOG_JSON=true", "OPENHANDS_SUPPRESS_BANNER=1", "OH_SECRET_KEY=secret-key-of-the-bench",
		"OH_CONVERSATIONS_PATH=" + filepath.Join(dir, "conversations"), "OH_BASH_EVENTS_DIR=" + filepath.Join(dir, "bash"),
		"OH_PERSISTENCE_DIR=" + filepath.Join(dir, "persistence"), "OH_CONVERSATION_WORKTREE_ROOT=" + filepath.Join(dir, "worktrees"),
		"OH_ENABLE_VSCODE=false", "OH_ENABLE_VNC=false", "OH_PRELOAD_TOOLS=false",
		"DO_NOT_TRACK=1", "ANONYMIZED_TELEMETRY=false", "LITELLM_LOCAL_MODEL_COST_MAP=True", "NO_PROXY=127.0.0.1,localhost",
	}
}
