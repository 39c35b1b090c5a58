package session

import (
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// leastSuspend is the shortest suspend that is told: less is the noise of clocks.
const leastSuspend = time.Second

// Suspension notices that the machine was suspended.
type Suspension struct {
	// Slept returns how long the machine was suspended in all since some fixed moment,
	// see Slept. nil: nothing is noticed.
	Slept func() time.Duration

	told  time.Duration
	begun bool
}

// Since returns how long the machine was suspended since the last call, 0 for not at
// all. The first call only takes the present state.
func (s *Suspension) Since() time.Duration {
	if s.Slept == nil {
		return 0
	}
	total := s.Slept()
	if !s.begun {
		s.begun, s.told = true, total
		return 0
	}
	gap := total - s.told
	if gap < leastSuspend {
		return 0
	}
	s.told = total
	return gap
}

// Tell prints that the machine was suspended, if it was since the last call.
func (s *Suspension) Tell(em *Emitter) {
	if gap := s.Since(); gap > 0 {
		em.Emit(wire.EventSuspended, &wire.Notice{Message: fmt.Sprintf("the machine was suspended for %s", gap.Round(time.Second))}, nil)
	}
}
