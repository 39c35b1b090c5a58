package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

func hookOf(t *testing.T, script string) Hook {
	t.Helper()
	dir := t.TempDir()
	return Hook{
		Name: "before_run", Script: script, Dir: dir, LogPath: filepath.Join(dir, "hooks", "before_run.log"),
		Env: HookEnv(os.Environ(), nil, map[string]string{"OS_WORKSPACE": dir}), Timeout: time.Minute,
	}
}

func TestHookStatus(t *testing.T) {
	for _, tt := range []struct {
		script, status, line string
		code                 *int64
		signal               wire.Text
	}{
		{"echo fine", HookSucceeded, "before_run: succeeded, exit status 0: fine", wire.Count(0), ""},
		{"echo one; echo two >&2; exit 3", HookFailed, "before_run: failed, exit status 3: two", wire.Count(3), ""},
		{"kill -KILL $$", HookFailed, "before_run: failed, signal SIGKILL", nil, "SIGKILL"},
		{"no-such-program-here", HookFailed, "", wire.Count(127), ""},
		{`cat; test -z "$(cat)"`, HookSucceeded, "before_run: succeeded, exit status 0", wire.Count(0), ""}, // stdin is empty
		{`test "$PWD" -ef "$OS_WORKSPACE"`, HookSucceeded, "before_run: succeeded, exit status 0", wire.Count(0), ""},
	} {
		r := RunHook(context.Background(), hookOf(t, tt.script), time.Now)
		if r.Status != tt.status || r.Signal != tt.signal || r.Error != "" || r.Leftover != 0 {
			t.Errorf("%s: got %+v", tt.script, r)
		}
		if (r.ExitCode == nil) != (tt.code == nil) || tt.code != nil && *r.ExitCode != *tt.code {
			t.Errorf("%s: exit code %v", tt.script, r.ExitCode)
		}
		if tt.line != "" && r.String() != tt.line {
			t.Errorf("%s: %q, want %q", tt.script, r.String(), tt.line)
		}
	}
}

func TestHookClockAndRecord(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	now := func() time.Time { at = at.Add(1500 * time.Millisecond); return at }
	r := RunHook(context.Background(), hookOf(t, "exit 1"), now)
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"before_run","command":"exit 1","status":"failed","exit_code":1,"signal":null,"error":null,` +
		`"started_at":"2026-03-04T05:06:08.500Z","duration_ms":1500,"output_head":"","output_tail":"","truncated":false,"leftover":0}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestHookThatCannotStart(t *testing.T) {
	h := hookOf(t, "true")
	h.Dir = filepath.Join(h.Dir, "gone")
	r := RunHook(context.Background(), h, time.Now)
	if r.Status != HookFailed || r.ExitCode != nil || !strings.Contains(string(r.Error), "gone") {
		t.Errorf("got %+v", r)
	}
	link := hookOf(t, "true")
	link.LogPath = filepath.Join(link.Dir, "log")
	if err := os.Symlink(filepath.Join(link.Dir, "elsewhere"), link.LogPath); err != nil {
		t.Fatal(err)
	}
	if r := RunHook(context.Background(), link, time.Now); r.Status != HookFailed || r.Error == "" {
		t.Errorf("a log that is a link: got %+v", r)
	}
}

// A hook's output is bounded in the record, whole in the log and never in memory (case W08).
func TestHookFloodOfOutput(t *testing.T) {
	h := hookOf(t, "yes | head -c 50000000; echo the end; exit 3")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := RunHook(context.Background(), h, time.Now)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
	if !r.Truncated || *r.ExitCode != 3 || len(r.OutputHead) != hookExcerpt || !strings.HasSuffix(r.OutputTail, "y\nthe end\n") {
		t.Errorf("truncated %v, exit code %v, head %d bytes, tail %q", r.Truncated, *r.ExitCode, len(r.OutputHead), r.OutputTail)
	}
	info, err := os.Stat(h.LogPath)
	if err != nil || info.Size() != 50000008 || info.Mode().Perm() != 0o600 {
		t.Errorf("log: %v, %v", info, err)
	}
}

