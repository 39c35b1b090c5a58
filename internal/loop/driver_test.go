package loop

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// bench is a folder with stub programs and what a driver says in it.
type bench struct {
	t      *testing.T
	dir    string
	flow   *workflow.Workflow
	stdout bytes.Buffer
	mu     sync.Mutex
	warned []string
}

func newBench(t *testing.T, programs map[string]string) *bench {
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, flow: workflow.Defaults(workflow.Options{Home: dir, Temp: dir, Dir: dir}, dir)}
	b.flow.Path = filepath.Join(dir, "WORKFLOW.md")
	b.flow.Name, b.flow.Text = b.flow.Path, []byte("x")
	b.flow.Tracker.Kind = "exec" // no board to watch
	b.write("WORKFLOW.md", "x")
	for name, text := range programs {
		b.write(name, "#!/bin/sh\n"+text)
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// await waits until a file has a text in it.
func (b *bench) await(name, text string) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(10 * time.Second)
	defer over.Stop()
	for {
		got, _ := os.ReadFile(filepath.Join(b.dir, name)) // it may not be there yet
		if strings.Contains(string(got), text) {
			return
		}
		select {
		case <-tick.C:
		case <-over.C:
			b.t.Fatalf("%s is %q, without %q", name, got, text)
		}
	}
}

func (b *bench) warn(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warned = append(b.warned, fmt.Sprintf(format, args...))
}

func (b *bench) config(mode schedule.Mode) Config {
	return Config{
		Workflow: b.flow, Load: func() (*workflow.Workflow, error) { return b.flow, nil },
		Root:     state.Root(filepath.Join(b.dir, "state")),
		Schedule: schedule.Config{Mode: mode, Grace: time.Second},
		Timeout:  20 * time.Second, Reading: 10 * time.Second,
		Environ: proc.Environ(nil, nil, map[string]string{"PATH": b.dir + ":/usr/bin:/bin", "BENCH": b.dir}),
		Stdout:  &b.stdout, Warn: b.warn, Now: time.Now, Rand: rand.Reader,
	}
}

// said returns the events that were printed, with their reasons.
func (b *bench) said() string {
	b.t.Helper()
	var lines []string
	for rec := range wire.Records(context.Background(), bytes.NewReader(b.stdout.Bytes()), "") {
		switch r := rec.Record.(type) {
		case *wire.Loop:
			lines = append(lines, strings.TrimSpace(r.Event+" "+string(r.Reason)))
		case *wire.Outcome:
			line := "outcome " + r.Outcome
			if r.Error != nil {
				line += " " + r.Error.Category
			}
			lines = append(lines, line)
		default:
			b.t.Errorf("a line that is no record: %v", rec.Err)
		}
	}
	return strings.Join(lines, "\n")
}

const oneIssue = `case $* in
*--active*|*--ids-from*) echo '{"v":1,"type":"issue","id":"1","identifier":"A-1","title":"t","state":"Todo","state_kind":"unstarted","category":"active","dispatchable":true}' ;;
esac
case $* in *--summary*) echo '{"v":1,"type":"summary","tracker":"x","issues":1,"gone":0,"malformed":0,"skipped":0,"truncated":false,"rate_limit":null}' ;; esac
`

