package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// asked are the requests so far, as "METHOD path?query", without the repository's part.
func (h *hub) asked(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(h.log)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		var e struct{ Method, Path, Query string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		q, err := url.QueryUnescape(e.Query)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSuffix(e.Method+" "+strings.TrimPrefix(e.Path, "/repos/acme/app")+"?"+q, "?"))
	}
	return out
}

func keys(issues []*wire.Issue) []string {
	var out []string
	for _, i := range issues {
		out = append(out, i.Identifier)
	}
	return out
}

func list(t *testing.T, r *Repo, q tracker.Query) *tracker.Page {
	t.Helper()
	page, err := tracker.Collect(t.Context(), r, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	return page
}

func open() tracker.Query { return tracker.Query{States: []string{"open"}} }

// many are the numbers from first to last as data of the stand-in.
func many(first, last int, more string) string {
	var out []string
	for n := first; n <= last; n++ {
		out = append(out, fmt.Sprintf(`{"number":%d,"title":"Issue %d"%s}`, n, n, more))
	}
	return strings.Join(out, ",")
}

func category(err error) tracker.Category {
	var typed *tracker.Error
	if errors.As(err, &typed) {
		return typed.Category
	}
	return ""
}

// Case P04: a page of pull requests is not the end of the list.
func TestPullRequestsAreNoIssues(t *testing.T) {
	h := start(t, `{"issues":[`+many(1, 100, `,"pull":true`)+","+many(101, 103, "")+`]}`, "")
	page := list(t, h.repo(t, nil, testRules()), open())
	if got := keys(page.Issues); !slices.Equal(got, []string{"GH-101", "GH-102", "GH-103"}) || page.Skipped != 100 {
		t.Errorf("issues %q, %d skipped", got, page.Skipped)
	}
	byID, err := h.repo(t, nil, testRules()).ByIDs(t.Context(), []string{"1", "101"})
	if err != nil || !slices.Equal(byID.Gone, []string{"1"}) || len(byID.Issues) != 1 {
		t.Errorf("by id: %+v, %v", byID, err)
	}
}

// Case P05, also where something on the way has taken the Link headers out.
func TestPagesToTheEnd(t *testing.T) {
	for _, data := range []string{`{"fill":315}`, `{"fill":315,"no_links":true}`, `{"fill":300,"no_links":true}`, `{"fill":315,"no_tags":true}`} {
		h := start(t, data, "")
		want := 315
		if strings.Contains(data, "300") {
			want = 300
		}
		if got := len(list(t, h.repo(t, nil, testRules()), open()).Issues); got != want {
			t.Errorf("%s: %d issues, want %d", data, got, want)
		}
	}
}

// Case P06: an issue that comes on two pages is given once, in its newer form.
func TestAnIssueOnTwoPages(t *testing.T) {
	h := start(t, `{"fill":115}`, `[{"match":"page=2","prepend":[{"number":7,"title":"newer","updated_at":"2026-05-05T05:05:05Z"}]}]`)
	page := list(t, h.repo(t, nil, testRules()), open())
	i := slices.IndexFunc(page.Issues, func(i *wire.Issue) bool { return i.ID == "7" })
	if len(page.Issues) != 115 || page.Issues[i].Title != "newer" || page.Issues[i].UpdatedAt.Month() != 5 {
		t.Errorf("%d issues, %+v", len(page.Issues), page.Issues[i])
	}
	h.fault(t, `[{"match":"page=2","prepend":[{"number":7,"title":"older","updated_at":"2025-05-05T05:05:05Z"}]}]`)
	page = list(t, h.repo(t, nil, testRules()), open())
	if i := slices.IndexFunc(page.Issues, func(i *wire.Issue) bool { return i.Title == "older" }); i >= 0 || len(page.Issues) != 115 {
		t.Errorf("%d issues, and an old copy at %d", len(page.Issues), i)
	}
}

// An issue that is closed while the list is read moves the later ones to the front; the
// one that slips to a page that was read already is found all the same.
func TestAListThatShrinksWhileItIsRead(t *testing.T) {
	for _, data := range []string{`{"fill":250}`, `{"fill":250,"no_tags":true}`} {
		h := start(t, data, `[{"match":"issues\\?","times":1,"close":[1]}]`)
		page := list(t, h.repo(t, nil, testRules()), open())
		if !slices.Contains(keys(page.Issues), "GH-101") || len(page.Issues) != 250 {
			t.Errorf("%s: %d issues, GH-101 among them: %v", data, len(page.Issues), slices.Contains(keys(page.Issues), "GH-101"))
		}
	}
}

func TestAListThatNeverStaysTheSame(t *testing.T) {
	// Whenever the first page is looked at, another issue has been opened again.
	var faults []string
	for n := 1; n < 9; n++ {
		faults = append(faults, fmt.Sprintf(`{"match":"state=open$","after":%d,"times":1,"prepend":[{"number":%d,"state":"open"}]}`, n-1, n))
	}
	// The stand-in counts those that it looked at, and takes the first that fits.
	slices.Reverse(faults)
	h := start(t, `{"issues":[`+many(1, 9, `,"state":"closed"`)+","+many(10, 199, "")+`]}`, "["+strings.Join(faults, ",")+"]")
	_, err := tracker.Collect(t.Context(), h.repo(t, nil, testRules()), open())
	if category(err) != tracker.BadPaging {
		t.Errorf("%v", err)
	}
}

// An answer that did not change costs no bytes and no quota.
func TestUnchangedPagesAreConfirmed(t *testing.T) {
	h := start(t, `{"issues":[`+many(1, 115, "")+`]}`, "")
	r := h.repo(t, nil, testRules())
	first := list(t, r, open())
	second := list(t, r, open())
	if !slices.Equal(keys(first.Issues), keys(second.Issues)) || *second.RateLimit.Remaining != *first.RateLimit.Remaining {
		t.Errorf("%d and %d issues; %d and %d left", len(first.Issues), len(second.Issues), *first.RateLimit.Remaining, *second.RateLimit.Remaining)
	}
	if used := *first.RateLimit.Limit - *first.RateLimit.Remaining; used != 2 {
		t.Errorf("%d requests of the quota for two pages", used)
	}
}

// REFERENCE 12, item 8, and its section 10.
func TestWhatEveryRefusalMeans(t *testing.T) {
	const later = "1780317000" // 12:30 of testNow's day
	for name, c := range map[string]struct {
		fault    string
		category tracker.Category
		retryAt  string
	}{
		"403 for a permission":       {`{"status":403}`, tracker.Forbidden, ""},
		"403 with retry-after":       {`{"status":403,"header":{"Retry-After":"90"}}`, tracker.RateLimited, "12:01:30"},
		"403 with nothing left":      {`{"status":403,"header":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"` + later + `"}}`, tracker.RateLimited, "12:30:00"},
		"403 of the secondary limit": {`{"status":403,"body":"{\"message\":\"You have exceeded a secondary rate limit.\"}"}`, tracker.RateLimited, "12:01:00"},
		"429":                        {`{"status":429}`, tracker.RateLimited, "12:01:00"},
		"429 with both":              {`{"status":429,"header":{"Retry-After":"5","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"` + later + `"}}`, tracker.RateLimited, "12:00:05"},
		"401":                        {`{"status":401}`, tracker.Denied, ""},
		"404":                        {`{"status":404}`, tracker.NotFound, ""},
		"410":                        {`{"status":410}`, tracker.NotFound, ""},
		"301":                        {`{"status":301,"header":{"Location":"/repositories/5"}}`, tracker.InvalidConfig, ""},
		"422":                        {`{"status":422}`, tracker.BadStatus, ""},
	} {
		h := start(t, `{"fill":1}`, "["+c.fault+"]")
		r := h.repo(t, nil, testRules())
		_, err1 := tracker.Collect(t.Context(), r, open())
		_, err2 := r.ByIDs(t.Context(), []string{"1"})
		for _, err := range []error{err1, err2} {
			var typed *tracker.Error
			at := ""
			if errors.As(err, &typed) && !typed.RetryAt.IsZero() {
				at = typed.RetryAt.UTC().Format("15:04:05")
			}
			if category(err) != c.category || at != c.retryAt {
				t.Errorf("%s: %q until %q, %v", name, category(err), at, err)
			}
		}
	}
}

// Only an issue that is certainly not here is gone: 404, 410 and 301 of a repository that
// is visible.
func TestGone(t *testing.T) {
	const data = `{"issues":[{"number":1,"title":"a"},{"number":2,"title":"b","deleted":true},{"number":3,"title":"c","moved_to":"/repositories/9/issues/4"}]}`
	h := start(t, data, "")
	page, err := h.repo(t, nil, testRules()).ByIDs(t.Context(), []string{"3", "2", "1", "4"})
	if err != nil || !slices.Equal(page.Gone, []string{"3", "2", "4"}) || !slices.Equal(keys(page.Issues), []string{"GH-1"}) {
		t.Errorf("%+v, %v", page, err)
	}
	var probes int
	for _, a := range h.asked(t) {
		if a == "GET " {
			probes++
		}
	}
	if probes != 1 {
		t.Errorf("%d looks at the repository: %q", probes, h.asked(t))
	}
	for name, data := range map[string]string{"hidden": `{"repo":"acme/other"}`, "without issues": `{"no_issues":true}`} {
		page, err := start(t, data, "").repo(t, nil, testRules()).ByIDs(t.Context(), []string{"1"})
		if err == nil {
			t.Errorf("%s repository: %+v", name, page)
		}
	}
}

// Case P07: what is asked for is selected by the server.
func TestWhatIsAsked(t *testing.T) {
	labels := map[string]any{"state_labels": map[string]any{"In Progress": "doing", "Human Review": "review", "Done": "shipped"}}
	rules := tracker.Rules{Active: []string{"open", "In Progress"}, Terminal: []string{"closed", "Done"}}
	const tail = "&per_page=100&sort=created&state="
	for name, c := range map[string]struct {
		query tracker.Query
		want  []string
	}{
		"active":            {tracker.Query{States: rules.Active}, []string{"direction=asc" + tail + "open"}},
		"required":          {tracker.Query{States: rules.Active, Labels: []string{"Agent", " ", "a,b"}}, []string{"direction=asc&labels=agent" + tail + "open"}},
		"a labelled one":    {tracker.Query{States: []string{"in progress "}}, []string{"direction=asc&labels=doing" + tail + "open"}},
		"one of either":     {tracker.Query{States: []string{"Done"}}, []string{"direction=asc&labels=shipped" + tail + "closed", "direction=asc&labels=shipped" + tail + "open"}},
		"terminal":          {tracker.Query{States: rules.Terminal}, []string{"direction=asc" + tail + "closed", "direction=asc&labels=shipped" + tail + "open"}},
		"all":               {tracker.Query{All: true}, []string{"direction=asc" + tail + "all"}},
		"both":              {tracker.Query{States: []string{"open", "CLOSED"}}, []string{"direction=asc" + tail + "all"}},
		"what none can be":  {tracker.Query{States: []string{"Todo"}}, nil},
		"nothing, case P11": {tracker.Query{}, nil},
	} {
		h := start(t, `{}`, "")
		list(t, h.repo(t, labels, rules), c.query)
		var want []string
		for _, q := range c.want {
			want = append(want, "GET /issues?"+q)
		}
		if got := h.asked(t); !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", name, got, want)
		}
	}
}
