package poll

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
)

type result struct {
	status         int
	stdout, stderr string
}

// runPoll runs os-poll in dir.
func runPoll(t *testing.T, dir, stdin string, args ...string) result {
	t.Helper()
	return runEnv(t, &cli.Env{Dir: dir, Stdin: strings.NewReader(stdin), Args: args})
}

func runEnv(t *testing.T, env *cli.Env) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if env.Stdout == nil {
		env.Stdout = &stdout
	}
	env.Stderr = &stderr
	env.Environ = append(env.Environ, "HOME="+env.Dir)
	env.Now = func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }
	status := Main(env)
	return result{status, stdout.String(), stderr.String()}
}

// newDir makes a folder of files, by path.
func newDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lines shows each record as TYPE:identifier or TYPE:id.
func lines(stdout string) []string {
	var out []string
	for l := range strings.Lines(stdout) {
		r := gjson.Parse(l)
		name := r.Get("identifier").String()
		if name == "" {
			name = r.Get("id").String()
		}
		out = append(out, r.Get("type").String()+":"+name)
	}
	return out
}

// board has A-1 in the way of A-2, and one card of every category.
func board() map[string]string {
	return map[string]string{
		"issues/A-1.md": "---\nid: one\nstate: In Progress\n---\n",
		"issues/A-2.md": "---\npriority: 1\nblocked_by: A-1\n---\n",
		"issues/A-3.md": "---\nstate: Done\n---\n",
		"issues/A-4.md": "---\nstate: Someday\n---\n",
	}
}

func TestSelections(t *testing.T) {
	dir := newDir(t, board())
	for args, want := range map[string][]string{
		"":                             {"issue:A-2", "issue:A-1"},
		"--active":                     {"issue:A-2", "issue:A-1"},
		"--ready":                      {"issue:A-1"},
		"--terminal":                   {"issue:A-3"},
		"--all":                        {"issue:A-2", "issue:A-1", "issue:A-3", "issue:A-4"},
		"--state someday --state DONE": {"issue:A-3", "issue:A-4"},
		"--state Nowhere":              nil,
		"--limit 1":                    {"issue:A-2"},
		"--id A-3 --id one --id A-1":   {"issue:A-3", "issue:A-1", "gone:A-1"},
		"--identifier a-1 --id one":    {"issue:A-1"},
		"--identifier A-2 --ready":     nil,
		"--identifier nix":             {"gone:nix"},
	} {
		got := runPoll(t, dir, "", strings.Fields(args)...)
		if got.status != 0 || got.stderr != "" || !slices.Equal(lines(got.stdout), want) {
			t.Errorf("os-poll %s: %q, status %d, stderr %q; want %q", args, lines(got.stdout), got.status, got.stderr, want)
		}
	}
}

func TestSummary(t *testing.T) {
	files := board()
	files["issues/B.md"] = "---\n"
	got := runPoll(t, newDir(t, files), "", "--limit", "1", "--summary")
	last := strings.Split(strings.TrimSpace(got.stdout), "\n")[1]
	const want = `{"v":1,"type":"summary","tracker":"folder","issues":1,"gone":0,"malformed":1,"skipped":2,"truncated":true,"rate_limit":null}`
	if last != want || got.status != cli.StatusData || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("summary %s, status %d, stderr %q", last, got.status, got.stderr)
	}
}

func TestIDsFromStdin(t *testing.T) {
	input := strings.Join([]string{
		"A-9", "", `{"identifier":"a-2"}`, "{bad", " one ", `{"v":1,"type":"workspace","issue":{"id":"A-3"}}`,
		`{"v":1,"type":"gone","id":"A-9"}`, `{"type":"mine","x":1}`, `{"v":1,"type":"summary"}`, `{"type":"comment","id":"c"}`,
		`{"title":"no name"}`, "one", "\xff", "A-4",
	}, "\n") // the last line has no end
	got := runPoll(t, newDir(t, board()), input, "--ids-from", "-")
	want := []string{"gone:A-9", "issue:A-2", "issue:A-1", "issue:A-3", "mine:", "issue:A-4"}
	if !slices.Equal(lines(got.stdout), want) || got.status != cli.StatusData {
		t.Errorf("got %q, status %d; want %q", lines(got.stdout), got.status, want)
	}
	for _, line := range []string{"line 4: not a JSON object", "line 10: record is neither", "line 11: record names no issue", "line 13: id is not valid UTF-8"} {
		if !strings.Contains(got.stderr, line) {
			t.Errorf("stderr lacks %q:\n%s", line, got.stderr)
		}
	}
	if strings.Count(got.stderr, "\n") != 4 {
		t.Errorf("stderr:\n%s", got.stderr)
	}
}

