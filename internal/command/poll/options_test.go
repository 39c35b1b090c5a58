package poll

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files")

func TestParseList(t *testing.T) {
	base := func(change func(*listing)) listing {
		l := listing{source: source{timeout: 30 * time.Second, maxWait: 10 * time.Second}, interval: 30 * time.Second}
		change(&l)
		return l
	}
	for _, c := range []struct {
		args string
		want listing
	}{
		{"", base(func(l *listing) { l.selection = selectActive })},
		{"--ready --limit 3", base(func(l *listing) { l.selection, l.limit = selectReady, 3 })},
		{"--active", base(func(l *listing) { l.selection = selectActive })},
		{"--terminal --summary", base(func(l *listing) { l.selection, l.summary = selectTerminal, true })},
		{"--all --tracker folder --workflow x", base(func(l *listing) { l.selection, l.kind, l.workflow = selectAll, "folder", "x" })},
		{"--state Todo --state a,b", base(func(l *listing) { l.selection, l.states = selectStates, []string{"Todo", "a,b"} })},
		{"--id 1 --id 2", base(func(l *listing) { l.ids = []string{"1", "2"} })},
		{"--identifier a-1 --ready", base(func(l *listing) { l.selection, l.identifiers = selectReady, []string{"a-1"} })},
		{"--ids-from - --timeout 2s", base(func(l *listing) { l.stdin, l.timeout = true, 2*time.Second })},
		{"--trusted-authors a,b --max-wait 0s", base(func(l *listing) {
			l.selection, l.trusted, l.maxWait = selectActive, []string{"a", "b"}, 0
		})},
		{"--follow --interval 5s", base(func(l *listing) { l.selection, l.following, l.interval = selectActive, true, 5*time.Second })},
		{"--ids-from=-", base(func(l *listing) { l.stdin = true })},
	} {
		got, err := parseList(strings.Fields(c.args))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.args, got, err, c.want)
		}
	}
}

func TestParseListRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--ready|--all", "--ready and --all exclude each other"},
		{"--state|Todo|--terminal", "--terminal and --state exclude"},
		{"--state|", "--state has a blank name"},
		{"--state| ", "--state has a blank name"},
		{"--id|", "--id has a blank name"},
		{"--identifier|", "--identifier has a blank name"},
		{"--limit|-1", "below zero"},
		{"--interval|5s", "--interval is for --follow"},
		{"--follow|--interval|0s", "not above zero"},
		{"--follow|--id|1", "--follow is for lists"},
		{"--follow|--limit|1", "exclude each other"},
		{"--follow|--summary", "no end"},
		{"--max-wait|-1s", "below zero"},
		{"--limit|x", "--limit"},
		{"--timeout|0s", "not above zero"},
		{"--ids-from|file", `only "-"`},
		{"--ids-from|", `only "-"`},
		{"list", `unexpected argument "list"`},
	} {
		l, err := parseList(strings.Split(c.args, "|"))
		if err == nil || cli.Status(err) != cli.StatusUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v; want … %s …", c.args, l, err, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"os-poll":         {"--help"},
		"os-poll-tool":    {"tool", "-h"},
		"os-poll-secrets": {"secrets", "--help"},
		"os-poll-check":   {"check", "--help"},
		"os-poll-comment": {"comment", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runPoll(t, t.TempDir(), "", args...)
			if got.status != 0 || got.stderr != "" {
				t.Fatalf("status %d, stderr %q", got.status, got.stderr)
			}
			golden(t, filepath.Join("testdata", "help", name+".golden"), got.stdout)
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, got)
	}
}

func TestVersion(t *testing.T) {
	var out *cli.Output
	if _, err := parseList([]string{"--version"}); !errors.As(err, &out) || !strings.HasPrefix(out.Text, "os-poll ") {
		t.Errorf("--version: %v", err)
	}
}
