package codex

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// call is a request of ours.
type call struct {
	method string
	params any
	retry  retry
	// then is what the answer brings about: a result, or a *rpcError or the word that
	// the answer is none. It may be nil.
	then   func(result gjson.Result, err error)
	done   bool
	result gjson.Result
	err    error // a *rpcError, or that the answer is none
}

// rpcError is a refusal of the server.
type rpcError struct {
	method  string
	code    int64
	message string
	data    gjson.Result
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("app-server refused %s: %s (%d)", e.method, e.message, e.code)
}

type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params"`
}

type notification struct {
	Method string `json:"method"`
}

// send makes a request without waiting for its answer.
func (d *driver) send(method string, params any) *call {
	c := &call{method: method, params: params, retry: retry{limit: d.cfg.ReadTimeout}}
	d.transmit(c)
	return c
}

// transmit sends a request, or sends it again.
func (d *driver) transmit(c *call) {
	d.nextID++
	d.calls[strconv.FormatInt(d.nextID, 10)] = c
	if err := d.peer.conn.send(request{d.nextID, c.method, c.params}); err != nil {
		d.fade(err.Error())
	}
}

// call makes a request and deals with all that happens until it is answered.
func (d *driver) call(method string, params any, limit time.Duration) (gjson.Result, error) {
	c := d.send(method, params)
	c.retry.limit = limit
	if err := d.until(func() bool { return c.done }, c.method, limit); err != nil {
		return gjson.Result{}, err
	}
	return c.result, c.err
}

// until deals with all that happens until done is true. A limit that passes first is
// the fault of the method that was called.
func (d *driver) until(done func() bool, method string, limit time.Duration) error {
	due := d.Clocks.Elapsed() + limit
	for !done() {
		if d.Clocks.Elapsed() >= due {
			return unanswered(method, limit)
		}
		if err := d.step(); err != nil {
			return err
		}
	}
	return nil
}

// unanswered is the ending of a session whose request got no answer. A server that
// does not even begin is unavailable, one that stops answering is broken.
func unanswered(method string, limit time.Duration) *session.Ending {
	category := wire.CauseProtocol
	if method == methodInitialize {
		category = wire.CauseUnavailable
	}
	return session.Failf(category, "app-server did not answer %s within %s", method, limit)
}

// answer settles one of our requests.
func (d *driver) answer(f *frame) {
	c, ok := d.calls[f.key()]
	if !ok {
		d.Warn("answer", "an answer to no request of ours")
		return
	}
	delete(d.calls, f.key())
	c.result, c.err = answered(c.method, f)
	var refused *rpcError
	if errors.As(c.err, &refused) && refused.code == codeOverloaded && d.again(c, refused.message) {
		return
	}
	c.done = true
	if c.then != nil {
		c.then(c.result, c.err)
	}
}

// answered reads the answer to one of our requests: its result, a *rpcError, or the word
// that it is none.
func answered(method string, f *frame) (gjson.Result, error) {
	result, refusal := f.body.Get("result"), f.body.Get("error")
	switch {
	case refusal.Exists() && refusal.Type != gjson.Null:
		return gjson.Result{}, &rpcError{method, refusal.Get("code").Int(), refusal.Get("message").String(), refusal.Get("data")}
	case result.Exists():
		return result, nil
	}
	return gjson.Result{}, session.Failf(wire.CauseProtocol, "the answer to %s has neither a result nor an error", method)
}

// handle deals with one line of the server.
func (d *driver) handle(f *frame) {
	defer d.flush()
	if f.stray != "" {
		d.stray(f)
		return
	}
	d.framed = true
	switch {
	case f.isRequest():
		d.request(f)
	case f.isAnswer():
		d.answer(f)
	default:
		d.notified(f)
	}
}

// flush writes the pieces of items that were held back, once no frame waits behind
// them.
func (d *driver) flush() {
	if len(d.frames) == 0 {
		d.em.Flush()
	}
}

// stray passes over a line that is no frame, as long as the session can live with
// it: its length may be told, its content may be anything.
func (d *driver) stray(f *frame) {
	d.strays++
	switch {
	case !d.framed && d.strays > maxStrays:
		d.Fail(session.Failf(wire.CauseProtocol, "app-server printed %d lines and no frame", d.strays))
	case f.torn && len(d.calls) > 0:
		d.Fail(session.Failf(wire.CauseProtocol, "app-server sent %s while %s waits for its answer", f.stray, d.oldestCall()))
	case d.framed || d.strays <= 5: // a banner of a hundred lines is told once
		d.Warn("stray_output", "app-server printed "+f.stray)
	}
}

func (d *driver) oldestCall() string {
	oldest, method := int64(0), ""
	for key, c := range d.calls {
		if id, err := strconv.ParseInt(key, 10, 64); err == nil && (method == "" || id < oldest) {
			oldest, method = id, c.method
		}
	}
	return method
}