func TestHookOutputIsValidText(t *testing.T) {
	whole := strings.Repeat("€", 1000) // 3000 bytes: the middle lies within a rune
	r := RunHook(context.Background(), hookOf(t, "printf %s "+whole), time.Now)
	if r.OutputHead+r.OutputTail != whole || r.Truncated || r.OutputTail == "" {
		t.Errorf("the halves are not the whole: %d and %d bytes", len(r.OutputHead), len(r.OutputTail))
	}
	r = RunHook(context.Background(), hookOf(t, `printf 'a\377b'`), time.Now)
	if r.OutputHead != "a\uFFFDb" {
		t.Errorf("got %q", r.OutputHead)
	}
	r = RunHook(context.Background(), hookOf(t, `echo one; echo two >/dev/stderr; echo three`), time.Now)
	if !strings.HasSuffix(r.OutputHead, "three\n") || strings.Contains(r.OutputHead, "\x00") {
		t.Errorf("reopened stderr: got %q", r.OutputHead)
	}
}

// The forked child keeps the output open and would hold a reader of a pipe (case W04).
func TestHookTimeout(t *testing.T) {
	t.Parallel()
	h := hookOf(t, "sleep 600 & echo $! >child; wait; true")
	h.Timeout = time.Second
	began := time.Now()
	r := RunHook(context.Background(), h, time.Now)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if r.Status != HookTimedOut || r.Signal != "SIGTERM" || r.Error != "" {
		t.Errorf("got %+v", r)
	}
	mustBeDead(t, filepath.Join(h.Dir, "child"))
}

// A child that needs a moment after SIGTERM has it, although its shell is gone.
func TestHookTimeoutIsPolite(t *testing.T) {
	t.Parallel()
	h := hookOf(t, `sh -c 'trap "echo tidied >tidy; exit 0" TERM; echo $$ >child; while :; do sleep 0.05; done' & wait`)
	h.Timeout = time.Second
	r := RunHook(context.Background(), h, time.Now)
	if r.Status != HookTimedOut {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(filepath.Join(h.Dir, "tidy")); err != nil {
		t.Error(err)
	}
	mustBeDead(t, filepath.Join(h.Dir, "child"))
}

func TestHookThatIgnoresTERM(t *testing.T) {
	t.Parallel()
	h := hookOf(t, `trap "" TERM; echo $$ >child; while :; do sleep 0.1; done`)
	h.Timeout = time.Second
	r := RunHook(context.Background(), h, time.Now)
	if r.Status != HookTimedOut || r.Signal != "SIGKILL" || r.ExitCode != nil {
		t.Errorf("got %+v", r)
	}
	mustBeDead(t, filepath.Join(h.Dir, "child"))
}

func TestHookCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	h := hookOf(t, "echo ready >fifo; exec sleep 600")
	ready := fifo(t, h.Dir)
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(ready).ReadString('\n')
	}()
	if r := RunHook(ctx, h, time.Now); r.Status != HookCancelled || r.Signal != "SIGTERM" {
		t.Errorf("got %+v", r)
	}
	if r := RunHook(ctx, h, time.Now); r.Status != HookCancelled || r.ExitCode != nil {
		t.Errorf("a context that is done already: got %+v", r)
	}
}

func TestHookLeftovers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("leftovers are counted on Linux only")
	}
	// One in the session, one in the session without our mark, and one in a session of its own.
	h := hookOf(t, `sleep 600 & echo $! >child1
env -i sleep 600 & echo $! >child2
setsid sh -c 'echo $$ >fifo; exec sleep 600' & read pid <fifo; echo $pid >child3`)
	if err := syscall.Mkfifo(filepath.Join(h.Dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := RunHook(context.Background(), h, time.Now)
	if r.Status != HookSucceeded || r.Leftover != 3 || r.Error != "" {
		t.Errorf("got %+v", r)
	}
	for _, name := range []string{"child1", "child2", "child3"} {
		mustBeDead(t, filepath.Join(h.Dir, name))
	}
}

func TestHookEnv(t *testing.T) {
	base := []string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "TZ=UTC", "SECRET_X=1", "LINEAR_API_KEY=k", "OS_STATE_DIR=/outer",
		"GIT_DIR=/other/.git", "GIT_AUTHOR_NAME=me", "NPM_TOKEN=let-through",
	}
	got := HookEnv(base, []string{"NPM_TOKEN", "GIT_DIR"}, map[string]string{"OS_RUN_ID": "r1"})
	want := "HOME=/h LC_ALL=C NPM_TOKEN=let-through OS_RUN_ID=r1 PATH=/bin TZ=UTC"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// fifo makes the file "fifo" in dir, opened so that its reader waits for a line.
func fifo(t *testing.T, dir string) *os.File {
	t.Helper()
	path := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// mustBeDead reads a pid from a file. A zombie that its new parent has yet to reap is dead.
func mustBeDead(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if runtime.GOOS == "linux" && (err != nil || strings.Contains(string(status), "State:\tZ")) {
		return
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d still runs", pid)
	}
}
