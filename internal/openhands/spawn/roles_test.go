package spawn

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/state"
)

// roleName makes a copy of the test binary play a part. It is none of the variables
// that a server does not get.
const roleName = "SPAWN_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleName) {
	case "":
		goleak.VerifyTestMain(m)
	default:
		os.Exit(play())
	}
}

// play is the keeper, or the server that it starts, by its arguments.
func play() int {
	if len(os.Args) > 1 && os.Args[1] == "keep" {
		return cli.Main("keep", cli.System(), func(ctx context.Context, env *cli.Env) error {
			return Keep(ctx, Keeping{Dir: env.Args[1], Command: env.Args[3:], Env: env.Environ, Hurry: env.Hurry()})
		})
	}
	return cli.Main("server", cli.System(), serve)
}

// serve is a server that answers what Open asks, and starts a process that leaves it as
// tmux does. Its first argument says how it is ill.
func serve(ctx context.Context, env *cli.Env) error {
	mode := env.Args[0]
	if mode == "dies" {
		return errors.New("no such library")
	}
	if mode == "stubborn" || mode == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	// As package managers leave their caches.
	sealed := filepath.Join(env.Getenv("TMPDIR"), "sealed")
	if err := errors.Join(os.MkdirAll(filepath.Join(sealed, "in"), 0o700), os.Chmod(sealed, 0o500)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.Getenv("TMPDIR"), "started"), []byte(strings.Join(env.Environ, "\n")), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(env.Getenv("OH_PERSISTENCE_DIR")+".server", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "setsid sleep 300 & echo $! >\"$OH_PERSISTENCE_DIR.pid\""},
		&os.ProcAttr{Env: env.Environ})
	if err != nil {
		return err
	}
	if _, err := child.Wait(); err != nil {
		return err
	}
	if mode == "mute" || mode == "deaf" {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/server_info", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":"1.2.3"}`)) })
	mux.HandleFunc("/api/conversations/count", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Session-API-Key") != env.Getenv("OH_SESSION_API_KEYS_0") || mode == "foreign" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("POST /api/conversations/{id}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		id, verb := r.PathValue("id"), r.PathValue("verb")
		if id == "unknown" || id == "old" && verb == "interrupt" || r.Header.Get("X-Session-API-Key") != env.Getenv("OH_SESSION_API_KEYS_0") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = os.WriteFile(env.Getenv("OH_PERSISTENCE_DIR")+"."+verb+"."+id, nil, 0o600) // the test waits for it
	})
	l, err := net.Listen("tcp", net.JoinHostPort(env.Args[2], env.Args[4]))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	stop := context.AfterFunc(ctx, func() {
		if mode != "stubborn" {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if mode == "lingers" {
		<-time.After(time.Second)
	}
	return nil
}

func testConfig(t *testing.T, mode string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "shared")
	c := Config{
		Dir: dir, Keeper: []string{self, "keep"}, Command: []string{self, mode}, Limit: 20 * time.Second, Rand: rand.Reader,
		Env: append(os.Environ(), roleName+"=1", "OH_SECRET_KEY=theirs", "OPENAI_API_KEY=theirs", "OS_RUN_ID=r", "OS_STATE_DIR=/s", "PLAIN=plain"),
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.sweep(ctx); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(state.TempDir("agent-server of " + dir)) // what a kill leaves
	})
	return c
}

func open(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		log, _ := os.ReadFile(LogFile(c.Dir))
		t.Fatalf("%v\n%s", err, log)
	}
	return s
}

// answers tells whether the server is there and takes the session's key.
func (s *Server) answers(t *testing.T) bool {
	t.Helper()
	status, _, err := ask(t.Context(), newClient(), http.MethodGet, s.URL+"/api/conversations/count", s.Key)
	return err == nil && status == http.StatusOK
}

func closeIt(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// daemon is the pid of what the server has started and what has left it.
func daemon(t *testing.T, c Config) int { return pidIn(t, c, "persistence.pid") }

func pidIn(t *testing.T, c Config, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone tells whether no process with that pid runs. One that is dead and that nobody
// has waited for, as the first process of a container may leave it, does not.
func gone(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
}
