package loop

import (
	"fmt"
	"strings"
	"time"

	"ostoolkit/internal/wire"
)

// Headline says in one line whether a scheduler is there and what it is about.
func (v *View) Headline(now time.Time) string {
	if !v.Alive {
		return fmt.Sprintf("no os-loop runs; this is the last state, %s old", Age(v.StateAt, now))
	}
	words := []string{fmt.Sprintf("os-loop %d", v.PID)}
	switch {
	case v.Closing:
		words = append(words, "shutting down")
	case v.Draining:
		words = append(words, "draining")
	case v.Paused:
		words = append(words, "paused")
	}
	return strings.Join(words, ", ")
}

// Notes are what keeps work from being started, one line each.
func (v *View) Notes() []string {
	var notes []string
	if v.Config != "" {
		notes = append(notes, "config: "+string(v.Config)+" (nothing new is started)")
	}
	if v.Tracker != "" {
		notes = append(notes, "tracker: "+string(v.Tracker))
	}
	for _, h := range v.Holds {
		until := "until it is cleared"
		if !h.Until.IsZero() {
			until = "until " + h.Until.Format(time.RFC3339)
		}
		notes = append(notes, fmt.Sprintf("%s is held %s: %s", h.Backend, until, h.Reason))
	}
	return notes
}

// Summary adds up: what runs now, and all that runs have used.
func (v *View) Summary(now time.Time) string {
	t := v.live(now)
	line := fmt.Sprintf("%d of %d running, %d waiting, %d parked, %d skipped", len(v.Running), v.Slots, len(v.Waiting), len(v.Parked), len(v.Skipped))
	if t.Since.IsZero() {
		return line
	}
	return fmt.Sprintf("%s; since %s %d runs, %d tokens, %s", line, t.Since.Format(time.RFC3339), t.Runs, t.TotalTokens,
		Span(time.Duration(t.Seconds*float64(time.Second))))
}

// Word says in one word how a run does.
func (s *Seen) Word() string {
	switch {
	case s.Ended != "":
		return "ended"
	case s.Reason != "":
		return "stopping"
	case s.Asking:
		return "asking"
	}
	return "running"
}

// Age is the time since at in words of at most two units, or "" where at is not known.
func Age(at wire.Time, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return Span(now.Sub(at.Time))
}

// Until is the time to at, as Age.
func Until(at wire.Time, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return Span(at.Sub(now))
}

// Span writes a duration for people: 5s, 2m10s, 3h05m, 2d4h. What is negative is 0s.
func Span(d time.Duration) string {
	d = max(0, d)
	switch s := int64(d / time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", s)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
	}
}
