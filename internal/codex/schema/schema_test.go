package schema

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// program is an app-server that is a shell script. Each of its runs adds a line to runs.
type program struct {
	t    *testing.T
	path string
	runs string
	o    Options
}

// generates writes the schema, as the last argument says where.
const generates = `for last; do :; done; mkdir -p "$last"; cat "$SCHEMA" >"$last/ClientRequest.json"`

func newProgram(t *testing.T, script string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, path: filepath.Join(dir, "codex"), runs: filepath.Join(dir, "runs")}
	schema := filepath.Join(dir, "schema")
	if err := os.WriteFile(schema, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	p.o = Options{
		Cache: filepath.Join(dir, "cache", "os", "codex-schema"), Argv: []string{p.path, "app-server", "generate-json-schema"},
		Env: []string{"PATH=" + os.Getenv("PATH"), "SCHEMA=" + schema, "RUNS=" + p.runs}, Version: "1", Peer: "2",
		Requests: []Request{{"start", obj{"input": []any{}, "gone": 1}}}, Now: func() time.Time { return now },
	}
	p.write(script)
	return p
}

func (p *program) write(script string) {
	p.t.Helper()
	if err := os.WriteFile(p.path, []byte("#!/bin/sh\necho \"$*\" >>\"$RUNS\"\n"+script+"\n"), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// calls returns the arguments of each run.
func (p *program) calls() []string {
	text, err := os.ReadFile(p.runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (p *program) check() *Verdict {
	p.t.Helper()
	v, err := Check(p.t.Context(), p.o)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := v.String(); got != `start: "gone" is unknown` {
		p.t.Errorf("verdict %q", got)
	}
	return v
}

// entries are what is left in the cache folder.
func (p *program) entries() []os.DirEntry {
	all, err := os.ReadDir(p.o.Cache)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// opensymphony 8.19: two checks, one generation, one entry of the cache.
func TestCacheKeepsTheVerdict(t *testing.T) {
	p := newProgram(t, generates)
	if p.check().Cached || !p.check().Cached {
		t.Error("the second verdict is not the first one")
	}
	if n, all := len(p.calls()), p.entries(); n != 1 || len(all) != 1 || filepath.Ext(all[0].Name()) != ".json" {
		t.Errorf("%d runs, cache %v", n, all)
	}
}

// opensymphony 8.20: a program that was rewritten is asked again. So it is when
// its time, what it says of itself, we, or what we send has changed.
func TestCacheForgets(t *testing.T) {
	for name, change := range map[string]func(*program){
		"rewritten":   func(p *program) { p.write("true; " + generates) },
		"time":        func(p *program) { _ = os.Chtimes(p.path, now, now) },
		"its version": func(p *program) { p.o.Peer = "3" },
		"our version": func(p *program) { p.o.Version = "2" },
		"requests":    func(p *program) { p.o.Requests = append(p.o.Requests, Request{"start", obj{"input": []any{}}}) },
		"damage": func(p *program) {
			if err := os.WriteFile(filepath.Join(p.o.Cache, p.entries()[0].Name()), []byte("{"), 0o600); err != nil {
				p.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, generates)
			p.check()
			change(p)
			if v := p.check(); v.Cached || len(p.calls()) != 2 || len(p.entries()) != 1 {
				t.Errorf("cached %t, runs %q, cache %v", v.Cached, p.calls(), p.entries())
			}
		})
	}
}

// Builds that do not know --experimental are asked without it.
func TestPlainForm(t *testing.T) {
	p := newProgram(t, `case "$*" in *--experimental*) echo 'error: unexpected argument' >&2; exit 2;; esac; `+generates)
	p.check()
	calls := p.calls()
	if len(calls) != 2 || !strings.Contains(calls[0], "--experimental") || strings.Contains(calls[1], "--experimental") {
		t.Errorf("runs %q", calls)
	}
}

func TestNoVerdict(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"status":      {`printf 'no \033[31msuch\033[0m thing\n' >&2; exit 2`, "exit status 2: no such thing"},
		"nothing":     {"exit 0", "no such file"},
		"no schema":   {`SCHEMA=/dev/null; ` + generates, "read the schema"},
		"not a file":  {`for last; do :; done; mkdir -p "$last"; mkfifo "$last/ClientRequest.json"`, "is not a plain file"},
		"a link":      {`for last; do :; done; mkdir -p "$last"; ln -s "$SCHEMA" "$last/ClientRequest.json"`, "symbolic link"},
		"not started": {"", "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, tt.script)
			if tt.script == "" {
				if err := os.Chmod(p.path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v, err := Check(t.Context(), p.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v, want %q", v, err, tt.want)
			}
			if all := p.entries(); len(all) > 0 {
				t.Errorf("the cache holds %v", all)
			}
		})
	}
}

// A program that never ends is killed with its children when nobody waits any more.
func TestCancel(t *testing.T) {
	p := newProgram(t, "sleep 1000 & wait")
	if err := syscall.Mkfifo(p.runs, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	over := errors.New("the session is over")
	done := make(chan error, 1)
	go func() { _, err := Check(ctx, p.o); done <- err }()
	if _, err := os.ReadFile(p.runs); err != nil { // blocks until it runs
		t.Fatal(err)
	}
	cancel(over)
	if err := <-done; !errors.Is(err, over) {
		t.Errorf("check: %v", err)
	}
	if all := p.entries(); len(all) > 0 {
		t.Errorf("the cache holds %v", all)
	}
}

// What a killed check has left goes with the next one; what is under way stays.
func TestTidy(t *testing.T) {
	p := newProgram(t, generates)
	for name, age := range map[string]time.Duration{"old": time.Hour, "young": time.Second} {
		dir := filepath.Join(p.o.Cache, workPrefix+name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	p.check()
	var names []string
	for _, e := range p.entries() {
		names = append(names, strings.TrimPrefix(filepath.Ext(e.Name()), workPrefix))
	}
	if got := strings.Join(names, " "); got != "young .json" {
		t.Errorf("left %q", got)
	}
}

// opensymphony 8.6: the preview of a schema's stderr is bounded and clean.
func TestPreview(t *testing.T) {
	long := Preview([]byte("begin\x00 " + strings.Repeat("ä ", 4000)))
	if !strings.HasPrefix(long, "begin ä") || !strings.HasSuffix(long, "...") || strings.ContainsRune(long, 0) || len(long) > maxPreview+3 {
		t.Errorf("%d bytes: %q", len(long), long)
	}
	for in, want := range map[string]string{
		"":                                  "",
		" a\r\n\tb \n":                      "a b",
		"\x1b[2m\x1b[31mERROR\x1b[0m \x07x": "ERROR x",
		"cut \xff\x1b[":                     "cut \uFFFD",
	} {
		if got := Preview([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