func TestNoIDsAreNoQuestion(t *testing.T) {
	got := runPoll(t, t.TempDir(), "", "--ids-from", "-") // there is no board to ask
	if got != (result{}) {
		t.Errorf("got %+v", got)
	}
}

func TestBrokenCardIsKept(t *testing.T) {
	files := board()
	files["issues/B.md"] = "---\nid: [\n---\n"
	got := runPoll(t, newDir(t, files), "", "--id", "gone", "--id", "one")
	if !slices.Equal(lines(got.stdout), []string{"issue:A-1"}) || got.status != cli.StatusData || !strings.Contains(got.stderr, "B.md:2:") {
		t.Errorf("got %+v", got)
	}
}

func TestReadyTellsOfRings(t *testing.T) {
	dir := newDir(t, map[string]string{"issues/A.md": "---\nblocked_by: B\n---\n", "issues/B.md": "---\nblocked_by: A\n---\n"})
	got := runPoll(t, dir, "", "--ready")
	if got.stdout != "" || got.status != 0 || !strings.Contains(got.stderr, "A -> B -> A") {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	dir := newDir(t, map[string]string{
		"issues/A.md":  "---\n---\n",
		"broken.md":    "---\ntracker: [\n---\n",
		"trello.md":    "---\ntracker: {kind: trello}\n---\n",
		"stateless.md": "---\ntracker: {kind: folder, active_states: []}\n---\n",
		"noboard.md":   "---\ntracker: {kind: folder, provider: {path: nowhere}}\n---\n",
		"array.json":   "[]",
	})
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--workflow none.md", cli.StatusNoInput, "none.md"},
		{"--workflow broken.md", cli.StatusConfig, "broken.md:2"},
		{"--workflow trello.md", cli.StatusConfig, `kind "trello"`},
		{"--workflow trello.md --tracker Folder", 0, ""},
		{"--tracker jira", cli.StatusConfig, `kind "jira"`},
		{"--workflow stateless.md", cli.StatusConfig, "active_states"},
		{"--workflow noboard.md", cli.StatusConfig, filepath.Join(dir, "nowhere")},
		{"check --workflow noboard.md", cli.StatusConfig, "hint: mkdir -p"},
		{"tool list x", cli.StatusUsage, "tool wants"},
		{"tool", cli.StatusUsage, "tool wants"},
		{"tool call nix", cli.StatusUsage, `no tool "nix"; there is issue_get, issue_update`},
		{"tool call issue_get --timeout 0s", cli.StatusUsage, "--timeout"},
		{"secrets x", cli.StatusUsage, "unexpected"},
		{"check x", cli.StatusUsage, "unexpected"},
		{"secrets --workflow broken.md", cli.StatusConfig, "broken.md"},
	} {
		got := runPoll(t, dir, "", strings.Fields(c.args)...)
		if got.status != c.status || !strings.Contains(got.stderr, c.want) {
			t.Errorf("os-poll %s: %+v; want status %d, … %s …", c.args, got, c.status, c.want)
		}
	}
}

