package linear

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/trackertest"
)

func TestConformance(t *testing.T) {
	trackertest.Run(t, trackertest.Harness{
		Kind: Kind, Active: "Todo", Terminal: "Done", Pages: 130,
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
			trackertest.TooMuchAsked:    tracker.TooComplex,
		},
		Open: openConformance,
	})
}

// faultOf are the troubles that the stand-in is told of.
func faultOf(trouble trackertest.Trouble) string {
	ring := fmt.Sprintf(`{"set": {"data.issues.pageInfo": {"hasNextPage": true, "endCursor": %q}}}`, peertest.LinearIssueID("ENG-1"))
	return map[trackertest.Trouble]string{
		trackertest.NoPermission: `[{"code": "FORBIDDEN"}]`,
		trackertest.QuotaUsedUp:  `[{"code": "RATELIMITED"}]`,
		trackertest.Unreachable:  `[{"drop": true}]`,
		trackertest.Failing:      `[{"status": 502, "body": "<html>"}]`,
		trackertest.Silent:       `[{"hang": true}]`,
		trackertest.Garbled:      `[{"body": "<html>"}]`,
		trackertest.PagesInARing: "[" + ring + "]",
		trackertest.TooMuchAsked: `[{"code": "INPUT_ERROR", "set": {"errors.0.message": "Query too complex"}}]`,
	}[trouble]
}

func openConformance(t *testing.T, b trackertest.Board, rules tracker.Rules) trackertest.Subject {
	key := func(n int) string { return fmt.Sprintf("ENG-%d", n) }
	issues := []map[string]any{}
	for _, i := range b.Issues {
		blockers := []string{}
		for _, n := range i.BlockedBy {
			blockers = append(blockers, key(n))
		}
		issue := map[string]any{"identifier": key(i.N), "title": i.Title, "state": i.State, "labels": i.Labels, "blocked_by": blockers}
		if i.Parent > 0 {
			issue["parent"] = key(i.Parent)
		}
		if i.Malformed {
			issue["raw"] = map[string]any{"title": nil}
		}
		issues = append(issues, issue)
	}
	data, err := json.Marshal(map[string]any{"projects": []map[string]any{{"slug": testSlug}}, "issues": issues})
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, string(data))
	if faults := faultOf(b.Trouble); faults != "" {
		l.fail(faults)
	}
	c := l.config(nil)
	c.Rules = rules
	secrets := []string{testKey}
	switch b.Trouble {
	case trackertest.WrongCredential:
		c.Provider["api_key"] = "lin_api_anotherKey0123456789"
		secrets = append(secrets, "lin_api_anotherKey0123456789")
	case trackertest.NoScope:
		c.Provider["project_slug"] = "nowhere"
	case trackertest.Silent:
		c.Timeout = 200 * time.Millisecond
	}
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return trackertest.Subject{
		Tracker: p, ID: func(n int) string { return peertest.LinearIssueID(key(n)) }, Identifier: key,
		Unknown: "01234567-89ab-4def-8123-456789abcdef", Requests: func() int { return l.count("") }, Secrets: secrets,
	}
}
