package session

import (
	"testing"
	"time"
)

func TestSuspension(t *testing.T) {
	var slept time.Duration
	s := Suspension{Slept: func() time.Duration { return slept }}
	for i, step := range []struct{ total, want time.Duration }{
		{time.Hour, 0}, // before we were there
		{time.Hour, 0},
		{time.Hour + time.Millisecond, 0},
		{9 * time.Hour, 8 * time.Hour},
		{9 * time.Hour, 0},
		{8 * time.Hour, 0}, // the reading was interrupted
		{9*time.Hour + time.Second, time.Second},
	} {
		slept = step.total
		if got := s.Since(); got != step.want {
			t.Errorf("%d: %s, want %s", i, got, step.want)
		}
	}
	if got := (&Suspension{}).Since(); got != 0 {
		t.Errorf("without a clock: %s", got)
	}
}

// The clocks of this machine can be read, and it is not suspended between two lines.
func TestSlept(t *testing.T) {
	slept := Slept()
	first := slept()
	if gap := slept() - first; gap > leastSuspend || gap < -leastSuspend {
		t.Errorf("suspended for %s", gap)
	}
	if first < -leastSuspend {
		t.Errorf("suspended for %s in all", first)
	}
}

// Limits count ticks, not the time of day: a process that was stopped for an hour has
// lost two ticks of its stall limit, in each of the three clocks.
func TestClocksOfAStoppedProcess(t *testing.T) {
	c := &Clocks{Limits: Limits{Total: time.Second, Turn: time.Second, Stall: time.Second}}
	c.Turn(true)
	now := epoch
	c.Advance(now)
	for range 2 {
		now = now.Add(time.Hour)
		if end := c.Advance(now); end != nil {
			t.Fatalf("after a stop: %v", end)
		}
		if c.Step() != 2*Tick {
			t.Errorf("a stop counts as %s", c.Step())
		}
	}
	if end := c.Advance(now.Add(Tick)); end == nil {
		t.Error("two stops and a tick are a second")
	}
}
