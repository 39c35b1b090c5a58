package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ostoolkit/internal/tracker"
)

// answers is a base that gives one answer after the other, the last one for ever. An
// answer is a status, "cut", "hang", or a status and a header "429 Retry-After:5".
type answers struct {
	list  []string
	seen  []*http.Request
	bodys []string
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		a.bodys = append(a.bodys, string(b))
	}
	what := a.list[min(len(a.seen), len(a.list)-1)]
	a.seen = append(a.seen, req)
	status, header, _ := strings.Cut(what, " ")
	switch what {
	case "cut":
		return nil, errors.New("connection reset for tok-en-1234")
	case "hang":
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	res := &http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer"))}
	if _, err := fmt.Sscan(status, &res.StatusCode); err != nil {
		return nil, err
	}
	if name, value, ok := strings.Cut(header, ":"); ok {
		res.Header.Set(name, value)
	}
	return res, nil
}

func (a *answers) options() Options {
	s := &Secrets{}
	s.Add("tok-en-1234")
	return Options{Name: "Hub", Base: a, Timeout: 5 * time.Second, MaxWait: 10 * time.Second, Now: time.Now, Secrets: s}
}

func ask(ctx context.Context, o Options, method string, body string) (int, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://hub/x", r)
	if err != nil {
		return 0, err
	}
	res, err := o.Client().Do(req)
	if err != nil {
		return 0, Unwrap(err)
	}
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	return res.StatusCode, err
}

func TestRetries(t *testing.T) {
	read := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		name, method, answers string
		ctx                   func(context.Context) context.Context
		status                int
		category              tracker.Category
		requests              int
		least, most           time.Duration
	}{
		{"the first will do", "GET", "200", read, 200, "", 1, 0, 0},
		{"after two failures", "GET", "502,503,200", read, 200, "", 3, 375 * time.Millisecond, 1125 * time.Millisecond},
		{"after a cut", "GET", "cut,200", read, 200, "", 2, 125 * time.Millisecond, 375 * time.Millisecond},
		{"after a hang", "GET", "hang,200", read, 200, "", 2, 5 * time.Second, 6 * time.Second},
		{"it stays broken", "GET", "500", read, 500, "", 4, 875 * time.Millisecond, 2625 * time.Millisecond},
		{"it stays away", "GET", "cut", read, 0, tracker.Unavailable, 4, 875 * time.Millisecond, 2625 * time.Millisecond},
		{"a refusal stands", "GET", "403", read, 403, "", 1, 0, 0},
		{"a change is sent once", "POST", "502,200", read, 502, "", 1, 0, 0},
		{"a change that was cut", "POST", "cut,200", read, 0, tracker.Unavailable, 1, 0, 0},
		{"a query by POST", "POST", "502,200", Reading, 200, "", 2, 125 * time.Millisecond, 375 * time.Millisecond},
		{"a short limit", "GET", "429 Retry-After:3,200", read, 200, "", 2, 3125 * time.Millisecond, 3375 * time.Millisecond},
		{"a long limit, case P02", "GET", "429 Retry-After:3600", read, 0, tracker.RateLimited, 1, 0, 0},
		{"a limit without an end", "GET", "429", read, 0, tracker.RateLimited, 1, 0, 0},
		{"two limits over the bound", "GET", "429 Retry-After:6", read, 0, tracker.RateLimited, 2, 6 * time.Second, 7 * time.Second},
		{"a limit, as it is", "GET", "429 Retry-After:3", AsIs, 429, "", 1, 0, 0},
		{"busy for an hour", "GET", "503 Retry-After:3600", read, 503, "", 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answers{list: strings.Split(c.answers, ",")}
				body, begin := "", time.Now()
				if c.method == "POST" {
					body = "question"
				}
				status, err := ask(c.ctx(t.Context()), a.options(), c.method, body)
				took := time.Since(begin)
				if status != c.status || len(a.seen) != c.requests || took < c.least || took > c.most {
					t.Errorf("status %d after %d requests and %v: %v", status, len(a.seen), took, err)
				}
				var typed *tracker.Error
				if errors.As(err, &typed); (c.category != "") != (typed != nil) || typed != nil && typed.Category != c.category {
					t.Errorf("error %v, want %q", err, c.category)
				}
				for _, b := range a.bodys {
					if b != "question" {
						t.Errorf("body %q", b)
					}
				}
			})
		})
	}
}

func TestRetryAtIsWhatTheServiceSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for answer, want := range map[string]time.Duration{"429 Retry-After:3600": time.Hour, "429": time.Minute} {
			a := &answers{list: []string{answer}}
			_, err := ask(t.Context(), a.options(), "GET", "")
			var typed *tracker.Error
			if !errors.As(err, &typed) || !typed.RetryAt.Equal(time.Now().Add(want)) {
				t.Errorf("%s: %+v", answer, err)
			}
		}
	})
}

func TestTheCallersReasonCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped")
		for _, answer := range []string{"hang", "429 Retry-After:8"} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stopped)
			a := &answers{list: []string{answer}}
			begin := time.Now()
			_, err := ask(ctx, a.options(), "GET", "")
			if !errors.Is(err, stopped) || time.Since(begin) != time.Second {
				t.Errorf("%s: %v after %v", answer, err, time.Since(begin))
			}
			cancel()
		}
	})
}

func TestNoWaitIsNoSecondAttempt(t *testing.T) {
	a := &answers{list: []string{"502", "200"}}
	o := a.options()
	o.MaxWait = 0
	if status, err := ask(t.Context(), o, "GET", ""); status != 502 || len(a.seen) != 1 {
		t.Errorf("status %d, %d requests, %v", status, len(a.seen), err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	a := &answers{list: []string{"200"}}
	o := a.options()
	o.MaxBody = int64(len("answer")) - 1
	_, err := ask(t.Context(), o, "GET", "")
	var typed *tracker.Error
	if !errors.As(err, &typed) || typed.Category != tracker.BadResponse {
		t.Errorf("%v", err)
	}
	o.MaxBody++
	if _, err := ask(t.Context(), o, "GET", ""); err != nil {
		t.Errorf("at the bound: %v", err)
	}
}

func TestWhoAsks(t *testing.T) {
	a := &answers{list: []string{"301 Location:http://elsewhere/"}}
	status, err := ask(t.Context(), a.options(), "GET", "")
	if status != 301 || err != nil || len(a.seen) != 1 {
		t.Errorf("a redirect: %d, %v, %d requests", status, err, len(a.seen))
	}
	if agent := a.seen[0].UserAgent(); !strings.HasPrefix(agent, "os-poll/") {
		t.Errorf("user agent %q", agent)
	}
}

func TestMessagesShowNoSecret(t *testing.T) {
	a := &answers{list: []string{"cut"}}
	o := a.options()
	o.MaxWait = 0
	_, err := ask(t.Context(), o, "GET", "")
	if err == nil || strings.Contains(err.Error(), "tok-en") || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("%v", err)
	}
	refused := o.Refused(403, "no\tuse\x1b[31m of tok-en-1234 "+strings.Repeat("ä", 1000))
	if m := refused.Error(); strings.Contains(m, "tok-en") || strings.ContainsAny(m, "\x1b\t") || len([]rune(m)) > 350 || refused.Category != tracker.Forbidden {
		t.Errorf("%q, %s", m, refused.Category)
	}
	edge := strings.Repeat("x", previewMax-5) + "tok-en-1234"
	if p := o.Secrets.Preview(edge); strings.Contains(p, "tok") {
		t.Errorf("a part of a secret is left: %q", p)
	}
}

func TestCategories(t *testing.T) {
	o := Options{Name: "Hub"}
	for status, want := range map[int]tracker.Category{
		401: tracker.Denied, 403: tracker.Forbidden, 404: tracker.NotFound, 410: tracker.NotFound, 408: tracker.TimedOut,
		429: tracker.RateLimited, 400: tracker.BadStatus, 422: tracker.BadStatus, 500: tracker.Unavailable, 504: tracker.TimedOut,
	} {
		if e := o.Refused(status, ""); e.Category != want || e.Message == "" {
			t.Errorf("%d: %s, want %s", status, e.Category, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"30": now.Add(30 * time.Second), "Mon, 01 Jun 2026 12:01:00 GMT": now.Add(time.Minute),
		"": {}, "-1": {}, "soon": {}, "99999999999999": {},
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
