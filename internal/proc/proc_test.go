package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleName makes a copy of the test binary play a part instead of running tests.
const roleName = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleName); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	switch role {
	case "take-lock": // of descriptor 3, and die with it held
		if err := syscall.Flock(3, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return 2
}

// start starts a shell script and returns its stdout; the child is gone after the test.
func start(t *testing.T, script string, change func(*Spec)) (*Child, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: w}
	if change != nil {
		change(&s)
	}
	c, err := Start(s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop(nil, c.Send(syscall.SIGKILL, 10*time.Second))
		r.Close()
	})
	return c, bufio.NewReader(r)
}

func readPid(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	var pid int
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "%d", &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return pid
}

// eofOf waits until nobody holds the other end, which is when all its holders are dead.
func eofOf(t *testing.T, r *bufio.Reader) {
	t.Helper()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, err := r.ReadByte(); err != nil {
				return
			}
		}
	}()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("somebody still holds the pipe")
	}
}

func TestExit(t *testing.T) {
	for script, want := range map[string]struct {
		exit   Exit
		status int
		text   string
	}{
		"exit 0":        {Exit{}, 0, "exit status 0"},
		"exit 3":        {Exit{Code: 3}, 3, "exit status 3"},
		"kill -TERM $$": {Exit{-1, syscall.SIGTERM}, 143, "signal SIGTERM"},
	} {
		c, _ := start(t, script, nil)
		<-c.Done()
		e := c.Exit()
		if e != want.exit || e.Status() != want.status || e.String() != want.text || e.Success() != (want.status == 0) {
			t.Errorf("%s: got %+v, %d, %q", script, e, e.Status(), e)
		}
	}
	if lost := exitOf(nil, errors.New("stolen")); lost.Success() || lost.Status() != 1 || lost.Signal != 0 {
		t.Errorf("an unknown end: %+v", lost)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		spec Spec
		want error
		text string
	}{
		{"missing in PATH", Spec{Argv: []string{"nope"}, Env: []string{"PATH=/bin:/x"}}, fs.ErrNotExist, `"nope" in PATH "/bin:/x"`},
		{"missing file", Spec{Argv: []string{"./nope"}, Dir: dir}, fs.ErrNotExist, filepath.Join(dir, "nope")},
		{"not executable", Spec{Argv: []string{plain}}, fs.ErrPermission, plain},
		{"not executable in PATH", Spec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, fs.ErrPermission, dir},
		{"a folder", Spec{Argv: []string{dir}}, fs.ErrPermission, "is a directory"},
		{"no command", Spec{}, nil, "the command is empty"},
		{"missing dir", Spec{Argv: []string{"/bin/sh"}, Dir: filepath.Join(dir, "gone")}, nil, "gone"},
	} {
		_, err := Start(tt.spec)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if tt.want == nil && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v is taken for a missing program", tt.name, err)
		}
	}
	if n := len(children.known); n != 0 {
		t.Errorf("%d children are known after failed starts", n)
	}
}

func TestChildGetsWhatItsSpecSays(t *testing.T) {
	t.Setenv("SECRET_X", "1")
	extra, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, out := start(t, `echo "$PWD|$SECRET_X|$(cat)|"; echo extra >&3`, func(s *Spec) {
		s.Dir, s.Extra = dir, []*os.File{extra}
	})
	line, _ := out.ReadString('\n')
	if want := dir + "|||\n"; line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	<-c.Done()
	if text, _ := os.ReadFile(extra.Name()); string(text) != "extra\n" {
		t.Errorf("descriptor 3 got %q", text)
	}
}

func TestNilEnvIsEmpty(t *testing.T) {
	t.Setenv("SECRET_X", "1")
	c, out := start(t, `echo "<$SECRET_X>"`, func(s *Spec) { s.Argv[0], s.Env = "/bin/sh", nil })
	if line, _ := out.ReadString('\n'); line != "<>\n" {
		t.Errorf("got %q", line)
	}
	<-c.Done()
}

func TestSessionAndGroup(t *testing.T) {
	for _, session := range []bool{false, true} {
		c, out := start(t, "echo $$; read never", func(s *Spec) { s.Session = session; s.Stdin = endless(t) })
		pid := readPid(t, out)
		group, err := syscall.Getpgid(pid)
		if err != nil || pid != c.Pid() || group != pid {
			t.Errorf("session %v: pid %d of group %d, %v", session, pid, group, err)
		}
	}
}

