package execcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// program is a tracker of the given shell script. $1 is the question.
func program(t *testing.T, script string, env map[string]any) *Program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "issues.sh"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	provider := map[string]any{"command": "./issues.sh"}
	if env != nil {
		provider["env"] = env
	}
	p, err := Open(tracker.Config{
		Dir: dir, Provider: provider, Environ: os.Environ(), Now: time.Now, TrustedAuthors: []string{"ann"},
		Rules: tracker.Rules{Active: workflow.DefaultActive(), Terminal: workflow.DefaultTerminal()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const board = `
a='{"id":"1","identifier":"A-1","title":"One","state":"Todo","labels":[" Bug"],"author":"Ann"}'
b='{"type":"issue","id":"2","title":"Two","state":"Done","blocked_by":[{"identifier":"A-1","state":"Todo"}],"dispatchable":false}'
case $1 in
list) echo "$a"; echo "$b"; echo "$a" ;;
ids)
	while read -r id; do
		case $id in
		1) echo "$a" ;;
		2) echo "$b" ;;
		4) ;;
		*) printf '{"type":"gone","id":"%s"}\n' "$id" ;;
		esac
	done
	;;
esac
`

func TestList(t *testing.T) {
	p := program(t, board, nil)
	page, err := tracker.Collect(context.Background(), p, tracker.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(page.Issues); got != "A-1 2" {
		t.Errorf("all: %s", got)
	}
	one, two := page.Issues[0], page.Issues[1]
	if !one.Dispatchable || one.Category != wire.CategoryActive || one.Labels[0] != "bug" || one.Tracker != Kind || one.Trusted == nil || !*one.Trusted {
		t.Errorf("%+v", one)
	}
	if two.Dispatchable || !two.BlockedBy[0].Known || two.Trusted != nil {
		t.Errorf("%+v", two)
	}
	page, err = tracker.Collect(context.Background(), p, tracker.Query{States: []string{" done"}})
	if err != nil || keys(page.Issues) != "2" || page.Skipped == 0 {
		t.Errorf("done: %v %+v", err, page)
	}
}

func keys(issues []*wire.Issue) string {
	var all []string
	for _, i := range issues {
		all = append(all, i.Identifier)
	}
	return strings.Join(all, " ")
}

func TestNoStatesAndNoIDsAskNothing(t *testing.T) {
	p := program(t, "exit 1", nil)
	if page, err := tracker.Collect(context.Background(), p, tracker.Query{}); err != nil || len(page.Issues) > 0 {
		t.Errorf("%v %v", page, err)
	}
	if page, err := p.ByIDs(context.Background(), nil); err != nil || len(page.Issues) > 0 {
		t.Errorf("%v %v", page, err)
	}
}

func TestByIDs(t *testing.T) {
	page, err := program(t, board, nil).ByIDs(context.Background(), []string{"2", "3", "1", "2", "4"})
	if err != nil {
		t.Fatal(err)
	}
	if keys(page.Issues) != "2 A-1" || strings.Join(page.Gone, " ") != "3" {
		t.Errorf("%s, gone %q", keys(page.Issues), page.Gone)
	}
	if len(page.Problems) != 1 || !strings.Contains(page.Problems[0].Message, "nothing of the id 4") {
		t.Errorf("problems %v", page.Problems)
	}
}

func TestByIdentifiers(t *testing.T) {
	page, err := program(t, board, nil).ByIdentifiers(context.Background(), []string{"a-1", "A-1", "A-9"})
	if err != nil || keys(page.Issues) != "A-1" || strings.Join(page.Gone, " ") != "A-9" {
		t.Errorf("%+v, %v", page, err)
	}
}

// What one record lacks is a problem of its own, and no other is lost.
func TestRecordsThatAreNoIssues(t *testing.T) {
	page, err := tracker.Collect(context.Background(), program(t, `
echo '{"id":"1","title":"no state"}'
echo 'not JSON'
echo '{"id":"2","title":"Fine","state":"Todo"}'
echo '{"type":"outcome","run_id":"x"}'
printf '{"id":"3","title":"cut'
echo a warning >&2
exit 65`, nil), tracker.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if keys(page.Issues) != "2" || len(page.Problems) != 4 {
		t.Errorf("%s, problems %v", keys(page.Issues), page.Problems)
	}
	if len(page.Warnings) != 1 || page.Warnings[0].Message != "a warning" {
		t.Errorf("warnings %v", page.Warnings)
	}
}

// A list that did not end well is no list, however much of it came.
func TestCategories(t *testing.T) {
	for script, want := range map[string]tracker.Category{
		"exit 1":                              tracker.BadStatus,
		"exit 64":                             tracker.InvalidConfig,
		"exit 66":                             tracker.NotFound,
		"exit 69":                             tracker.Unavailable,
		"exit 75":                             tracker.RateLimited,
		"exit 77":                             tracker.Denied,
		"exit 78":                             tracker.InvalidConfig,
		"no-such-program":                     tracker.InvalidConfig,
		"kill -9 $$":                          tracker.BadStatus,
		"echo token is hunter22 >&2; exit 77": tracker.Denied,
	} {
		p := program(t, `echo '{"id":"1","title":"One","state":"Todo"}'; `+script, map[string]any{"TOKEN": "hunter22"})
		err := p.List(context.Background(), tracker.Query{All: true}, func(*tracker.Page) error {
			t.Errorf("%s: a page of half a list", script)
			return nil
		})
		var e *tracker.Error
		if !errors.As(err, &e) || e.Category != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: the secret is shown: %v", script, err)
		}
	}
}

func TestRetryAt(t *testing.T) {
	p := program(t, `echo '{"type":"summary","rate_limit":{"limit":10,"remaining":0,"reset_at":"2026-05-06T07:08:09Z"}}'; exit 75`, nil)
	err := p.List(context.Background(), tracker.Query{All: true}, func(*tracker.Page) error { return nil })
	var e *tracker.Error
	if !errors.As(err, &e) || !e.RetryAt.Equal(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)) {
		t.Errorf("%v", err)
	}
}

// A program that does not end is ended, with its children.
func TestLimit(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := program(t, "trap '' TERM; touch started; while :; do sleep 1; done", nil)
	stop := errors.New("enough")
	done := make(chan error)
	go func() { done <- p.List(ctx, tracker.Query{All: true}, func(*tracker.Page) error { return nil }) }()
	for {
		if _, err := os.Stat(filepath.Join(p.dir, "started")); err == nil {
			break
		}
	}
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestConfigurations(t *testing.T) {
	for name, c := range map[string]tracker.Config{
		"no command": {},
		"blank":      {Provider: map[string]any{"command": "  "}},
		"open quote": {Provider: map[string]any{"command": "sh -c 'x"}},
		"env":        {Provider: map[string]any{"command": "x", "env": "y"}},
		"value":      {Provider: map[string]any{"command": "x", "env": map[string]any{"A": 1}}},
	} {
		if p, err := Open(c); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
