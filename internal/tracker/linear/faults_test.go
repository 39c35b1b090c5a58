package linear

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
)

// three is a board of three issues, read in pages of one.
func three(t *testing.T) (*lab, *Project) {
	l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "ENG-2"}, {"identifier": "ENG-3"}`))
	return l, l.open(map[string]any{"page_size": 1})
}

// Cases P09 and P13, REFERENCE 12, items 1, 2, 4 and 12: what is not a whole answer is an
// error of its own kind, and only what may go away is asked again.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, faults string
		want         tracker.Category
		words        []string
		asked        int
	}{
		{"data with errors (P13, item 1)", `[{"after": 1, "set": {"data.issues.nodes.0": null, "errors": [{"message": "Cannot return null"}]}}]`,
			tracker.BadResponse, []string{"Cannot return null"}, 2},
		{"no data", `[{"set": {"data": null}}]`, tracker.BadResponse, []string{"no data"}, 1},
		{"not JSON", `[{"body": "<html>busy</html>"}]`, tracker.BadResponse, nil, 1},
		{"another shape", `[{"set": {"data.issues": 7}}]`, tracker.BadResponse, []string{"does not fit"}, 1},
		{"a schema rejection (P09)", `[{"code": "GRAPHQL_VALIDATION_FAILED"}]`, tracker.BadResponse, []string{"GRAPHQL_VALIDATION_FAILED", "A fault of the test"}, 1},
		{"a bad argument", `[{"code": "INVALID_INPUT", "status": 200}]`, tracker.BadResponse, []string{"INVALID_INPUT"}, 1},
		{"too complex (item 12)", `[{"code": "INPUT_ERROR", "set": {"errors.0.message": "Query too complex"}}]`, tracker.TooComplex, nil, 1},
		{"a bad key", `[{"code": "AUTHENTICATION_ERROR", "status": 401}]`, tracker.Denied, nil, 1},
		{"no permission", `[{"code": "FORBIDDEN", "status": 200}]`, tracker.Forbidden, nil, 1},
		{"rate limited for long (item 2)", `[{"code": "RATELIMITED", "header": {"Retry-After": "3600"}}]`, tracker.RateLimited, nil, 1},
		{"429", `[{"status": 429, "body": "slow down", "header": {"Retry-After": "3600"}}]`, tracker.RateLimited, nil, 1},
		{"no endpoint there", `[{"status": 404, "body": "not found"}]`, tracker.NotFound, nil, 1},
		{"no pageInfo (item 4)", `[{"after": 1, "delete": ["data.issues.pageInfo"]}]`, tracker.BadPaging, nil, 2},
		{"no hasNextPage", `[{"delete": ["data.issues.pageInfo.hasNextPage"]}]`, tracker.BadPaging, nil, 1},
		{"a blank cursor (item 4)", `[{"set": {"data.issues.pageInfo.endCursor": " "}}]`, tracker.BadPaging, nil, 1},
		{"a null cursor", `[{"set": {"data.issues.pageInfo.endCursor": null}}]`, tracker.BadPaging, nil, 1},
		{"no nested pageInfo (item 3)", `[{"set": {"data.issues.nodes.0.labels.pageInfo": null}}]`, tracker.BadPaging, nil, 1},
		{"no nested list (item 3)", `[{"set": {"data.issues.nodes.0.inverseRelations": null}}]`, tracker.BadPaging, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, p := three(t)
			l.fail(c.faults)
			page, err := tracker.Collect(t.Context(), p, tracker.Query{All: true})
			wantCategory(t, err, c.want, c.words...)
			if page != nil {
				t.Errorf("an error with a page of %d issues", len(page.Issues))
			}
			if n := l.count(""); n != c.asked {
				t.Errorf("%d requests, want %d", n, c.asked)
			}
			if strings.Contains(fmt.Sprint(err), testKey) {
				t.Errorf("the key is in the message: %v", err)
			}
		})
	}
}

// REFERENCE 12, item 4: a cursor that comes twice would be read for ever.
func TestCursorThatRepeats(t *testing.T) {
	l, p := three(t)
	first := ""
	err := p.List(t.Context(), tracker.Query{All: true}, func(page *tracker.Page) error {
		if first == "" {
			first = page.Issues[0].ID
			l.fail(`[{"set": {"data.issues.pageInfo.endCursor": "` + first + `"}}]`)
		}
		return nil
	})
	wantCategory(t, err, tracker.BadPaging, "leads back")
}

// Case P06, REFERENCE 12, item 4: an issue that comes twice is one.
func TestIssueThatComesTwice(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "ENG-2"}`))
	p := l.open(nil)
	record := l.record(p, "ENG-1")
	l.fail(`[{"set": {"data.issues.nodes.0": ` + record + `}}]`)
	if got := keys(list(t, p, "Todo").Issues); !slices.Equal(got, []string{"ENG-1"}) {
		t.Errorf("issues %q, want ENG-1 once", got)
	}
}

