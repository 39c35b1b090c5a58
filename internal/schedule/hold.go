package schedule

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// Hold keeps a backend from being used. It is the content of holds/<backend>.json.
type Hold struct {
	Backend string    `json:"backend"`
	Reason  string    `json:"reason"` // operator, rate_limited or a category
	Since   wire.Time `json:"since"`
	Until   wire.Time `json:"until"` // null: until it is cleared
	// Level counts the holds in a row, with no sign of life between them.
	Level int `json:"level"`
}

// hold is a Hold on the scheduler's clock. Once its time is over it stays until the
// backend has proved that it works: until then one run at a time may try.
type hold struct {
	Hold
	until time.Duration // 0: until it is cleared
}

func (h *hold) active(t time.Duration) bool { return h.until == 0 || t < h.until }

// personal reports whether somebody has to do something about it.
func (h *hold) personal() bool {
	return h.Reason == wire.CauseOperator || h.Reason == wire.CauseAuth || h.Reason == wire.CausePermission
}

// holdRule says how long a backend is held: first, doubling up to most.
type holdRule struct{ first, most time.Duration }

const longHold = 15 * time.Minute

var holdRules = map[string]holdRule{
	wire.CauseAuth:        {longHold, longHold},
	wire.CausePermission:  {longHold, longHold},
	wire.CauseNotFound:    {time.Minute, longHold},
	wire.CauseUnavailable: {time.Minute, longHold},
	wire.RateLimited:      {longHold, longHold},
}

// charge draws from an end what it says about its backend and the configuration.
func (s *Scheduler) charge(backend string, o *wire.Outcome) {
	cause := causeOf(o)
	rule, ok := holdRules[cause]
	switch {
	case ok:
		s.impose(backend, cause, rule, o.RetryAt)
	case o.Outcome == wire.Failed && cause == wire.CauseConfig:
		s.breakConfig(o.Error.Message)
	case o.Outcome == wire.Succeeded:
		s.prove(backend)
	}
}

// impose holds a backend. Several runs that meet the same trouble make one hold: a
// later one only moves the time that a provider named further away.
func (s *Scheduler) impose(backend, reason string, rule holdRule, retryAt wire.Time) {
	h := s.holds[backend]
	if h != nil && h.active(s.clock.t) {
		if reason == wire.RateLimited && h.Reason == reason && retryAt.After(h.Until.Time) {
			h.Until = retryAt
			h.until = s.clock.t + retryAt.Sub(s.now)
			s.act(HoldBackend{h.Hold})
		}
		return
	}
	level := 1
	if h != nil {
		level = h.Level + 1
	}
	d := rule.first
	for i := 1; i < level && d < rule.most; i++ {
		d *= 2
	}
	d = min(d, rule.most)
	if reason == wire.RateLimited && !retryAt.IsZero() {
		d = max(again, retryAt.Sub(s.now))
	}
	s.place(Hold{Backend: backend, Reason: reason, Since: wire.At(s.now), Until: wire.At(s.now.Add(d)), Level: level}, s.clock.t+d)
}

func (s *Scheduler) place(h Hold, until time.Duration) {
	s.holds[h.Backend] = &hold{h, until}
	s.look = true
	s.act(HoldBackend{h})
	s.emit(wire.Loop{Event: "held", Reason: wire.Text(h.Backend + ": " + h.Reason), DueAt: h.Until})
}

// thaw brings a Hold from disk to the scheduler's clock. A wall clock that was set
// back must not make it longer than it was.
func (s *Scheduler) thaw(h Hold) *hold {
	if h.Until.IsZero() {
		return &hold{Hold: h}
	}
	left := h.Until.Sub(s.now)
	if !h.Since.IsZero() {
		left = min(left, h.Until.Sub(h.Since.Time))
	}
	return &hold{h, s.clock.t + max(0, left)}
}

// prove ends a hold whose time is over: the backend works again.
func (s *Scheduler) prove(backend string) {
	if h := s.holds[backend]; h != nil && !h.active(s.clock.t) {
		s.clear(backend, "it works again")
	}
}

func (s *Scheduler) clear(backend, why string) {
	delete(s.holds, backend)
	s.look = true
	s.act(ClearBackend{backend})
	s.emit(wire.Loop{Event: "released", Reason: wire.Text(backend + ": " + why)})
}

// withheld returns why a backend gets no run now, or "".
func (s *Scheduler) withheld(backend string, u *usage) (Code, string) {
	h := s.holds[backend]
	switch {
	case h == nil:
		return "", ""
	case h.until == 0:
		return CodeHeld, fmt.Sprintf("%s is held: %s", backend, h.Reason)
	case h.active(s.clock.t) && h.personal():
		return CodeHeld, fmt.Sprintf("%s is held until %s: %s", backend, h.Until.Format(time.RFC3339), h.Reason)
	case h.active(s.clock.t):
		return CodeHeldFor, fmt.Sprintf("%s is held until %s: %s", backend, h.Until.Format(time.RFC3339), h.Reason)
	case u.unproven[backend] > 0:
		return CodeHeldFor, fmt.Sprintf("%s was held (%s): one run tries it first", backend, h.Reason)
	}
	return "", ""
}
