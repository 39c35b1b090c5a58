package github

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// answer is one answer of GitHub's, whatever its status.
type answer struct {
	res  *http.Response // its body is read
	body []byte
}

func (r *Repo) send(ctx context.Context, method, address string, body io.Reader) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make a request to GitHub: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.do(req)
}

func (r *Repo) do(req *http.Request) (*answer, error) {
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("Authorization", "Bearer "+r.token)
	res, err := r.client.Do(req)
	if err != nil {
		return nil, remote.Unwrap(err)
	}
	defer res.Body.Close()
	a := &answer{res: res}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		return nil, fmt.Errorf("read GitHub's answer: %w", err)
	}
	r.note(res.Header)
	return a, nil
}

func (r *Repo) get(ctx context.Context, address string) (*answer, error) {
	return r.send(ctx, http.MethodGet, address, nil)
}

// getUnless gets what has another tag now; else the status is 304.
func (r *Repo) getUnless(ctx context.Context, address, etag string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request to GitHub: %w", err)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	return r.do(req)
}

// read gets one JSON value.
func (r *Repo) read(ctx context.Context, address string, into any) error {
	a, err := r.get(ctx, address)
	if err != nil {
		return err
	}
	if a.res.StatusCode != http.StatusOK {
		return r.refused(a)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return tracker.Errorf(tracker.BadResponse, "GitHub's answer does not fit the question: %s", r.options.Secrets.Preview(err.Error()))
	}
	return nil
}

// refused is the error of an answer that is not 200.
func (r *Repo) refused(a *answer) *tracker.Error {
	var said struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(a.body, &said); err != nil || said.Message == "" {
		said.Message = string(a.body)
	}
	if at, yes := limited(a.res, a.body, r.options.Now()); yes { // of a tool, which wants it as it is
		e := tracker.Errorf(tracker.RateLimited, "GitHub's limit for this token is used up")
		e.RetryAt = at
		return e
	}
	e := r.options.Refused(a.res.StatusCode, said.Message)
	switch a.res.StatusCode {
	case http.StatusUnauthorized:
		e.Hint = "the token is wrong, or has expired: https://github.com/settings/tokens"
	case http.StatusForbidden:
		e.Hint = fmt.Sprintf("the token may not do this in %s: it needs the permission for issues", r.repo)
	case http.StatusNotFound:
		e.Hint = fmt.Sprintf("tracker.provider.repo is %q; a token that may not see a repository gets this answer too", r.repo)
	case http.StatusGone:
		e.Hint = fmt.Sprintf("issues may be switched off in the settings of %s", r.repo)
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		e.Category = tracker.InvalidConfig
		e.Hint = fmt.Sprintf("the repository %s has another name now: set tracker.provider.repo", r.repo)
	}
	return e
}

// limited tells the refusals that end by waiting from those of a permission, which are
// 403 as well.
func limited(res *http.Response, body []byte, now time.Time) (time.Time, bool) {
	if res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusTooManyRequests {
		return time.Time{}, false
	}
	if at := remote.RetryAfter(res.Header, now); !at.IsZero() {
		return at, true
	}
	if res.Header.Get("X-RateLimit-Remaining") == "0" {
		return epoch(res.Header.Get("X-RateLimit-Reset")), true
	}
	// The secondary limit has no field of its own.
	text := strings.ToLower(string(body[:min(len(body), 4<<10)]))
	return time.Time{}, res.StatusCode == http.StatusTooManyRequests || strings.Contains(text, "secondary rate limit")
}

func epoch(seconds string) time.Time {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// note keeps what an answer says about the quota.
func (r *Repo) note(h http.Header) {
	limit, err1 := strconv.ParseInt(h.Get("X-RateLimit-Limit"), 10, 64)
	left, err2 := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
	if err1 != nil || err2 != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = &wire.RateLimit{Limit: &limit, Remaining: &left, ResetAt: wire.At(epoch(h.Get("X-RateLimit-Reset")))}
}

func (r *Repo) rateLimit() *wire.RateLimit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limit
}

// path returns the address of something in the repository.
func (r *Repo) path(format string, args ...any) string {
	return r.endpoint + "/repos/" + r.repo + fmt.Sprintf(format, args...)
}