// record returns an issue as the stand-in sends it.
func (l *lab) record(p *Project, key string) string {
	l.t.Helper()
	var answer issuesAnswer
	vars := map[string]any{"filter": keyFilter([]string{key}), "archived": true, "first": 1,
		"labels": 1, "blockers": 1, "children": 1, "attachments": 1}
	if err := p.ask(l.t.Context(), issuesQuery, vars, &answer); err != nil {
		l.t.Fatal(err)
	}
	return string(answer.Issues.Nodes[0])
}

// REFERENCE 12, item 7: one bad record is a message on a list and a failure where that
// issue was asked for.
func TestMalformedRecord(t *testing.T) {
	for name, raw := range map[string]string{"title": `{"title": null}`, "state": `{"state": null}`, "identifier": `{"identifier": 5}`, "id": `{"id": ""}`} {
		l := newLab(t, board(`{"identifier": "ENG-1"}, {"identifier": "ENG-2", "raw": `+raw+`}`))
		p := l.open(nil)
		page := list(t, p)
		if len(page.Issues) != 1 || len(page.Problems) != 1 || !strings.Contains(page.Problems[0].Error(), name) {
			t.Errorf("%s: %d issues, problems %v", name, len(page.Issues), page.Problems)
		}
		if name != "title" {
			continue
		}
		_, err := p.ByIdentifiers(t.Context(), []string{"ENG-1", "ENG-2"})
		wantCategory(t, err, tracker.BadResponse, "ENG-2", "title is missing")
	}
}

// The reset of a limit that is not used up says nothing: every answer has one.
func TestRetryAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return fmt.Sprint(now.Add(d).UnixMilli()) }
	limits := func(requests, points string) http.Header {
		h := http.Header{}
		for name, v := range map[string][2]string{"Requests": {requests, at(time.Hour)}, "Complexity": {points, at(time.Minute)}} {
			h.Set("X-RateLimit-"+name+"-Limit", "2500")
			h.Set("X-RateLimit-"+name+"-Remaining", v[0])
			h.Set("X-RateLimit-"+name+"-Reset", v[1])
		}
		return h
	}
	retry := func(h http.Header, value string) http.Header {
		h.Set("Retry-After", value)
		return h
	}
	costly := limits("5", "30")
	costly.Set("X-Complexity", "900")
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration // 0: not known
	}{
		{"requests", limits("0", "7000"), "", time.Hour},
		{"complexity", limits("5", "0"), "", time.Minute},
		{"both", limits("0", "0"), "", time.Hour},
		{"less than it costs", costly, "", time.Minute},
		{"Retry-After", retry(http.Header{}, "90"), "", 90 * time.Second},
		{"used up goes before", retry(limits("0", "1"), "90"), "", time.Hour},
		{"duration", http.Header{}, `,"meta":{"rateLimitResult":{"duration":30000}}`, 30 * time.Second},
		{"nothing", http.Header{}, "", 0},
	} {
		body := `{"errors":[{"message":"x","extensions":{"code":"RATELIMITED"` + c.body + `}}]}`
		want := time.Time{}
		if c.want > 0 {
			want = now.Add(c.want)
		}
		if at, limited := limited(http.StatusBadRequest, c.header, []byte(body), now); !limited || !at.Equal(want) {
			t.Errorf("%s: limited %t, not before %v, want %v", c.name, limited, at, want)
		}
	}
}

func TestLimitedByType(t *testing.T) {
	for _, extensions := range []string{`{"type":"ratelimited"}`, `{"code":"x","statusCode":429}`} {
		var env envelope
		if err := json.Unmarshal([]byte(`{"errors":[{"extensions":`+extensions+`}]}`), &env); err != nil || !env.Errors[0].limited() {
			t.Errorf("%s is not taken for a limit, %v", extensions, err)
		}
	}
}

// A tracker that fails for a moment is asked again, and an answer that was cut too.
func TestAskedAgain(t *testing.T) {
	for name, faults := range map[string]string{
		"500":       `[{"times": 1, "status": 500, "body": "oops"}]`,
		"cut":       `[{"times": 1, "drop": true}]`,
		"wait":      `[{"times": 1, "code": "RATELIMITED", "header": {"Retry-After": "1"}}]`,
		"500 typed": `[{"times": 1, "status": 500, "code": "INTERNAL_SERVER_ERROR"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, board(`{"identifier": "ENG-1"}`))
			c := l.config(nil)
			c.MaxWait = 10 * time.Second
			p, err := Open(c)
			if err != nil {
				t.Fatal(err)
			}
			l.fail(faults)
			if page := list(t, p, "Todo"); len(page.Issues) != 1 || l.count("") != 2 {
				t.Errorf("%d issues after %d requests", len(page.Issues), l.count(""))
			}
		})
	}
}

func TestTrackerDown(t *testing.T) {
	l := newLab(t, board(""))
	p := l.open(map[string]any{"endpoint": "http://127.0.0.1:1/graphql"})
	_, err := p.Probe(t.Context())
	wantCategory(t, err, tracker.Unavailable)
}