// What a supervisor that cannot begin says by its status is what the scheduler learns.
func TestStartsThatComeToNothing(t *testing.T) {
	tests := []struct{ name, run, want string }{
		{"busy", `echo "os-workspace: issue is busy" >&2; exit 75`, "ended busy"},
		{"refused", `echo '{"v":1,"type":"outcome","time":"2026-11-30T12:00:00.000Z","run_id":"x","outcome":"failed","error":{"category":"state","message":"not ours","detail":null}}'; exit 73`, "outcome failed state"},
		{"state", `echo "os-workspace: disk full" >&2; exit 73`, "outcome failed state"},
		{"config", `echo "os-workspace: bad file" >&2; exit 78`, "config_error bad file"},
		{"killed", `kill -9 $$`, "outcome interrupted internal"},
		{"else", `exit 64`, "outcome failed internal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": `case $1 in list) exit 0;; esac` + "\n" + tt.run})
			if _, err := Run(t.Context(), b.config(schedule.Once)); err != nil {
				t.Fatal(err)
			}
			if said := b.said(); !strings.Contains(said, tt.want) || !strings.Contains(said, "stopped idle") {
				t.Errorf("want %q in\n%s", tt.want, said)
			}
			if busy := tt.name == "busy"; strings.Contains(b.said(), "outcome") == busy {
				t.Errorf("an outcome record: %t\n%s", !busy, b.said())
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "state/loop/runs/*.*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// The supervisor gets a record that names the run, and the command that runs it.
func TestStartGivesRecordAndHarness(t *testing.T) {
	defer goleak.VerifyNone(t)
	b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": `case $1 in list) exit 0;; esac
cat > $BENCH/record; echo "$@" > $BENCH/argv; ps -o pid= -o sid= -p $$ > $BENCH/session; exit 75`})
	if _, err := Run(t.Context(), b.config(schedule.Once)); err != nil {
		t.Fatal(err)
	}
	rec, err := wire.Decode([]byte(b.read("record")), "")
	if err != nil {
		t.Fatal(err)
	}
	ws := rec.(*wire.Workspace)
	if ws.Issue.Identifier != "A-1" || ws.Run == nil || ws.Run.ID == "" || ws.Attempt != nil || ws.Route.Harness != "codex" {
		t.Errorf("record %+v", ws)
	}
	want := "run --workflow " + b.flow.Path + " --grace 1s -- os-codex --grace 1s --recheck os-poll --ids-from - --resume never\n"
	if got := b.read("argv"); got != want {
		t.Errorf("argv %q, want %q", got, want)
	}
	if f := strings.Fields(b.read("session")); len(f) != 2 || f[0] != f[1] {
		t.Errorf("pid and session %q", f)
	}
}

// Nothing is started that could not be written down before.
func TestNoStartWithoutMemory(t *testing.T) {
	b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": `case $1 in list) exit 0;; esac; touch $BENCH/started`})
	c := b.config(schedule.Once)
	if err := os.MkdirAll(string(c.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("state/issues", "a file where a folder should be")
	d := newDriver(c)
	defer d.close()
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	d.run(t.Context())
	if exists(filepath.Join(b.dir, "started")) {
		t.Error("a run was started")
	}
	if len(b.warned) == 0 || !strings.Contains(b.warned[0], "remember A-1") {
		t.Errorf("warned %q", b.warned)
	}
}

// A program that cannot be had is an error that says so.
func TestWithoutWorkspaceProgram(t *testing.T) {
	b := newBench(t, map[string]string{"os-poll": oneIssue})
	_, err := Run(t.Context(), b.config(schedule.Once))
	if cli.Status(err) != cli.StatusUnavailable || !strings.Contains(err.Error(), "os-workspace") {
		t.Errorf("%v", err)
	}
}

// One workspace that cannot be listed hides no other; a list that says nothing but its
// failure is none.
func TestDamagedWorkspaces(t *testing.T) {
	b := newBench(t, map[string]string{"os-poll": "exit 69", "os-workspace": `echo "os-workspace: X is damaged" >&2; exit 73`})
	if _, err := Run(t.Context(), b.config(schedule.Once)); err != nil {
		t.Errorf("a root with damaged workspaces only: %v", err)
	}
	if len(b.warned) == 0 || !strings.Contains(b.warned[0], "X is damaged") {
		t.Errorf("warned %q", b.warned)
	}
	b = newBench(t, map[string]string{"os-poll": "exit 69", "os-workspace": `echo "os-workspace: no" >&2; exit 78`})
	if _, err := Run(t.Context(), b.config(schedule.Once)); cli.Status(err) != cli.StatusState {
		t.Errorf("a list that failed: %v", err)
	}
}

// A reader of stdout who reads nothing holds up nothing.
func TestSlowReader(t *testing.T) {
	r, w := io.Pipe()
	b := newBench(t, nil)
	p := newPrinter(w, b.warn)
	for range maxPending + 10 {
		p.print(&wire.Gone{ID: "1"})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p.close()
	if len(b.warned) == 0 || !strings.Contains(b.warned[0], "nobody reads stdout") {
		t.Errorf("warned %q", b.warned)
	}
}

func TestClosedStdoutIsAPoliteStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": `case $1 in list) exit 0;; esac
trap 'exit 75' TERM; while :; do sleep 0.02; done`})
	c := b.config(schedule.Forever)
	c.Stdout = failing{cli.ErrStdoutClosed}
	status, err := Run(t.Context(), c)
	if status != 0 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	if len(b.warned) > 0 {
		t.Errorf("warned %q", b.warned)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// The log is put aside when it is full, and says what was printed to the next one.
func TestLogRotatesAndRemembers(t *testing.T) {
	b := newBench(t, nil)
	path := filepath.Join(b.dir, "events.ndjson")
	p := newPrinter(io.Discard, b.warn)
	if err := p.open(path); err != nil {
		t.Fatal(err)
	}
	p.print(&wire.Outcome{RunID: "old", Outcome: wire.Succeeded})
	p.size = maxLog
	p.print(&wire.Outcome{RunID: "new", Outcome: wire.Succeeded})
	p.close()
	missing := map[string]*wire.Outcome{"old": {}, "new": {}, "none": {}}
	for _, name := range []string{path, path + ".1", path + ".2"} {
		if err := forgetPrinted(name, missing); err != nil {
			t.Fatal(err)
		}
	}
	if len(missing) != 1 || missing["none"] == nil {
		t.Errorf("missing %v", missing)
	}
}

func TestTrackerAnswers(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"list", oneIssue, "polled 1 complete true"},
		{"malformed", oneIssue + "exit 65", "polled 1 complete false"},
		{"no summary", `echo '{"v":1,"type":"gone","id":"2"}'`, "polled 0 complete false"},
		{"config", `echo "os-poll: no board" >&2; echo "os-poll: hint: make one" >&2; exit 78`, "config: no board"},
		{"auth", "exit 77", "auth: it ended with exit status 77"},
		{"limit", `echo '{"v":1,"type":"summary","tracker":"x","rate_limit":{"limit":1,"remaining":0,"reset_at":"2030-01-01T00:00:00.000Z"}}'; exit 75`,
			"rate_limited: it ended with exit status 75 until 2030"},
		{"down", "exit 69", "unavailable: it ended with exit status 69"},
		{"garbage", "echo hello", "protocol: line 1 of the answer: not a JSON object"},
		{"killed", "kill -9 $$", "internal: it ended with signal SIGKILL"},
	}
	for _, tt := range tests {
		b := newBench(t, map[string]string{"os-poll": tt.script})
		c := b.config(schedule.Once)
		p := &programs{dir: b.dir, environ: c.Environ, workflow: "w", warn: b.warn}
		got := ""
		switch f := p.poll(t.Context(), c.Reading).(type) {
		case schedule.Polled:
			got = fmt.Sprintf("polled %d complete %t", len(f.Issues), f.Complete)
		case schedule.PollFailed:
			got = f.Category + ": " + f.Message
			if !f.RetryAt.IsZero() {
				got += fmt.Sprintf(" until %d", f.RetryAt.Year())
			}
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A program that does not answer is given up and ended, and so is one whose caller is.
func TestAskIsBounded(t *testing.T) {
	b := newBench(t, map[string]string{"deaf": "trap '' TERM; touch $BENCH/deaf; while :; do sleep 0.02; done"})
	p := &programs{dir: b.dir, environ: b.config(schedule.Once).Environ}
	if _, err := p.ask(t.Context(), 50*time.Millisecond, nil, "deaf"); err == nil || !strings.Contains(err.Error(), "gave no answer within") {
		t.Errorf("%v", err)
	}
	cause := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := p.ask(ctx, time.Hour, nil, "deaf"); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

// A supervisor that has not begun yet when its os-loop dies is a run of the next one,
// and not a start too many.
func TestUnbegunStartIsTakenUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": `case $1 in list) exit 0;; esac
echo start >> $BENCH/starts
while ! test -e $BENCH/go; do sleep 0.02; done`})
	c := b.config(schedule.Forever)
	c.Schedule.Detach = true
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := Run(ctx, c); err != nil {
			t.Error(err)
		}
	})
	b.await("starts", "start")
	cancel()
	first.Wait()
	b.stdout.Reset()
	var second sync.WaitGroup
	second.Go(func() {
		if _, err := Run(t.Context(), b.config(schedule.Once)); err != nil {
			t.Error(err)
		}
	})
	b.await("state/loop/events.ndjson", `"event":"adopted"`)
	b.write("go", "")
	second.Wait()
	if said := b.said(); !strings.Contains(said, "adopted") || strings.Contains(said, "dispatched") || !strings.Contains(said, "ended busy") {
		t.Errorf("the second said\n%s", said)
	}
	if got := b.read("starts"); got != "start\n" {
		t.Errorf("starts: %q", got)
	}
}
