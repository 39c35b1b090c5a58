package linear

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// answer is one answer of Linear's, whatever its status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// envelope is what a GraphQL answer is wrapped in.
type envelope struct {
	Data   json.RawMessage `json:"data"`
	Errors []fault         `json:"errors"`
}

// fault is one error of Linear's. Only its typed members decide.
type fault struct {
	Message    string `json:"message"`
	Extensions struct {
		Code       remote.Optional[string] `json:"code"`
		Type       remote.Optional[string] `json:"type"`
		StatusCode remote.Optional[int]    `json:"statusCode"`
		Present    remote.Optional[string] `json:"userPresentableMessage"`
		Meta       remote.Optional[struct {
			Result struct {
				Duration float64 `json:"duration"` // milliseconds
			} `json:"rateLimitResult"`
		}] `json:"meta"`
	} `json:"extensions"`
}

func (f *fault) code() string { return strings.ToUpper(f.Extensions.Code.Value) }

func (f *fault) kind() string { return strings.ToLower(f.Extensions.Type.Value) }

func (f *fault) limited() bool {
	return f.code() == "RATELIMITED" || f.kind() == "ratelimited" || f.Extensions.StatusCode.Value == http.StatusTooManyRequests
}

// ask sends one query and decodes its data. Data that comes with errors is no answer:
// a part of a list would be taken for the list (case P13).
func (p *Project) ask(ctx context.Context, query string, vars map[string]any, into any) error {
	a, err := p.post(remote.Reading(ctx), query, vars)
	if err != nil {
		return err
	}
	env, err := p.judge(a)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(env.Data, into); err != nil {
		return &tracker.Error{Category: tracker.BadResponse, Message: "Linear's answer does not fit the question", Err: err}
	}
	return nil
}

// post sends one document and returns what came back.
func (p *Project) post(ctx context.Context, query string, vars map[string]any) (*answer, error) {
	body, err := wire.Encode(struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables,omitempty"`
	}{query, vars})
	if err != nil {
		return nil, fmt.Errorf("encode a query: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.endpoint: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, remote.Unwrap(err)
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		return nil, fmt.Errorf("read Linear's answer: %w", err)
	}
	p.note(a.header)
	return a, nil
}

// judge returns the envelope of an answer that is whole, or what is wrong with it.
func (p *Project) judge(a *answer) (*envelope, error) {
	if at, limited := limited(a.status, a.header, a.body, p.now()); limited {
		e := tracker.Errorf(tracker.RateLimited, "Linear's limit for this credential is used up")
		e.RetryAt = at
		return nil, e
	}
	env := decodeEnvelope(a.body)
	switch {
	case len(env.Errors) > 0:
		return nil, p.refused(a.status, &env.Errors[0])
	case a.status != http.StatusOK:
		return nil, p.remote.Refused(a.status, string(a.body))
	case len(env.Data) == 0 || bytes.Equal(env.Data, []byte("null")):
		return nil, tracker.Errorf(tracker.BadResponse, "Linear's answer holds no data")
	}
	return env, nil
}

// decodeEnvelope returns an empty one for what is none.
func decodeEnvelope(body []byte) *envelope {
	env := &envelope{}
	if json.Unmarshal(body, env) != nil {
		return &envelope{}
	}
	return env
}

// refused is the error of a request that Linear did not grant. The errors in the body
// say more than the status.
func (p *Project) refused(status int, f *fault) *tracker.Error {
	detail := f.Message
	if more := f.Extensions.Present.Value; more != "" && more != detail {
		detail += ": " + more
	}
	if f.code() != "" {
		detail = f.code() + ": " + detail
	}
	e := p.remote.Refused(status, detail)
	switch {
	case status == http.StatusUnauthorized || f.code() == "AUTHENTICATION_ERROR" || f.kind() == "authentication error":
		e.Category, e.Hint = tracker.Denied, "the key is wrong or was withdrawn: https://linear.app/settings/api"
	case f.code() == "FORBIDDEN" || f.kind() == "forbidden" || f.kind() == "feature not accessible":
		e.Category = tracker.Forbidden
	case f.code() == "INPUT_ERROR" && strings.Contains(strings.ToLower(f.Message), "too complex"):
		e.Category, e.Hint = tracker.TooComplex, "set tracker.provider.page_size to a smaller number"
	case status < http.StatusInternalServerError && e.Category == tracker.BadStatus:
		e.Category = tracker.BadResponse // our question does not fit Linear, and will not fit tomorrow
	}
	return e
}

// limited tells whether an answer says that a limit is used up, and when it is lifted.
// Linear says so with status 400. Of the limits in the headers those count that are
// used up, and of them the one that is lifted last: the others will be reset too, but
// nobody has to wait for that.
func limited(status int, h http.Header, body []byte, now time.Time) (time.Time, bool) {
	if status == http.StatusOK && !bytes.Contains(body, []byte(`"errors"`)) {
		return time.Time{}, false // a page of issues may have megabytes
	}
	errs := decodeEnvelope(body).Errors
	i := slices.IndexFunc(errs, func(f fault) bool { return f.limited() })
	if i < 0 && status != http.StatusTooManyRequests {
		return time.Time{}, false
	}
	at := time.Time{}
	for _, l := range limits(h) {
		if l.remaining < l.cost && l.reset.After(at) {
			at = l.reset
		}
	}
	if at.IsZero() {
		at = remote.RetryAfter(h, now)
	}
	if at.IsZero() && i >= 0 {
		if ms := errs[i].Extensions.Meta.Value.Result.Duration; ms > 0 {
			at = now.Add(time.Duration(ms) * time.Millisecond)
		}
	}
	return at, true
}

// bucket is one of Linear's limits as the headers of an answer have it.
type bucket struct {
	limit, remaining int64
	cost             int64 // of a request like the last
	reset            time.Time
}

func limits(h http.Header) []bucket {
	var out []bucket
	for _, name := range []string{"Requests", "Complexity", "Endpoint-Requests"} {
		limit, err1 := strconv.ParseInt(h.Get("X-RateLimit-"+name+"-Limit"), 10, 64)
		remaining, err2 := strconv.ParseInt(h.Get("X-RateLimit-"+name+"-Remaining"), 10, 64)
		reset, err3 := strconv.ParseInt(h.Get("X-RateLimit-"+name+"-Reset"), 10, 64) // milliseconds
		if errors.Join(err1, err2, err3) != nil {
			continue
		}
		b := bucket{limit: limit, remaining: remaining, cost: 1, reset: time.UnixMilli(reset)}
		if cost, err := strconv.ParseInt(h.Get("X-Complexity"), 10, 64); err == nil && name == "Complexity" {
			b.cost = max(b.cost, cost)
		}
		out = append(out, b)
	}
	return out
}

// note keeps the limit that is nearest to its end.
func (p *Project) note(h http.Header) {
	list := limits(h)
	if len(list) == 0 {
		return
	}
	share := func(b bucket) float64 { return float64(b.remaining) / float64(max(b.limit, 1)) }
	b := slices.MinFunc(list, func(a, b bucket) int { return cmp.Compare(share(a), share(b)) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = &wire.RateLimit{Limit: &b.limit, Remaining: &b.remaining, ResetAt: wire.At(b.reset)}
}

func (p *Project) rateLimit() *wire.RateLimit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}
