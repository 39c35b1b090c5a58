package codex

import (
	"fmt"
	"testing"
	"time"
)

func TestSkimmerKeepsAPulseOfEachThread(t *testing.T) {
	delta := func(thread string) []byte {
		return fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"threadId":%q,"delta":"x"}}`, thread)
	}
	now := time.Unix(0, 0)
	s := &skimmer{now: func() time.Time { return now }}
	steps := []struct {
		wait time.Duration
		line []byte
		drop bool
	}{
		{0, delta("A"), false},
		{0, delta("A"), true},
		{skimEvery - 1, delta("A"), true},
		{1, delta("A"), false},
		{0, delta("B"), false},
		{0, []byte(`{"method":"item/completed","params":{"threadId":"B"}}`), false},
		{0, []byte(`{"id":1,"result":{}}`), false},
		{0, []byte(`words`), false},
		{0, delta("B"), true},
	}
	for i, step := range steps {
		now = now.Add(step.wait)
		if got := s.drop(step.line); got != step.drop {
			t.Errorf("step %d: dropped %t", i, got)
		}
	}
	if (*skimmer)(nil).drop(delta("A")) {
		t.Error("a session that prints deltas lost one")
	}
}
