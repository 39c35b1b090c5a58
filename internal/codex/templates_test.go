package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ostoolkit/internal/session"
)

// Every method of the package, by its constant, has a template.
func TestTemplatesHaveAllMethods(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(named, methods(t, file))
	}
	have := map[string]bool{}
	for _, r := range Templates() {
		have[r.Method] = true
	}
	if want := slices.Sorted(maps.Keys(named)); len(want) < 9 || !slices.Equal(want, slices.Sorted(maps.Keys(have))) {
		t.Errorf("templates of %v, methods %v", slices.Sorted(maps.Keys(have)), want)
	}
}

// methods returns the values of the constants whose names begin with method.
func methods(t *testing.T, file *ast.File) map[string]bool {
	named := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "method") {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			name, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			named[name] = true
		}
		return true
	})
	return named
}

// What a session sends has no member that its template lacks.
func TestTemplatesHaveAllMembers(t *testing.T) {
	known := map[string]map[string]any{}
	for _, r := range Templates() {
		text, err := json.Marshal(r.Params)
		if err != nil {
			t.Fatal(err)
		}
		var params map[string]any
		if err := json.Unmarshal(text, &params); err != nil {
			t.Fatal(err)
		}
		known[r.Method] = params
	}
	answers := map[string]string{
		methodInitialize: `{"userAgent":"x/1"}`, methodThreadStart: `{"thread":{"id":"T1"},"sandbox":{"type":"readOnly"}}`,
		methodTurnStart: `{"turn":{"id":"U1"}}`, methodGoalSet: `{"goal":{"status":"complete"}}`,
	}
	w := newWorld(t, func(s *server) {
		for range len(answers) + 1 {
			line, err := s.in.ReadBytes('\n')
			var frame struct {
				ID     any
				Method string
				Params map[string]any
			}
			if err != nil || json.Unmarshal(line, &frame) != nil {
				t.Errorf("read %q: %v", line, err)
				return
			}
			for name := range frame.Params {
				if _, ok := known[frame.Method][name]; !ok {
					t.Errorf("%s sends %q, its template does not", frame.Method, name)
				}
			}
			if answer, ok := answers[frame.Method]; ok {
				s.send(`{"id":%v,"result":%s}`, frame.ID, answer)
			}
		}
		s.done()
		_, _ = s.in.ReadString(0)
	})
	w.cfg.Goal, w.cfg.Budget.Tokens = "done", 1000
	w.cfg.Thread.Model, w.cfg.Thread.Effort, w.cfg.Thread.ApprovalPolicy = "m", "high", "never"
	w.cfg.Thread.Overrides = map[string]any{"a": 1}
	w.run(t, t.Context())
}

// The schema is compared beside the session, which tells of it in one warning.
func TestSchemaWarning(t *testing.T) {
	warned := make(chan struct{})
	w := newWorld(t, func(s *server) {
		s.hello()
		<-warned
		s.done()
		_, _ = s.in.ReadString(0)
	})
	asked := ""
	w.cfg.Schema = func(_ context.Context, version string) string { asked = version; return "no such member" }
	stdout := signalling{&w.out, `"code":"schema"`, warned}
	em, err := session.NewEmitter(w.cfg.Place, session.Output{Stdout: stdout, Now: w.cfg.Now, Warn: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Emitter = em
	w.run(t, t.Context())
	if asked != "1.2.3" || strings.Count(w.out.String(), `"code":"schema","message":"no such member"`) != 1 {
		t.Errorf("asked about %q, printed\n%s", asked, w.out.String())
	}
}

// signalling closes seen with the write that holds text.
type signalling struct {
	io.Writer
	text string
	seen chan struct{}
}

func (s signalling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.text)) {
		close(s.seen)
	}
	return s.Writer.Write(p)
}

func TestSchemaCheckEndsWithTheSession(t *testing.T) {
	w := newWorld(t, func(s *server) { s.hello(); s.done(); _, _ = s.in.ReadString(0) })
	w.cfg.Schema = func(ctx context.Context, _ string) string { <-ctx.Done(); return "too late" }
	w.run(t, t.Context())
	if strings.Contains(w.out.String(), "too late") {
		t.Errorf("printed\n%s", w.out.String())
	}
}
