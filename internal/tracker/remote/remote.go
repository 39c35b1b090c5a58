// Package remote is what trackers behind HTTP have in common: one transport with
// bounds and retries, the guard of a walk through pages, a cache of answers that the
// server can confirm, and errors that show no secret.
//
// It knows no tracker's paths, queries or records, and adds no credential. An adapter
// makes one Options.Client and asks through it:
//
//	secrets := &remote.Secrets{}
//	secrets.Add(token)
//	client := remote.Options{Name: "GitHub", Timeout: c.Timeout, MaxWait: c.MaxWait, Now: c.Now, Secrets: secrets}.Client()
//	res, err := client.Do(req)             // GET; a query by POST: req.WithContext(remote.Reading(ctx))
//	if err != nil { return remote.Unwrap(err) } // a *tracker.Error, or the cause of ctx
//	if res.StatusCode != 200 { return options.Refused(res.StatusCode, detail) }
//
// A body that comes back is whole and in memory. Transport, Cache and Secrets are safe
// for concurrent use; Pages is not.
package remote

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
)

// What stands where Options has 0.
const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 32 << 20
	unnamedWait    = time.Minute // of a limit whose end the service does not name
)

// Options say how a service is asked.
type Options struct {
	Name    string            // of the service, in messages: "GitHub"
	Base    http.RoundTripper // nil: HTTP, with the proxies of the environment
	Timeout time.Duration     // of one attempt, to the last byte of its answer; 0: 30 s
	MaxWait time.Duration     // for all waits of one request together; 0: there is none, and no second attempt
	MaxBody int64             // bytes of an answer; 0: 32 MiB
	Now     func() time.Time
	Secrets *Secrets // that no message may show; nil: none
	// Limited tells whether an answer says that a limit is used up, and when it may be
	// asked again, the zero time where it does not say. Nil: status 429 and its
	// Retry-After.
	Limited func(res *http.Response, body []byte, now time.Time) (retryAt time.Time, limited bool)
}

// Client returns a client that asks through a Transport. It follows no redirect: where
// a redirect leads is an answer, and the credential is not to go along.
func (o Options) Client() *http.Client {
	return &http.Client{Transport: o.Transport(), CheckRedirect: Stay}
}

// Stay is a CheckRedirect that follows none.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Transport returns the http.RoundTripper of these options.
func (o Options) Transport() *Transport {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Limited == nil {
		o.Limited = plainLimit
	}
	return &Transport{o}
}

func plainLimit(res *http.Response, _ []byte, now time.Time) (time.Time, bool) {
	return RetryAfter(res.Header, now), res.StatusCode == http.StatusTooManyRequests
}

// Transport asks a service. A request that only reads is sent again, after a growing
// wait with some chance in it, when the way to the service or the service itself
// failed, and when a limit is used up that ends soon enough. All other answers are
// returned as they are.
//
// Its errors are *tracker.Error in the categories Unavailable, TimedOut, RateLimited
// (with RetryAt) and BadResponse (over the bound), or the cause of the request's own
// context.
type Transport struct{ o Options }

type mark int

const (
	reading mark = iota
	asIs
)

// Reading marks the requests of a context as reads, whatever their method.
func Reading(ctx context.Context) context.Context { return context.WithValue(ctx, reading, true) }

// AsIs asks for the first answer, also where it is that a limit is used up: for a tool,
// whose caller decides.
func AsIs(ctx context.Context) context.Context { return context.WithValue(ctx, asIs, true) }

func (m mark) on(ctx context.Context) bool { return ctx.Value(m) != nil }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	p := t.patience(req)
	for {
		res, err := t.attempt(req)
		wait, again := p.next(res, err)
		if !again {
			return res, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
			return nil, context.Cause(req.Context())
		}
	}
}

// Unwrap takes away what http.Client puts around an error: it repeats the method and
// the address.
func Unwrap(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func userAgent() string { return "os-poll/" + cli.Version() }

func (o *Options) errorf(c tracker.Category, format string, args ...any) *tracker.Error {
	e := tracker.Errorf(c, format, args...)
	e.Message = o.Secrets.Redact(e.Message)
	return e
}
