package openhands

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// defaultReset is when a rate limit is tried again; the server does not pass on what
// the provider says of its end.
const defaultReset = 15 * time.Minute

// failure is the ending that a ConversationErrorEvent asks for. Its code decides, then
// its classification; what neither names is the provider's failure.
func (d *driver) failure(problem gjson.Result) *session.Ending {
	if !problem.Exists() {
		return &session.Ending{Outcome: wire.Failed, Category: wire.CausePeerDied,
			Message: "agent-server was started again in the middle of the turn"}
	}
	code, kind := problem.Get("code").Str, problem.Get("classification.kind").Str
	end := session.Failf(wire.CauseProvider, "%s", d.secrets.head(problem.Get("detail").String(), maxDetail))
	end.Detail = "openhands.conversation." + code
	if problem.Get("detail").String() == "" {
		end.Message = "the run ended with " + code
	}
	switch {
	case code == codeOverflow:
		end.Category = wire.CauseContextWindow
	case code == "MaxIterationsReached", code == "MaxBudgetReached":
		end.Outcome, end.Category = wire.BudgetExceeded, wire.BudgetExceeded
	case kind == "auth":
		end.Category = wire.CauseAuth
	case kind == "rate_limit", kind == "quota":
		end.Outcome, end.Category = wire.RateLimited, wire.RateLimited
		end.RetryAt = d.cfg.Now().Add(defaultReset)
	case kind == "config":
		end.Category = wire.CauseConfig
	case code == codeNoCondensation:
		end.Category = wire.CauseContextWindow
	case kind == "internal":
		end.Category = wire.CauseInternal
	}
	return end
}

// ending is the *session.Ending of a request that did not work.
func (d *driver) ending(err error) error {
	err = endingOf(err)
	var end *session.Ending
	if errors.As(err, &end) && end.Outcome == wire.RateLimited && end.RetryAt.IsZero() {
		end.RetryAt = d.cfg.Now().Add(time.Minute)
	}
	return err
}

func endingOf(err error) error {
	var refused *statusError
	var lost *transportError
	switch {
	case errors.As(err, &refused):
		end := session.Failf(categoryOf(refused.status), "%v", refused)
		end.Detail = refused.code()
		if refused.status == http.StatusTooManyRequests {
			end.Outcome, end.Category = wire.RateLimited, wire.RateLimited
		}
		return end
	case errors.As(err, &lost):
		end := session.Failf(wire.CauseUnavailable, "%v", lost)
		end.Detail = lost.code()
		return end
	}
	return err
}

func categoryOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return wire.CauseAuth
	case http.StatusForbidden:
		return wire.CausePermission
	case http.StatusNotFound:
		return wire.CauseNotFound
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return wire.CauseUnavailable
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return wire.CauseConfig
	}
	return wire.CauseProtocol
}

// unreached takes a poll that did not work. A server that cannot be reached may be
// starting again; only for so long.
func (d *driver) unreached(err error) {
	now := d.Clocks.Elapsed()
	d.reach.next = now + pollEvery
	if d.turn.active && d.turn.armed {
		d.turn.check = now + pollEvery
	}
	if !d.reach.away {
		d.reach.away, d.reach.failed = true, now
		d.warn("link", fmt.Sprintf("%v; what the agent does meanwhile is not known", err))
	}
	if now-d.reach.failed < d.reachLimit() {
		return
	}
	end := session.EndingOf(d.ending(err))
	if end.Category == wire.CauseUnavailable && d.turn.active {
		end.Category = wire.CausePeerDied
	}
	d.Fail(end)
}

func (d *driver) reached() {
	d.reach.away = false
	d.reach.heard = d.Clocks.Elapsed()
}

// reachLimit is how long the server may be away.
func (d *driver) reachLimit() time.Duration {
	if d.server != nil {
		return reachLimit + ReadyLimit // it is being started again
	}
	return reachLimit
}

// revive lets a turn go on, once, that ended because the server was started again. Its
// sign is an error that no event explains.
func (d *driver) revive(word string) bool {
	t := d.turn
	if word != execError || t.problem.Exists() || t.revived || t.halt.Wanted {
		return false
	}
	t.revived = true
	d.warn("server_restarted", "agent-server was started again in the middle of the turn, which goes on")
	d.resume()
	return true
}
