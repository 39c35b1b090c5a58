package ostoolkit_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// openHandsReady is generous: the server computes for 15 s before it listens, and
	// several scripts start one at once.
	openHandsReady = 2 * time.Minute
	// openHandsStop is how long the server may take to end politely. It waits half a
	// minute for a running tool, which no test has a use for.
	openHandsStop = 3 * time.Second

	openHandsKey = "session-key-of-the-test"
	peerVar      = "OS_TEST_PEER" // the script's id, on what the server starts
)

// openhandsserver [-shared] [SCRIPT]: serve a scripted model, unless codexmodel does
// already, and the real agent-server, until the script's end. It sets OPENHANDS_URL,
// OPENHANDS_KEY, MODEL_URL and MODEL_LOG, writes openhands.pid (signal KILL openhands) and
// openhands.log. Once more in the same script it starts a new server on the old address
// and state, when the old one has ended. The start costs 15 s of computing: -shared uses
// one that all scripts share which do not kill it and look for nothing that it leaves.
func cmdOpenHandsServer(ts *testscript.TestScript, neg bool, args []string) {
	shared := len(args) > 0 && args[0] == "-shared"
	if shared {
		args = args[1:]
	}
	if neg || len(args) > 1 {
		ts.Fatalf("usage: openhandsserver [-shared] [script]")
	}
	if ts.Getenv("MODEL_URL") == "" {
		serveModel(ts, args)
	}
	ts.Setenv("OPENHANDS_KEY", openHandsKey)
	if shared {
		s, err := sharedOpenHands.get(ts.Getenv("PATH"))
		ts.Check(err)
		ts.Setenv("OPENHANDS_URL", s.url)
		return
	}
	if ts.Getenv("OPENHANDS_URL") == "" {
		dir, err := os.MkdirTemp("", "oh") // tmux wants a short path, and $WORK is the agent's
		ts.Check(err)
		ts.Defer(func() {
			if err := os.RemoveAll(dir); err != nil {
				ts.Logf("remove the server's folder: %v", err)
			}
		})
		ts.Setenv("OPENHANDS_DIR", dir)
		address, err := freePort()
		ts.Check(err)
		ts.Setenv("OPENHANDS_URL", "http://"+address)
	}
	s := &openHandsServer{
		url: ts.Getenv("OPENHANDS_URL"), dir: ts.Getenv("OPENHANDS_DIR"), log: ts.MkAbs("openhands.log"), id: ts.Getenv(testIDVar),
	}
	ts.Check(s.start(ts.Getenv("PATH")))
	ts.Defer(s.stop)
	ts.Check(os.WriteFile(ts.MkAbs("openhands.pid"), []byte(strconv.Itoa(s.cmd.Process.Pid)), 0o600))
	ts.Check(s.awaitReady())
}

// openHandsServer is one run of the real agent-server.
type openHandsServer struct {
	url   string
	dir   string // HOME, state and tmux sockets
	log   string
	id    string // the script's
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is reaped
}

// sharedServer is started by the first script that asks for it.
type sharedServer struct {
	once   sync.Once
	server *openHandsServer // nil: nobody has asked
	err    error
}

var sharedOpenHands sharedServer

func (s *sharedServer) get(path string) (*openHandsServer, error) {
	s.once.Do(func() { s.server, s.err = startShared(path) })
	return s.server, s.err
}

func startShared(path string) (*openHandsServer, error) {
	dir, err := os.MkdirTemp("", "oh")
	if err != nil {
		return nil, err
	}
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &openHandsServer{url: "http://" + address, dir: dir, log: filepath.Join(dir, "log"), id: sharedID()}
	if err := s.start(path); err != nil {
		return nil, err
	}
	return s, s.awaitReady()
}

// end is for the end of all tests.
func (s *sharedServer) end() error {
	if s.server == nil || s.server.cmd == nil {
		return nil
	}
	s.server.stop()
	return os.RemoveAll(s.server.dir)
}

func sharedID() string { return fmt.Sprintf("%d-shared", os.Getpid()) }

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *openHandsServer) start(path string) error {
	bin, err := peerOpenHands()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	cmd := exec.Command(bin, "--host", "127.0.0.1", "--port", port)
	cmd.Dir, cmd.Env = s.dir, openHandsEnv(s.dir, s.id, path)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends is the script's affair
		close(s.ended)
	}()
	return nil
}

// openHandsEnv is all that the server gets: nothing of the person who runs the tests,
// nothing that looks outside, a secret key that outlives a restart.
func openHandsEnv(dir, id, path string) []string {
	return []string{
		"PATH=" + path, "HOME=" + dir, "TMPDIR=" + dir, "TMUX_TMPDIR=" + dir, peerVar + "=" + id, testIDVar + "=" + id,
		"TZ=UTC", "LANG=C.UTF-8", "PYTHONUTF8=1", "PYTHONUNBUFFERED=1", "LOG_JSON=true", "OPENHANDS_SUPPRESS_BANNER=1",
		"OH_SESSION_API_KEYS_0=" + openHandsKey, "OH_SECRET_KEY=secret-key-of-the-test",
		"OH_CONVERSATIONS_PATH=" + filepath.Join(dir, "conversations"),
		"OH_BASH_EVENTS_DIR=" + filepath.Join(dir, "bash"),
		"OH_PERSISTENCE_DIR=" + filepath.Join(dir, "persistence"),
		"OH_CONVERSATION_WORKTREE_ROOT=" + filepath.Join(dir, "worktrees"),
		"OH_ENABLE_VSCODE=false", "OH_ENABLE_VNC=false", "OH_PRELOAD_TOOLS=false",
		"DO_NOT_TRACK=1", "ANONYMIZED_TELEMETRY=false", "LITELLM_LOCAL_MODEL_COST_MAP=True",
		"NO_PROXY=127.0.0.1,localhost",
	}
}

func (s *openHandsServer) awaitReady() error {
	client := &http.Client{Timeout: 5 * time.Second}
	ready := false
	eventually(openHandsReady, func() bool {
		select {
		case <-s.ended:
			return true
		default:
		}
		resp, err := client.Get(s.url + "/ready")
		if err == nil {
			ready = resp.StatusCode == http.StatusOK
			_ = resp.Body.Close() // the status was all
		}
		return ready
	})
	if ready {
		return nil
	}
	log, err := os.ReadFile(s.log)
	return errors.Join(fmt.Errorf("the agent-server is not ready: %s", tail(string(log), 2000)), err)
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// stop ends the server and the tmux servers of its conversations, which leave its
// process group and outlive it.
func (s *openHandsServer) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(openHandsStop):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
	}
	eventually(leftoverWait, func() bool {
		left := openHandsProcesses(s.id)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // as above
		}
		return len(left) == 0
	})
}

// openHandsProcesses returns the server of a script and all that it has started. Where
// there is no /proc it returns none, and nobody looks for leftovers either.
func openHandsProcesses(id string) []int {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	mark := []byte(peerVar + "=" + id + "\x00")
	var pids []int
	for _, file := range environs {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, mark) {
			continue // gone, or another's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