func TestStatusOfTrackerErrors(t *testing.T) {
	retry := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for category, status := range map[tracker.Category]int{
		tracker.UnsupportedKind: 78, tracker.InvalidConfig: 78,
		tracker.MissingSecret: 77, tracker.Denied: 77,
		tracker.Unavailable: 69, tracker.BadStatus: 70, tracker.BadResponse: 70, tracker.BadPaging: 70,
		tracker.RateLimited: 75, tracker.Busy: 75, tracker.BadArguments: 65,
		"of no name": 1,
	} {
		err := withStatus(&tracker.Error{Category: category, Message: "x", RetryAt: retry})
		if cli.Status(err) != status || !strings.Contains(err.Error(), "not before 2026-01-01T00:00:00Z") {
			t.Errorf("%s: status %d, %v", category, cli.Status(err), err)
		}
	}
	stopped := &tracker.Error{Category: tracker.Busy, Message: "x", Err: &cli.Interrupted{Signal: 15}}
	if got := cli.Status(withStatus(stopped)); got != 128+15 {
		t.Errorf("stopped by a signal: status %d", got)
	}
}

func TestSecrets(t *testing.T) {
	dir := newDir(t, map[string]string{"WORKFLOW.md": "---\ntracker: {kind: linear, provider: {api_key: $MY_KEY}}\n---\n"})
	got := runEnv(t, &cli.Env{Dir: dir, Args: []string{"secrets"}, Environ: []string{"MY_KEY=hush"}})
	names := strings.Fields(got.stdout)
	if got.status != 0 || !slices.IsSorted(names) || strings.Contains(got.stdout+got.stderr, "hush") {
		t.Errorf("got %+v", got)
	}
	for _, name := range []string{"MY_KEY", "LINEAR_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GITLAB_PAT", "GITLAB_ACCESS_TOKEN", "JIRA_API_TOKEN", "ASANA_PAT", "LINEAR_CLIENT_SECRET"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestCheck(t *testing.T) {
	files := board()
	files["issues/A-1.md"] = "---\nblocked_by: [A-2]\n---\n"
	files["WORKFLOW.md"] = "---\ntracker: {kind: folder}\n---\n"
	dir := newDir(t, files)
	want := `workflow   DIR/WORKFLOW.md
tracker    folder
board      DIR/issues
issues     4
state      "Done" terminal, 1 issue
state      "Someday" other, 1 issue
state      "Todo" active, 2 issues
note       neither active nor terminal: "Someday"
waiting    A-2: blocked by A-1 ("Todo")
waiting    A-1: blocked by A-2 ("Todo")
note       they wait for each other: A-1 -> A-2 -> A-1
note       nothing is ready
`
	got := runPoll(t, dir, "", "check")
	if text := strings.ReplaceAll(got.stdout, dir, "DIR"); text != want || got.status != 0 {
		t.Errorf("status %d, stderr %q, stdout\n%s", got.status, got.stderr, text)
	}
}

func TestCheckTellsTroublesApart(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		status int
		stdout string
		stderr string
	}{
		"missing board":  {map[string]string{"x": ""}, cli.StatusConfig, "", "does not exist"},
		"empty board":    {map[string]string{"issues/_x.md": ""}, 0, "note       the board is empty\n", ""},
		"ready":          {map[string]string{"issues/A.md": "---\n---\n"}, 0, "ready      A\n", ""},
		"broken card":    {map[string]string{"issues/A.md": ""}, cli.StatusData, "malformed  1\n", "A.md:1:"},
		"unknown key":    {map[string]string{"issues/A.md": "---\n---\n", "WORKFLOW.md": "---\ntrakcer: {}\n---\n"}, cli.StatusConfig, "ready      A\n", "1 setting without effect"},
		"nothing active": {map[string]string{"issues/A.md": "---\nstate: Done\n---\n"}, 0, "note       nothing is ready\n", ""},
	} {
		got := runPoll(t, newDir(t, c.files), "", "check")
		if got.status != c.status || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestToolCall(t *testing.T) {
	files := board()
	files["issue.json"] = `{"identifier":"A-2"}`
	files["workspace.json"] = `{"v":1,"type":"workspace","issue":{"id":"one","identifier":"A-1"}}`
	files["odd.json"] = `{"type":"gone","id":"x"}`
	dir := newDir(t, files)
	for _, c := range []struct {
		file, args string
		status     int
		stdout     string // "" or a part of it
		stderr     string
	}{
		{"issue.json", `{"state":"Done"}`, 0, `"identifier":"A-2"`, ""},
		{filepath.Join(dir, "workspace.json"), `{"comment":"hi"}`, 0, `"description":"## Comment 2026-03-04T05:06:07Z\n\nhi"`, ""},
		{"issue.json", `{"identifier":"A-3","add_labels":["x"]}`, 0, `"identifier":"A-3"`, ""}, // the scope is the board
		{"", `{"identifier":"A-3","remove_labels":["x"]}`, 0, `"labels":[]`, ""},
		{"", `{"state":"Done"}`, cli.StatusData, "", "OS_ISSUE_FILE is not set"},
		{"none.json", `{"state":"Done"}`, cli.StatusNoInput, "", "none.json"},
		{"odd.json", `{"state":"Done"}`, cli.StatusData, "", "not a record of an issue"},
		{"issue.json", `[]`, cli.StatusData, "", "not a JSON object"},
		{"issue.json", `{`, cli.StatusData, "", "not a JSON object"},
		{"issue.json", ``, cli.StatusData, "", "nothing to change"},
		{"issue.json", `{"identifier":"../A-1","state":"Done"}`, cli.StatusData, "", "does not name a card"},
		{"issue.json", `{"state":"Nope"}`, cli.StatusFailed, "", `state "Nope" is not one of`},
	} {
		env := &cli.Env{Dir: dir, Stdin: strings.NewReader(c.args), Args: []string{"tool", "call", "issue_update"}}
		if c.file != "" {
			env.Environ = []string{"OS_ISSUE_FILE=" + c.file}
		}
		got := runEnv(t, env)
		if got.status != c.status || !strings.Contains(got.stdout, c.stdout) || (c.stdout == "") != (got.stdout == "") || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s with %s: %+v", c.args, c.file, got)
		}
		if got.status != 0 && strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: stderr is not one line: %q", c.args, got.stderr)
		}
	}
}

func TestToolList(t *testing.T) {
	got := runPoll(t, t.TempDir(), "", "tool", "list")
	var names []string
	for l := range strings.Lines(got.stdout) {
		r := gjson.Parse(l)
		names = append(names, r.Get("name").String())
		if r.Get("description").String() == "" || r.Get("inputSchema.type").String() != "object" {
			t.Errorf("tool %s", l)
		}
	}
	if got.status != 0 || !slices.Equal(names, []string{"issue_get", "issue_update"}) {
		t.Errorf("got %+v", got)
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, cli.ErrStdoutClosed }

func TestClosedStdoutIsNoError(t *testing.T) {
	dir := newDir(t, board())
	for _, args := range []string{"--all", "check", "secrets", "tool list", "--help"} {
		got := runEnv(t, &cli.Env{Dir: dir, Args: strings.Fields(args), Stdout: closedPipe{}})
		if got != (result{}) {
			t.Errorf("os-poll %s: %+v", args, got)
		}
	}
}

// A caller who keeps standard input open cannot hold a tool call for ever.
func TestTimeoutBoundsTheWaitForArguments(t *testing.T) {
	defer goleak.VerifyNone(t)
	r, w := io.Pipe()
	defer w.Close() // ends the read, and with it the goroutine
	got := runEnv(t, &cli.Env{Dir: newDir(t, board()), Stdin: r, Args: []string{"tool", "call", "issue_get", "--timeout", "1ms"}})
	if got.status != cli.StatusUnavailable || got.stdout != "" {
		t.Errorf("got %+v", got)
	}
}

// The harnesses withhold tracker.SecretNames: no adapter may read a token from a
// variable that is not among them.
func TestSecretsOfAdapters(t *testing.T) {
	for _, a := range adapters() {
		for _, name := range a.Secrets {
			if !slices.Contains(tracker.SecretNames(), name) {
				t.Errorf("%s takes a secret from %s, which agents inherit", a.Kind, name)
			}
		}
	}
}
