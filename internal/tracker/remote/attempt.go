package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"ostoolkit/internal/tracker"
)

// attempt sends a request once and reads the whole answer.
func (t *Transport) attempt(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), t.o.Timeout)
	defer cancel()
	r := req.Clone(ctx)
	r.Header.Set("User-Agent", userAgent())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("read the body of a request again: %w", err)
		}
		r.Body = body
	}
	res, err := t.o.Base.RoundTrip(r)
	if err != nil {
		return nil, t.failure(req.Context(), ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, t.o.MaxBody+1))
	switch {
	case err != nil:
		return nil, t.failure(req.Context(), ctx, err)
	case int64(len(body)) > t.o.MaxBody:
		return nil, t.o.errorf(tracker.BadResponse, "%s's answer is over %d bytes", t.o.Name, t.o.MaxBody)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if at, limited := t.o.Limited(res, body, t.o.Now()); limited && !asIs.on(ctx) {
		return nil, t.o.limited(at)
	}
	return res, nil
}

// failure is the error of an attempt without an answer. Where the caller itself has
// given up, its reason counts.
func (t *Transport) failure(caller, own context.Context, err error) error {
	var typed *tracker.Error
	switch {
	case caller.Err() != nil:
		return context.Cause(caller)
	case own.Err() != nil:
		return t.o.errorf(tracker.TimedOut, "%s gave no answer within %v", t.o.Name, t.o.Timeout)
	case errors.As(err, &typed):
		return typed // of a base that has its own word on it
	}
	e := t.o.errorf(tracker.Unavailable, "ask %s: %v", t.o.Name, err)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		e.Err = errUntrusted
	}
	return e
}

// errUntrusted marks a failure that no second attempt mends.
var errUntrusted = errors.New("its certificate is not trusted here")

// limited is the error of a limit that is used up until at.
func (o *Options) limited(at time.Time) *tracker.Error {
	if at.IsZero() {
		at = o.Now().Add(unnamedWait)
	}
	e := o.errorf(tracker.RateLimited, "%s's limit for this credential is used up", o.Name)
	e.RetryAt = at
	return e
}

// Attempts of one request, and the waits between them: 0.25 s, 0.5 s, 1 s, each a half
// more or less so that several clients do not come back at once.
const (
	maxAttempts = 4
	firstWait   = 250 * time.Millisecond
	mostWait    = 5 * time.Second
)

// patience is how often one request is sent again, and after which waits.
type patience struct {
	o        *Options
	attempts int
	left     time.Duration // for waits
	waits    *backoff.ExponentialBackOff
}

func (t *Transport) patience(req *http.Request) *patience {
	p := &patience{o: &t.o, attempts: 1}
	read := req.Method == http.MethodGet || req.Method == http.MethodHead || reading.on(req.Context())
	if read && (req.Body == nil || req.GetBody != nil) && !asIs.on(req.Context()) {
		p.attempts, p.left = maxAttempts, t.o.MaxWait
	}
	p.waits = &backoff.ExponentialBackOff{
		InitialInterval: firstWait, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: mostWait,
	}
	return p
}

// next returns how long to wait for another attempt, or false where this answer or
// error stands.
func (p *patience) next(res *http.Response, err error) (time.Duration, bool) {
	p.attempts--
	until, again := p.transient(res, err)
	if !again || p.attempts <= 0 {
		return 0, false
	}
	wait := p.waits.NextBackOff()
	if !until.IsZero() {
		wait += max(0, until.Sub(p.o.Now()))
	}
	if wait > p.left {
		return 0, false
	}
	p.left -= wait
	return wait, true
}

// transient tells whether the same request may fare better later, and not before when.
func (p *patience) transient(res *http.Response, err error) (until time.Time, again bool) {
	if err == nil {
		switch res.StatusCode {
		case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return RetryAfter(res.Header, p.o.Now()), true
		}
		return time.Time{}, false
	}
	var e *tracker.Error
	if !errors.As(err, &e) || errors.Is(err, errUntrusted) {
		return time.Time{}, false
	}
	return e.RetryAt, e.Category == tracker.Unavailable || e.Category == tracker.TimedOut || e.Category == tracker.RateLimited
}
