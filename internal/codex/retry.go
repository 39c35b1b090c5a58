package codex

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"ostoolkit/internal/wire"
)

// An overloaded server is left alone for twice as long each time. It has no other
// client that could come back at the same moment, so the waits need no chance in them.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = 5 * time.Second
)

// retry is what became of a request that the server was too busy for.
type retry struct {
	limit    time.Duration // for all waits together
	waited   time.Duration
	attempts int64
	waits    *backoff.ExponentialBackOff // nil before the first
}

// next returns how long to wait for another attempt, false where the limit is reached.
func (r *retry) next() (time.Duration, bool) {
	if r.waits == nil {
		r.waits = &backoff.ExponentialBackOff{InitialInterval: retryFirst, Multiplier: 2, MaxInterval: retryMost}
	}
	wait := r.waits.NextBackOff()
	if r.waited+wait >= r.limit {
		return 0, false
	}
	r.waited += wait
	r.attempts++
	return wait, true
}

// again sends a request once more after a while. It reports false where the refusal
// stands: within the request's limit nothing more can be done, or the request is a text
// for the running turn, which the inbox holds and sends again itself.
func (d *driver) again(c *call, message string) bool {
	if c.method == methodTurnSteer {
		return false
	}
	wait, ok := c.retry.next()
	if !ok {
		return false
	}
	d.em.Emit(wire.EventRetrying, &wire.Notice{
		Code: "overloaded", Message: fmt.Sprintf("%s: %s", c.method, message), Attempt: wire.Count(c.retry.attempts),
	}, nil)
	d.After(wait, func() { d.transmit(c) })
	return true
}
