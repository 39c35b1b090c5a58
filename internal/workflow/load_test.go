package workflow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// environment is a LookupEnv over a map.
func environment(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

var testEnv = map[string]string{
	"TOKEN": "s3cret-value", "TEAM": "core", "EMPTY": "", "BLANK": "  ", "FIVE": "5", "YES": "true", "ROOT": "/srv/ws", "WORD": "many",
}

// write puts text into a WORKFLOW.md and returns its folder.
func write(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func loadIn(dir string, env map[string]string) (*Workflow, []Warning, error) {
	return Load(fileName, Options{LookupEnv: environment(env), Home: "/home/ada", Temp: "/var/tmp", Dir: dir})
}

// load loads a file that has the given front matter.
func load(t testing.TB, front string) (*Workflow, []Warning, error) {
	t.Helper()
	return loadIn(write(t, "---\n"+front+"\n---\nhello\n"), testEnv)
}

func mustLoad(t testing.TB, front string) *Workflow {
	t.Helper()
	w, warnings, err := load(t, front)
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range warnings {
		t.Errorf("unexpected warning: %s", warning)
	}
	return w
}

func TestDefaults(t *testing.T) {
	w := Defaults(Options{Temp: "/var/tmp"}, "/home/ada/project")
	prompt := w.Prompt
	w.Prompt = nil
	want := &Workflow{
		Dir: "/home/ada/project",
		Tracker: Tracker{
			Kind: "folder", Provider: map[string]any{"path": "/home/ada/project/issues"},
			Secrets: []string{}, Missing: map[string]string{},
		},
		Polling:   Polling{Interval: 30 * time.Second},
		Workspace: Workspace{Root: "/var/tmp/symphony_workspaces"},
		Hooks:     Hooks{Timeout: time.Minute},
		Agent: Agent{
			MaxConcurrent: 10, MaxConcurrentByState: map[string]int{}, MaxTurns: 20,
			MaxRetryBackoff: 5 * time.Minute, StallTimeout: 5 * time.Minute, RunTimeout: 6 * time.Hour,
			LaunchTimeout: 2 * time.Minute, TerminalGrace: time.Minute,
			InterruptWhen: []Transition{{"Human Review", "Merging"}},
		},
		Codex: Codex{
			Command: "codex app-server", ApprovalPolicy: "never", ThreadSandbox: "workspace-write",
			TurnTimeout: time.Hour, ReadTimeout: 30 * time.Second,
		},
		Routing: Routing{
			Harness: "codex", HarnessSource: "default", ModelSource: "default", ModelProfileSource: "default",
			Commands: map[string]string{},
		},
		Budget: Budget{RunsPerIssue: 50, NoProgressRuns: 3},
		Tools:  Tools{Commands: []string{"os-poll tool"}},
		Memory: Memory{ExecutionRepo: "/home/ada/project"},
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("defaults:\n got %+v\nwant %+v", w, want)
	}
	if prompt.Text() != defaultPrompt {
		t.Errorf("prompt %q", prompt.Text())
	}
}

func TestEmptyFrontMatterIsDefaults(t *testing.T) {
	for _, front := range []string{"", "# nothing yet", "agent:", "agent: {}", "codex: ~"} {
		w := mustLoad(t, front)
		want := Defaults(Options{Temp: "/var/tmp"}, w.Dir)
		want.Path, want.Name, want.Text, want.Prompt = w.Path, w.Name, w.Text, w.Prompt
		if !reflect.DeepEqual(w, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", front, w, want)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		flag, env, want string
		explicit        bool
	}{
		{"", "", "/d/WORKFLOW.md", false},
		{"", "flow.md", "/d/flow.md", true},
		{"", "/x/flow.md", "/x/flow.md", true},
		{"a.md", "flow.md", "/d/a.md", true},
		{"/b.md", "", "/b.md", true},
	} {
		got, explicit := Find(c.flag, environment(map[string]string{"OS_WORKFLOW": c.env}), "/d")
		if got != c.want || explicit != c.explicit {
			t.Errorf("Find(%q, %q) = %q, %v", c.flag, c.env, got, explicit)
		}
	}
}

func TestMissingFile(t *testing.T) {
	_, _, err := Load("nowhere.md", Options{Dir: t.TempDir()})
	var wrong *Error
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &wrong) {
		t.Errorf("got %v", err)
	}
}

func TestDelimiters(t *testing.T) {
	const setting = "agent:\n  max_turns: 7\n"
	for _, c := range []struct {
		name, text string
		turns      int
		prompt     string
	}{
		{"plain", "---\n" + setting + "---\nbody\n", 7, "body"},
		{"no body", "---\n" + setting + "---", 7, defaultPrompt},
		{"carriage returns", strings.ReplaceAll("---\n"+setting+"---\nbody\n", "\n", "\r\n"), 7, "body"},
		{"byte order mark", "\ufeff---\n" + setting + "---\nbody", 7, "body"},
		{"undelimited", "body\n---\n" + setting, 20, "body\n---\nagent:\n  max_turns: 7"},
		{"indented delimiter", " ---\nbody", 20, " ---\nbody"},
		{"four dashes", "----\nbody", 20, "----\nbody"},
		{"rule in the body", "---\n" + setting + "---\na\n---\nb", 7, "a\n---\nb"},
		{"empty file", "", 20, defaultPrompt},
	} {
		w, _, err := loadIn(write(t, c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if w.Agent.MaxTurns != c.turns || w.Prompt.Text() != c.prompt {
			t.Errorf("%s: %d turns, prompt %q", c.name, w.Agent.MaxTurns, w.Prompt.Text())
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"never closed", "---\nagent: {}\n", "WORKFLOW.md:1: the front matter is not closed by a line ---"},
		{"only the opening", "---", "WORKFLOW.md:1: the front matter is not closed by a line ---"},
		{"closing with a space", "---\n--- \n", "WORKFLOW.md:1: the front matter is not closed"},
		{"not a map", "---\n- a\n---\n", "WORKFLOW.md:2: the front matter is not a map of keys to values"},
		{"a word", "---\n\nword\n---\n", "WORKFLOW.md:3: the front matter is not a map of keys to values"},
		{"syntax", "---\nagent:\n  env: [a\n---\n", "WORKFLOW.md:3: the front matter is not YAML: "},
		{"same key twice", "---\nagent: {}\nagent: {}\n---\n", "WORKFLOW.md:3: the front matter is not YAML: mapping key \"agent\" already defined"},
		{"two documents", "---\na: 1\n...\nb: 2\n---\n", "WORKFLOW.md:1: the front matter holds more than one YAML document"},
		{"unknown alias", "---\n\nagent: *x\n---\n", "WORKFLOW.md:3: the alias \"x\" names no anchor above it"},
		{"alias of itself", "---\nagent: &x {env: *x}\n---\n", "WORKFLOW.md:2: the alias \"x\" names no anchor above it"},
		{"merge of a word", "---\nagent:\n  <<: word\n---\n", "WORKFLOW.md:3: << takes a map or a list of maps"},
		{"brackets", "---\na: " + strings.Repeat("[", 5000) + "\n---\n", "WORKFLOW.md:2: the front matter is nested more than 100 deep"},
		{"dashes", "---\na:\n  " + strings.Repeat("- ", 5000) + "\n---\n", "WORKFLOW.md:3: the front matter is nested more than 100 deep"},
		{"not UTF-8", "---\n---\nfine\n\xff\n", "WORKFLOW.md:4: the text is not UTF-8"},
		{"too long", strings.Repeat("x", maxFile+1), "WORKFLOW.md: the file is over the limit of 1048576 bytes"},
		{"unfolding", "---\n" + bomb() + "---\n", "WORKFLOW.md:6: the front matter has more than 100000 values"},
	} {
		_, _, err := loadIn(write(t, c.text), nil)
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

// bomb is YAML that unfolds to ten to the eighth values.
func bomb() string {
	text := "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := range 8 {
		name, last := string(rune('1'+i)), string(rune('0'+i))
		text += "a" + name + ": &a" + name + " [" + strings.Repeat("*a"+last+",", 10) + "]\n"
	}
	return text
}

func TestErrorsAreTheFirstByLine(t *testing.T) {
	_, _, err := load(t, "server:\n  port: x\nagent:\n  max_turns: 0")
	if got, want := err.Error(), `WORKFLOW.md:3: server.port: "x" is not a whole number of at least 0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErrorFields(t *testing.T) {
	_, _, err := load(t, "\nagent:\n  max_turns: x")
	want := &Error{
		Path: "WORKFLOW.md", Line: 4, Key: "agent.max_turns", Value: "x",
		Message: `"x" is not a whole number of at least 1`,
	}
	if !reflect.DeepEqual(err, error(want)) {
		t.Errorf("got %#v", err)
	}
}

func TestYAMLFeatures(t *testing.T) {
	w := mustLoad(t, strings.Join([]string{
		"hooks: &h", "  before_run: |", "    one", "", "    two", "  env: [A, B]",
		"agent:", "  env: &names", "    - C", "  max_turns: 0x10",
		"routing:", "  model: !!str 12",
		"budget: {<<: {runs_per_issue: 4, no_progress_runs: 9}, no_progress_runs: 2}",
	}, "\n"))
	if w.Hooks.BeforeRun != "one\n\ntwo\n" || w.Agent.MaxTurns != 16 || w.Routing.Model != "12" {
		t.Errorf("got %+v", w)
	}
	if w.Budget.RunsPerIssue != 4 || w.Budget.NoProgressRuns != 2 {
		t.Errorf("merge: %+v", w.Budget)
	}
}

// FuzzLoad holds that no text makes Load panic, that what it returns is either a
// workflow with a prompt or an error with a message, and that errors name the file.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---\n", "hello {{ issue.title }}", "---\nagent:\n  max_turns: '3'\n---\n{% if attempt %}x{% endif %}",
		"---\ntracker: {kind: linear, provider: {api_key: $TOKEN}}\n---\n", "---\na: &a [*a]\n---\n", "\ufeff---\r\n---\r\n",
		"{% for l in issue.labels %}{{ l | truncate: 2000 }}{% endfor %}", "{{ 99999999999999999999 }}", "{% raw %}{{ x",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		r := newReader(filepath.Join(dir, fileName), fileName, Options{LookupEnv: environment(testEnv)})
		w, err := r.load([]byte(text))
		var wrong *Error
		switch {
		case err == nil && (w == nil || w.Prompt == nil):
			t.Error("neither a workflow nor an error")
		case err != nil && (!errors.As(err, &wrong) || wrong.Message == "" || wrong.Path != fileName):
			t.Errorf("error without a place or a message: %#v", err)
		case err == nil:
			// An issue may hold anything; rendering may fail, but never panics.
			_, _ = w.Prompt.Render(Vars{Issue: sampleIssue()})
		}
	})
}
