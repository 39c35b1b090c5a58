package codex

import (
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// defaultReset is when a rate limit is tried again that names no end.
const defaultReset = 15 * time.Minute

const wordUnauthorized = "unauthorized"

// endingOf turns a turn's error into an ending. codexErrorInfo decides: a word, or an
// object with one member that may hold the provider's HTTP status. What it does not
// name is the provider's failure.
func endingOf(problem gjson.Result) *session.Ending {
	end := session.Failf(wire.CauseProvider, "%s", problem.Get("message").String())
	end.Detail = problem.Get("additionalDetails").String()
	if end.Message == "" {
		end.Message = "the turn failed and the app-server does not say why"
	}
	word, status := errorInfo(problem.Get("codexErrorInfo"))
	switch {
	case word == wordUnauthorized || status == 401:
		end.Category = wire.CauseAuth
	case status == 403:
		end.Category = wire.CausePermission
	case word == "usageLimitExceeded" || word == "rateLimitExceeded" || status == 429:
		end.Outcome, end.Category = wire.RateLimited, wire.RateLimited
	case word == "sessionBudgetExceeded":
		end.Outcome, end.Category = wire.BudgetExceeded, wire.BudgetExceeded
	case word == "contextWindowExceeded":
		end.Category = wire.CauseContextWindow
	case word == "sandboxError":
		end.Category = wire.CauseInternal
	}
	return end
}

func errorInfo(info gjson.Result) (word string, status int64) {
	if !info.IsObject() {
		return info.Str, 0
	}
	info.ForEach(func(key, value gjson.Result) bool {
		word, status = key.Str, value.Get("httpStatusCode").Int()
		return false
	})
	return word, status
}

// resetAt returns when the exhausted window of a rate limit snapshot opens again,
// the later one of two, or the zero time.
func resetAt(limits gjson.Result, now time.Time) time.Time {
	var at time.Time
	for _, name := range []string{"primary", "secondary"} {
		w := limits.Get(name)
		if w.Get("usedPercent").Float() < 100 || !w.Get("resetsAt").Exists() {
			continue
		}
		if t := time.Unix(w.Get("resetsAt").Int(), 0); t.After(now) && t.After(at) {
			at = t
		}
	}
	return at
}
