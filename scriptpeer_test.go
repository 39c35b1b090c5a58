package ostoolkit_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// openhandsserver [SCRIPT]: serve a scripted model, unless codexmodel does already, and
// the real agent-server, until the script's end. It sets OPENHANDS_URL, OPENHANDS_KEY,
// MODEL_URL and MODEL_LOG, writes openhands.pid (signal KILL openhands) and
// openhands.log. Once more in the same script it starts a new server on the old
// address and state, when the old one has ended. The start costs 15 s of computing: put
// what can share a server into one script.
func cmdOpenHandsServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: openhandsserver [script]")
	}
	if ts.Getenv("MODEL_URL") == "" {
		serveModel(ts, args)
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
		ts.Setenv("OPENHANDS_KEY", openHandsKey)
		ts.Setenv("OPENHANDS_URL", "http://"+freeAddress(ts))
	}
	s := startOpenHands(ts)
	ts.Defer(s.stop)
	s.awaitReady(ts)
}

// openHandsServer is one run of the real agent-server.
type openHandsServer struct {
	cmd   *exec.Cmd
	dir   string        // HOME, state and tmux sockets
	id    string        // the script's
	ended chan struct{} // closed when the process is reaped
}

func freeAddress(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	return l.Addr().String()
}

func startOpenHands(ts *testscript.TestScript) *openHandsServer {
	bin, err := peerOpenHands()
	ts.Check(err)
	s := &openHandsServer{dir: ts.Getenv("OPENHANDS_DIR"), id: ts.Getenv(testIDVar), ended: make(chan struct{})}
	log, err := os.OpenFile(ts.MkAbs("openhands.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(ts.Getenv("OPENHANDS_URL"), "http://"))
	ts.Check(err)
	s.cmd = exec.Command(bin, "--host", "127.0.0.1", "--port", port)
	s.cmd.Dir, s.cmd.Env = s.dir, openHandsEnv(s.dir, s.id, ts.Getenv("PATH"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ts.Check(s.cmd.Start())
	go func() {
		_ = s.cmd.Wait() // how it ends is the script's affair
		close(s.ended)
	}()
	ts.Check(os.WriteFile(ts.MkAbs("openhands.pid"), []byte(strconv.Itoa(s.cmd.Process.Pid)), 0o600))
	return s
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

func (s *openHandsServer) awaitReady(ts *testscript.TestScript) {
	client := &http.Client{Timeout: 5 * time.Second}
	url := ts.Getenv("OPENHANDS_URL") + "/ready"
	ready := false
	eventually(openHandsReady, func() bool {
		select {
		case <-s.ended:
			return true
		default:
		}
		resp, err := client.Get(url)
		if err == nil {
			ready = resp.StatusCode == http.StatusOK
			_ = resp.Body.Close() // the status was all
		}
		return ready
	})
	if !ready {
		ts.Fatalf("the agent-server is not ready: %s", tail(ts.ReadFile("openhands.log"), 2000))
	}
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