// endless is a stdin on which nothing ever comes.
func endless(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

func TestStopEndsTheGroup(t *testing.T) {
	// The inner shell ignores TERM and holds the pipe.
	c, out := start(t, `sh -c 'trap "" TERM; echo ready; while :; do sleep 0.1; done' & wait`, nil)
	if line, _ := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q", line)
	}
	c.Stop(nil, c.Send(syscall.SIGTERM, 10*time.Second), c.Send(syscall.SIGKILL, 10*time.Second))
	if c.Exit().Signal != syscall.SIGTERM {
		t.Errorf("got %v", c.Exit())
	}
	eofOf(t, out)
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("a signal after the end: %v", err)
	}
}

func TestGroupIsBuriedAtItsLeadersOwnEnd(t *testing.T) {
	c, out := start(t, "sleep 600 & exit 0", nil)
	<-c.Done()
	if !c.Exit().Success() {
		t.Errorf("got %v", c.Exit())
	}
	eofOf(t, out)
}

func TestStopHurried(t *testing.T) {
	c, out := start(t, `trap "" TERM; echo ready; while :; do sleep 0.1; done`, nil)
	if line, _ := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q", line)
	}
	hurry := make(chan struct{})
	var done []string
	note := func(name string) Step { return Step{Do: func() { done = append(done, name) }, Wait: time.Hour} }
	first := note("first")
	first.Do = func() { done = append(done, "first"); close(hurry) }
	c.Stop(hurry, first, note("never"), c.Send(syscall.SIGKILL, 10*time.Second))
	if strings.Join(done, " ") != "first" || c.Exit().Signal != syscall.SIGKILL {
		t.Errorf("did %q, ended with %v", done, c.Exit())
	}
}

func TestStopGivesUp(t *testing.T) {
	c, _ := start(t, "exec sleep 600", nil)
	c.Stop(nil, Step{Wait: time.Millisecond}, Step{Do: func() {}, Wait: time.Millisecond})
	select {
	case <-c.Done():
		t.Error("nothing was done, and the child has ended")
	default:
	}
}

func TestAlive(t *testing.T) {
	c, _ := start(t, "exec sleep 600", nil)
	if c.Started() == "" || !Alive(c.Pid(), c.Started()) {
		t.Errorf("pid %d, started %q: not alive", c.Pid(), c.Started())
	}
	if Alive(c.Pid(), c.Started()+"0") {
		t.Error("another process with the same pid is taken for it")
	}
	c.Stop(nil, c.Send(syscall.SIGKILL, 10*time.Second))
	if Alive(c.Pid(), c.Started()) {
		t.Error("alive after its end")
	}
}

// No exit status may be lost to the reaper, however the two interleave.
func TestManyChildrenUnderTheReaper(t *testing.T) {
	if err := Subreap(); err != nil {
		t.Fatal(err)
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() { // a reaper far busier than the real one
		defer close(gone)
		for !ended(quit) {
			children.reap()
			runtime.Gosched()
		}
	}()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range 200 {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// Each leaves an orphan as well.
			c, err := Start(Spec{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("(true &); exit %d", i)}})
			if err != nil {
				t.Error(err)
				return
			}
			<-c.Done()
			if c.Exit().Code != i || c.Started() == "" {
				t.Errorf("child %d: %v, started %q", i, c.Exit(), c.Started())
			}
		})
	}
	wg.Wait()
	close(quit)
	<-gone
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := KillDescendants(ctx); err != nil {
		t.Error(err)
	}
	if left := len(children.known); left != 0 {
		t.Errorf("%d children are still known", left)
	}
}

func TestEnviron(t *testing.T) {
	got := Environ(
		[]string{"B=1", "A=x", "junk", "=odd", "B=2", "TOKEN=t", "EMPTY="},
		func(name string) bool { return name == "TOKEN" },
		map[string]string{"C": "3", "A": "over"},
	)
	if want := "A=over B=2 C=3 EMPTY="; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !GitLocation("GIT_DIR") || GitLocation("GIT_AUTHOR_NAME") {
		t.Error("GIT_DIR is a location and GIT_AUTHOR_NAME is none")
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "bin", "tool")
	if err := os.Mkdir(filepath.Dir(tool), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tt := range []struct{ name, dir, path, want string }{
		{"tool", "", "/nowhere:" + filepath.Dir(tool), tool},
		{"./tool", filepath.Dir(tool), "", tool},
		{"bin/tool", dir, "", tool},
		{"./tool", "bin", "", tool},
		{"bin/tool", "", "", tool},
		{tool, "/elsewhere", "", tool},
		{"tool", dir, "bin:.:", ""}, // relative entries do not count
		{"", dir, filepath.Dir(tool), ""},
	} {
		got, err := LookPath(tt.name, tt.dir, func(string) string { return tt.path })
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q in %q, PATH %q: got %q, %v", tt.name, tt.dir, tt.path, got, err)
		}
	}
}
