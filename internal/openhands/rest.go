package openhands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	keyHeader = "X-Session-API-Key"
	// maxReply bounds an answer: a page of events may hold whole files.
	maxReply = 64 << 20
	// maxDetail bounds in bytes what is told of an answer that we did not expect.
	maxDetail = 240
	dialLimit = 5 * time.Second
)

// request is one call of the server's REST interface.
type request struct {
	op     string // what it is for, in messages and codes
	method string
	path   string // below /api/conversations, with its query
	root   bool   // path is below the server's root instead
	body   any    // nil: none
	limit  time.Duration
}

// statusError is an answer with another status than 200 or 201.
type statusError struct {
	op     string
	status int
	detail string // the start of the body, without secrets
}

func (e *statusError) Error() string {
	return fmt.Sprintf("agent-server answered %d to %s: %s", e.status, e.op, e.detail)
}

// code is the stable name of the error.
func (e *statusError) code() string {
	return fmt.Sprintf("openhands.http_status.%s.%d", e.op, e.status)
}

// transportError is a request that got no answer. Whether the server has done what was
// asked is not known then, unless there was no connection.
type transportError struct {
	op     string
	err    error
	unsent bool // nothing of it has left us
}

func (e *transportError) Error() string {
	return fmt.Sprintf("agent-server did not answer %s: %v", e.op, e.err)
}

// unsent reports whether the server cannot have seen the request that err is about.
func unsent(err error) bool {
	var lost *transportError
	return errors.As(err, &lost) && lost.unsent
}

func (e *transportError) code() string { return "openhands.transport." + e.op }

// Misconfigured returns the ending of a session whose configuration, or whose server, can
// do for no session.
func Misconfigured(format string, args ...any) *session.Ending {
	end := session.Failf(wire.CauseConfig, format, args...)
	end.Detail = "openhands.invalid_configuration"
	return end
}

// statusOf returns the HTTP status that err tells of, 0 where there was no answer.
func statusOf(err error) int {
	var refused *statusError
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}

// client speaks REST. It is safe for concurrent use.
type client struct {
	base    *url.URL
	key     string
	http    *http.Client
	pool    *http.Transport
	trace   *tracer
	secrets redactor
}

func newClient(s Server, trace *tracer, secrets redactor) (*client, error) {
	base, err := parseURL(s.URL)
	if err != nil {
		return nil, Misconfigured("%v", err)
	}
	pool := &http.Transport{
		Proxy:       http.ProxyFromEnvironment, // which never sends what is for this machine to a proxy
		DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, TLSHandshakeTimeout: dialLimit,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}
	// A redirect would take the keys to where nobody has asked for them to go.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{base: base, key: s.Key, http: &http.Client{Transport: pool, CheckRedirect: stay}, pool: pool, trace: trace, secrets: secrets}, nil
}

// close drops the connections that wait for another request.
func (c *client) close() { c.pool.CloseIdleConnections() }

// do makes a request and returns its decoded answer. Errors are a *statusError, a
// *transportError, or one of our own.
func (c *client) do(ctx context.Context, r request) (gjson.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("no answer within %v", r.limit))
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil {
		return gjson.Result{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return gjson.Result{}, c.unanswered(ctx, r.op, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return gjson.Result{}, c.unanswered(ctx, r.op, err)
	}
	c.trace.answer(r, resp.StatusCode, body)
	if resp.StatusCode >= http.StatusInternalServerError {
		// The server closes the connection after such an answer, and the next request on
		// it would get lost.
		c.pool.CloseIdleConnections()
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return gjson.Result{}, &statusError{op: r.op, status: resp.StatusCode, detail: c.secrets.head(string(body), maxDetail)}
	}
	if !gjson.ValidBytes(body) {
		end := session.Failf(wire.CauseProtocol, "agent-server's answer to %s is not JSON: %s", r.op, c.secrets.head(string(body), maxDetail))
		end.Detail = "openhands.protocol." + r.op
		return gjson.Result{}, end
	}
	return gjson.ParseBytes(body), nil
}

func (c *client) request(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %v", r.op, err)
		}
		body = bytes.NewReader(b)
		c.trace.request(r, b)
	} else {
		c.trace.request(r, nil)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.url(r), body)
	if err != nil {
		return nil, fmt.Errorf("make the request %s: %v", r.op, err)
	}
	// net/http repeats a request by itself where it thinks that nothing was sent; a
	// message must not be sent twice.
	req.GetBody = nil
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (c *client) url(r request) string {
	prefix := "/api/conversations"
	if r.root {
		prefix = ""
	}
	return c.base.String() + prefix + r.path
}

// unanswered names the cause of a lost answer; a limit says more than "deadline
// exceeded".
func (c *client) unanswered(ctx context.Context, op string, err error) error {
	var network *net.OpError
	unsent := errors.As(err, &network) && network.Op == "dial"
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &transportError{op: op, err: errors.New(c.secrets.text(err.Error())), unsent: unsent}
}
