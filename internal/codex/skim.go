package codex

import (
	"time"

	"github.com/tidwall/gjson"
)

// skimEvery is how often a delta is let through that nobody wants to see: often
// enough for every clock of a session.
const skimEvery = 50 * time.Millisecond

// skimmer passes over most of the deltas in a session that does not print them. What
// is left of them tells that the turn moves on. It belongs to the reading goroutine.
type skimmer struct {
	now    func() time.Time
	thread string // of the last delta that was let through
	at     time.Time
}

// drop reports whether a line need not reach the session. It looks no further into it
// than to its thread.
func (s *skimmer) drop(line []byte) bool {
	if s == nil || !isDelta(gjson.GetBytes(line, "method").Str) {
		return false
	}
	thread, now := gjson.GetBytes(line, "params.threadId").Str, s.now()
	if thread == s.thread && now.Sub(s.at) < skimEvery {
		return true
	}
	s.thread, s.at = thread, now
	return false
}
