package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// lifeIn returns a Life whose state lies in dir and whose clock stands at noon.
func lifeIn(dir string) *Life {
	return &Life{
		Workspace: &wire.Workspace{Issue: &wire.Issue{ID: "1", Identifier: "T-1"}, Key: "T-1", Path: "/nowhere", StateDir: dir},
		Now:       func() time.Time { return noon },
		Rand:      bytes.NewReader(make([]byte, 64)),
	}
}

func begin(t *testing.T, l *Life, id string) {
	t.Helper()
	if err := l.Begin(id, nil); err != nil {
		t.Fatal(err)
	}
}

func manifest(t *testing.T, dir string) *Manifest {
	t.Helper()
	m, err := ReadManifest(state.Dir(dir))
	if err != nil || m == nil {
		t.Fatalf("run.json: %v, %v", m, err)
	}
	return m
}

func TestNextAttempt(t *testing.T) {
	ran := func(outcome wire.Text, attempt *int64) *Manifest {
		return &Manifest{Outcome: outcome, Attempt: attempt}
	}
	for _, tt := range []struct {
		name   string
		before *Manifest
		want   *int64
	}{
		{"the first run", nil, nil},
		{"after a first run", ran(wire.Failed, nil), wire.Count(1)},
		{"after a success", ran(wire.Succeeded, wire.Count(1)), wire.Count(2)},
		{"after a stall", ran(wire.Stalled, wire.Count(6)), wire.Count(7)},
		{"after an interrupted first run", ran(wire.Interrupted, nil), nil},
		{"after an interrupted run", ran(wire.Interrupted, wire.Count(3)), wire.Count(3)},
		{"after a stop", ran(wire.Cancelled, wire.Count(3)), wire.Count(3)},
		{"after a limit of the provider", ran(wire.RateLimited, wire.Count(3)), wire.Count(3)},
	} {
		got := nextAttempt(tt.before)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestBegin(t *testing.T) {
	dir := t.TempDir()
	l := lifeIn(dir)
	begin(t, l, "")
	m := manifest(t, dir)
	if m.RunID != "20261130-120000-000-00000000" || m.Status != Preparing || m.Attempt != nil || !m.StartedAt.Equal(noon) {
		t.Errorf("got %+v", m)
	}
	if ref := l.Workspace.Run; ref == nil || ref.ID != m.RunID {
		t.Errorf("the record has run %+v", ref)
	}
	if err := lifeIn(dir).Begin("", nil); err == nil || !strings.Contains(err.Error(), "has not been settled") {
		t.Errorf("a second run beside an open one: %v", err)
	}
}

func TestBeginWithAnIDOfTheCaller(t *testing.T) {
	dir := t.TempDir()
	l := lifeIn(dir)
	begin(t, l, "run-7")
	if err := l.End(t.Context(), l.Outcome(wire.Succeeded, "", "")); err != nil {
		t.Fatal(err)
	}
	before := manifest(t, dir)
	for id, want := range map[string]error{"run-7": ErrSuperseded, "../run-8": nil, ".": nil} {
		err := lifeIn(dir).Begin(id, nil)
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if after := manifest(t, dir); after.RunID != before.RunID || after.Status != Ended {
		t.Errorf("run.json was touched: %+v", after)
	}
}

func TestResumeRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := lifeIn(dir).Resume("r1"); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a run that never was: %v", err)
	}
	l := lifeIn(dir)
	begin(t, l, "r1")
	if err := lifeIn(dir).Resume("r0"); !errors.Is(err, ErrSuperseded) {
		t.Errorf("another run: %v", err)
	}
	if err := lifeIn(dir).Resume("r1"); err != nil {
		t.Errorf("the open run: %v", err)
	}
	if err := l.End(t.Context(), l.Outcome(wire.Failed, wire.CauseProvider, "no")); err != nil {
		t.Fatal(err)
	}
	if err := lifeIn(dir).Resume("r1"); !errors.Is(err, ErrSuperseded) {
		t.Errorf("an ended run: %v", err)
	}
	if m := manifest(t, dir); m.Detail != "provider: no" || m.Outcome != wire.Failed || !m.EndedAt.Equal(noon) {
		t.Errorf("got %+v", m)
	}
}

// Whoever ended a run may have died over after_run: the outcome on disk stands, and an
// end that comes late with another one is refused.
func TestResumeOfARunWithAnOutcome(t *testing.T) {
	dir := t.TempDir()
	l := lifeIn(dir)
	begin(t, l, "r1")
	if err := state.WriteJSON(l.RunDir().Outcome(), record{l.Outcome(wire.Interrupted, "", "")}); err != nil {
		t.Fatal(err)
	}
	if err := lifeIn(dir).Resume("r1"); !errors.Is(err, ErrSuperseded) {
		t.Errorf("got %v", err)
	}
	if out, _, err := lifeIn(dir).Settle(t.Context()); err != nil || out == nil || out.Outcome != wire.Interrupted {
		t.Errorf("settled as %+v, %v", out, err)
	}
}

// A run whose owner died is settled by what it left, in this order.
func TestSettle(t *testing.T) {
	line := func(id, outcome string) string {
		b, err := wire.Marshal(&wire.Outcome{RunID: id, Outcome: outcome})
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	for _, tt := range []struct {
		name, file, log, want string
	}{
		{"from outcome.json", line("r1", wire.Stalled), line("r1", wire.Succeeded), wire.Stalled},
		{"from the log", "", line("r1", wire.Failed) + line("r1", wire.Succeeded), wire.Succeeded},
		{"half an outcome.json", `{"v":1,"type":"outc`, line("r1", wire.TimedOut), wire.TimedOut},
		{"an outcome.json of another run", line("r0", wire.Stalled), line("r1", wire.TimedOut), wire.TimedOut},
		{"half a line in the log", "", strings.TrimSuffix(line("r1", wire.Failed), "}\n"), wire.Interrupted},
		{"another run's word", "", line("r0", wire.Succeeded), wire.Interrupted},
		{"an outcome of no list", "", line("r1", "fine"), wire.Interrupted},
		{"nothing at all", "", "", wire.Interrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			dead := lifeIn(dir)
			begin(t, dead, "r1")
			leave(t, dead.RunDir().Outcome(), tt.file)
			leave(t, dead.RunDir().Events(), tt.log)
			leave(t, filepath.Join(dir, ".run.json77"), "{")
			l := lifeIn(dir)
			out, swept, err := l.Settle(t.Context())
			if err != nil || out == nil || len(swept) != 0 {
				t.Fatalf("got %+v, %v, %v", out, swept, err)
			}
			if out.Outcome != tt.want || out.RunID != "r1" || (tt.want == wire.Interrupted) != out.Resumable {
				t.Errorf("got %+v", out)
			}
			if m := manifest(t, dir); m.Status != Ended || m.Outcome != wire.Text(tt.want) {
				t.Errorf("run.json says %+v", m)
			}
			if again, _, err := l.Settle(t.Context()); again != nil || err != nil {
				t.Errorf("settled twice: %+v, %v", again, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, ".run.json77")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the temp file of the dead is still there: %v", err)
			}
		})
	}
}

func leave(t *testing.T, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSettleOfAnIssueThatNeverRan(t *testing.T) {
	out, _, err := lifeIn(t.TempDir()).Settle(t.Context())
	if out != nil || err != nil {
		t.Errorf("got %+v, %v", out, err)
	}
}

// after_run runs once a run, also when the owner died after it.
func TestEndRunsAfterRunOnce(t *testing.T) {
	dir := t.TempDir()
	var ran []string
	hooks := func(_ context.Context, name, _ string, facts map[string]string) *workspace.HookResult {
		ran = append(ran, name+" "+facts["OS_RUN_ID"]+" "+facts["OS_OUTCOME"])
		return &workspace.HookResult{Name: name, Status: workspace.HookFailed}
	}
	l := lifeIn(dir)
	l.Hooks = hooks
	begin(t, l, "r1")
	var failed *workspace.HookError
	if err := l.Prepare(t.Context()); !errors.As(err, &failed) {
		t.Fatalf("before_run: %v", err)
	}
	if err := l.End(t.Context(), l.Outcome(wire.Failed, wire.CauseHookFailed, "before_run")); err != nil {
		t.Errorf("a failing after_run is no error: %v", err)
	}
	m := manifest(t, dir)
	m.Status = Prepared // as if its owner had died between the hook and the end
	if err := state.WriteJSON(state.Dir(dir).RunFile(), m); err != nil {
		t.Fatal(err)
	}
	late := lifeIn(dir)
	late.Hooks = hooks
	if out, _, err := late.Settle(t.Context()); err != nil || out.Outcome != wire.Failed {
		t.Errorf("settled as %+v, %v", out, err)
	}
	if got := strings.Join(ran, ", "); got != "before_run r1 , after_run r1 failed" {
		t.Errorf("ran %q", got)
	}
	if m := manifest(t, dir); m.Status != Ended || len(m.Hooks) != 2 {
		t.Errorf("run.json says %+v", m)
	}
}

// Whatever fails at the end, the rest is tried and all is told.
func TestEndJoinsItsErrors(t *testing.T) {
	dir := t.TempDir()
	l := lifeIn(dir)
	begin(t, l, "r1")
	blocked := []string{l.RunDir().Outcome(), state.Dir(dir).RunFile()}
	for _, path := range blocked {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err := l.End(t.Context(), l.Outcome(wire.Succeeded, "", ""))
	for _, path := range blocked {
		if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%q is not in the error: %v", path, err)
		}
	}
}

// A clock that was set back must not make a time negative.
func TestOutcomeWithTheClockSetBack(t *testing.T) {
	l := lifeIn(t.TempDir())
	begin(t, l, "r1")
	l.Now = func() time.Time { return noon.Add(-time.Hour) }
	if out := l.Outcome(wire.Succeeded, "", ""); out.DurationMS != 0 || out.Error != nil {
		t.Errorf("got %+v", out)
	}
}

func TestReadManifestThatIsDamaged(t *testing.T) {
	dir := state.Dir(t.TempDir())
	for _, text := range []string{"", "{", "{}", "[]"} {
		if err := os.WriteFile(dir.RunFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := ReadManifest(dir); err == nil || m != nil {
			t.Errorf("%q was read as %+v", text, m)
		}
	}
}

// An Attach that fails after the begin ends the run: nobody else knows of it.
func TestAttachEndsWhatItBegan(t *testing.T) {
	dir := t.TempDir()
	rec := lifeIn(dir).Workspace
	h := Host{Getenv: func(string) string { return "" }, Now: func() time.Time { return noon }, Rand: bytes.NewReader(make([]byte, 64))}
	a, err := Attach(t.Context(), rec, h)
	if err != nil {
		t.Fatal(err)
	}
	if m := manifest(t, dir); m.Status != Prepared || a.Log == nil {
		t.Errorf("got %+v, log %v", m, a.Log)
	}
	if err := a.Finish(t.Context(), a.Life.Outcome(wire.Succeeded, "", "")); err != nil {
		t.Fatal(err)
	}
	rec.Run = nil
	rec.Route = &wire.Route{Model: wire.Text(strings.Repeat("x", wire.MaxRecord))} // no record holds it
	if _, err := Attach(t.Context(), rec, h); err == nil {
		t.Fatal("a record over the limit was written")
	}
	if m := manifest(t, dir); m.Status != Ended || m.Outcome != wire.Failed {
		t.Errorf("got %+v", m)
	}
}

// A harness without a supervisor ends the run of an owner who died before it begins its
// own, by what that one has left.
func TestAttachEndsARunWithoutAnOwner(t *testing.T) {
	dir := t.TempDir()
	dead := lifeIn(dir)
	begin(t, dead, "r1")
	rec := lifeIn(dir).Workspace
	h := Host{Getenv: func(string) string { return "" }, Now: func() time.Time { return noon }, Rand: bytes.NewReader(make([]byte, 64))}
	a, err := Attach(t.Context(), rec, h)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Recorded(state.Dir(dir), "r1")
	if err != nil || out == nil || out.Outcome != wire.Interrupted {
		t.Errorf("the dead run is %+v, %v", out, err)
	}
	if m := manifest(t, dir); m.RunID == "r1" || m.Status != Prepared {
		t.Errorf("the own run is %+v", m)
	}
	if err := a.Finish(t.Context(), a.Life.Outcome(wire.Succeeded, "", "")); err != nil {
		t.Fatal(err)
	}
}

func TestAttachToARunOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	l := lifeIn(dir)
	begin(t, l, "r1")
	begun, err := os.ReadFile(state.Dir(dir).RunFile())
	if err != nil {
		t.Fatal(err)
	}
	rec := lifeIn(dir).Workspace
	rec.Run = &wire.RunRef{ID: "r0"}
	env := map[string]string{}
	h := Host{Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return noon }, Rand: bytes.NewReader(make([]byte, 64))}
	if _, err := Attach(t.Context(), rec, h); !errors.Is(err, ErrSuperseded) {
		t.Errorf("an older run: %v", err)
	}
	// A descriptor that is not the lock, as when a shell has closed it.
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	text, err := json.Marshal(null.Fd())
	if err != nil {
		t.Fatal(err)
	}
	rec.Run.ID = "r1"
	env["OS_RUN_ID"], env["OS_LOCK_FD"] = "r1", string(text)
	var refusal *state.Refusal
	if _, err := Attach(t.Context(), rec, h); !errors.As(err, &refusal) {
		t.Errorf("a descriptor that is no lock: %v", err)
	}
	if _, err := null.Stat(); err != nil {
		t.Errorf("somebody else's descriptor was closed: %v", err)
	}
	if after, err := os.ReadFile(state.Dir(dir).RunFile()); err != nil || !bytes.Equal(begun, after) {
		t.Errorf("run.json was touched: %v", err)
	}
}

func TestMarked(t *testing.T) {
	for _, tt := range []struct {
		env, keep string
		want      bool
	}{
		{"OS_STATE_DIR=/s OS_RUN_ID=r1", "", true},
		{"OS_STATE_DIR=/s OS_RUN_ID=r1", "r1", false},
		{"OS_STATE_DIR=/s OS_RUN_ID=r1", "r2", true},
		{"OS_STATE_DIR=/s OS_HOOK=after_create", "", true},
		{"OS_STATE_DIR=/s", "", false},
		{"OS_STATE_DIR=/other OS_RUN_ID=r1", "", false},
		{"OS_RUN_ID=r1", "", false},
	} {
		env := func(name string) string {
			for _, kv := range strings.Fields(tt.env) {
				if k, v, _ := strings.Cut(kv, "="); k == name {
					return v
				}
			}
			return ""
		}
		if got := marked("/s", tt.keep)(env); got != tt.want {
			t.Errorf("%q, keep %q: got %v", tt.env, tt.keep, got)
		}
	}
}
