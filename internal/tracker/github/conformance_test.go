package github

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/trackertest"
)

const testToken = "ghp_scriptedTokenOfTheTests0123456789"

func TestConformance(t *testing.T) {
	trackertest.Run(t, trackertest.Harness{
		Kind: Kind, Active: stateOpen, Terminal: stateClosed, Pages: 201,
		Troubles: map[trackertest.Trouble]tracker.Category{
			trackertest.WrongCredential: tracker.Denied,
			trackertest.NoPermission:    tracker.Forbidden,
			trackertest.NoScope:         tracker.NotFound,
			trackertest.QuotaUsedUp:     tracker.RateLimited,
			trackertest.Unreachable:     tracker.Unavailable,
			trackertest.Failing:         tracker.Unavailable,
			trackertest.Silent:          tracker.TimedOut,
			trackertest.Garbled:         tracker.BadResponse,
			trackertest.PagesInARing:    tracker.BadPaging,
		},
		Open: openConformance,
	})
}

// faultOf are the troubles that the stand-in is told of.
var faultOf = map[trackertest.Trouble]string{
	trackertest.NoPermission: `[{"status": 403}]`,
	trackertest.Unreachable:  `[{"drop": true}]`,
	trackertest.Failing:      `[{"status": 502}]`,
	trackertest.Silent:       `[{"hang": true}]`,
	trackertest.Garbled:      `[{"body": "<html>"}]`,
	trackertest.PagesInARing: `[{"header": {"Link": "<?page=1>; rel=\"next\""}}]`,
}

func openConformance(t *testing.T, w trackertest.Board, rules tracker.Rules) trackertest.Subject {
	data := map[string]any{}
	if w.Trouble == trackertest.NoScope {
		data["repo"] = "acme/other"
	}
	if w.Trouble == trackertest.QuotaUsedUp {
		data["left"] = 0
	}
	var issues []map[string]any
	for _, i := range w.Issues {
		o := map[string]any{"number": i.N, "title": i.Title, "state": i.State, "labels": i.Labels, "blocked_by": i.BlockedBy}
		var children []int
		for _, c := range w.Issues {
			if c.Parent == i.N {
				children = append(children, c.N)
			}
		}
		o["sub_issues"] = children
		issues = append(issues, o)
	}
	data["issues"] = issues
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	token := testToken
	if w.Trouble == trackertest.WrongCredential {
		token = "ghp_anotherToken0123456789"
	}
	h := start(t, string(text), faultOf[w.Trouble])
	if w.Trouble == trackertest.Silent {
		h.timeout = 200 * time.Millisecond
	}
	return trackertest.Subject{
		Tracker: h.repo(t, map[string]any{"token": token}, rules), ID: strconv.Itoa, Identifier: func(n int) string { return fmt.Sprintf("GH-%d", n) },
		Unknown: "999", Requests: h.server.Requests, Secrets: []string{testToken, token},
	}
}

// hub is a stand-in with a file of faults.
type hub struct {
	server *peertest.GitHub
	faults string
	log    string

	timeout, maxWait time.Duration
}

func start(t *testing.T, data, faults string) *hub {
	t.Helper()
	dir := t.TempDir()
	h := &hub{faults: filepath.Join(dir, "faults.json"), log: filepath.Join(dir, "log.ndjson")}
	h.fault(t, faults)
	log, err := os.Create(h.log)
	if err != nil {
		t.Fatal(err)
	}
	h.server, err = peertest.StartGitHub(peertest.GitHubOptions{Data: []byte(data), Faults: h.faults, Token: testToken, Log: log, Now: testNow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.server.Close(); err != nil {
			t.Error(err)
		}
		log.Close()
	})
	return h
}

func (h *hub) fault(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		text = "[]"
	}
	if err := os.WriteFile(h.faults, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func testNow() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

func testRules() tracker.Rules {
	return tracker.Rules{Active: []string{"open"}, Terminal: []string{"closed"}}
}

// repo opens acme/app at the stand-in. Provider is added to what that takes.
func (h *hub) repo(t *testing.T, provider map[string]any, rules tracker.Rules) *Repo {
	t.Helper()
	all := map[string]any{"endpoint": h.server.URL(), "repo": "acme/app", "token": testToken}
	for k, v := range provider {
		all[k] = v
	}
	r, err := Open(tracker.Config{Provider: all, Rules: rules, Now: testNow, Timeout: h.timeout, MaxWait: h.maxWait})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
