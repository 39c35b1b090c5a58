// Package schedule decides what os-loop does: which issue is run next, with which
// attempt and which harness, what follows from the end of a run, what is waited
// for and what is given up. It is a state machine: Apply takes a fact and the time
// and returns actions.
//
// It does nothing itself. It reads no file and no clock, starts no process and no
// goroutine, and never waits; internal/loop brings it the facts and carries out
// the actions, in their order. So a simulated week takes milliseconds in a test.
//
// A pass goes through the ends that were reported, a reading by id of all that is
// claimed, a poll, and the dispatch. Readings are asked for as actions; the pass
// goes on when the answer comes as a fact. One reading is under way at a time, and
// each Poll and each ReadIDs must be answered once, be it with a failure.
//
// A Scheduler belongs to one goroutine.
package schedule

import (
	"maps"
	"slices"
	"time"

	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Mode says when the scheduler ends by itself.
type Mode int

// The modes.
const (
	Forever   Mode = iota // never
	Once                  // after one poll, when each issue that could start has had its one run
	UntilIdle             // when nothing runs, nothing is due and nothing can start
	PlanOnly              // after the first poll; nothing is started
)

// Config is what the scheduler is told once.
type Config struct {
	// Workflow holds the limits, states, routes and budgets. It is only read;
	// Reloaded replaces it.
	Workflow *workflow.Workflow
	Mode     Mode
	Starts   int            // how many runs may be starting at the same time; 0: any number
	Backends map[string]int // slots by harness; one without an entry has no limit of its own
	Grace    time.Duration  // what a polite stop of a run may take
	Detach   bool           // a shutdown leaves the runs to the next scheduler
	DryRun   bool           // harnesses plan only; each issue is run once and nothing is charged
	Paused   bool           // begin without dispatching, until resumed
}

// Scheduler is the state. Its zero value is not ready; use New.
type Scheduler struct {
	cfg      Config
	terminal map[string]bool // folded names of ended states: configured ones, or learned
	spelled  map[string]bool // the same by the spellings met until now

	clock clock
	now   time.Time // of the Apply under way
	out   []Action

	claims map[string]*claim // by issue id: all that was ever run, waits or is parked
	board  board             // what the last poll showed
	holds  map[string]*hold  // by backend

	begun    bool
	finished bool
	paused   bool
	draining bool
	closing  bool // shutting down
	status   int  // what a shutdown ends with
	broken   string

	reads   reads
	look    bool // something changed that a dispatch could depend on
	later   int  // candidates of the last dispatch whose obstacle passes by itself
	crowded bool // it met the limit on starts
}

// New returns a scheduler that knows nothing yet. The driver reports what it finds
// on disk (Recovered, Held) and then Begin.
func New(cfg Config) *Scheduler {
	s := &Scheduler{
		cfg:    cfg,
		paused: cfg.Paused,
		claims: map[string]*claim{},
		board:  newBoard(),
		holds:  map[string]*hold{},
	}
	s.learn()
	return s
}

// Apply takes one fact at the time now and returns what is to be done, in order.
// now should carry a monotonic reading: the clocks of the scheduler follow it, and
// only due times on disk are wall times.
func (s *Scheduler) Apply(now time.Time, f Fact) []Action {
	if s.finished {
		return nil
	}
	s.now, s.out = now, nil
	rang := s.clock.advance(now)
	quiet := s.take(f)
	if quiet && !rang {
		return s.out
	}
	s.expire()
	s.step()
	s.finish()
	s.alarm()
	return s.out
}

// take brings one fact into the state. It reports whether nothing can follow from
// it but what it did itself: progress comes often, and must cost next to nothing.
func (s *Scheduler) take(f Fact) (quiet bool) {
	switch f := f.(type) {
	case Tick:
	case Begin:
		s.begin()
	case Recovered:
		s.recover(f)
	case Held:
		s.holds[f.Hold.Backend] = s.thaw(f.Hold)
		s.look = true
	case Polled:
		s.polled(f)
	case PollFailed:
		s.pollFailed(f.Failure)
	case Read:
		s.read(f)
	case ReadFailed:
		s.readFailed(f.Failure)
	case RunStarted:
		return s.runStarted(f)
	case RunEvent:
		return s.runEvent(f)
	case RunEnded:
		s.runEnded(f)
	case RunFailedToStart:
		s.runFailedToStart(f)
	case Command:
		s.command(f)
	case Reloaded:
		s.reload(f.Workflow)
	case ConfigBroken:
		s.breakConfig(f.Message)
	case TimeUp:
		s.shut(statusFailing)
	}
	return false
}

func (s *Scheduler) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.reads.pollAt = s.clock.t
	s.emit(wire.Loop{Event: "started"})
}

func (s *Scheduler) reload(w *workflow.Workflow) {
	s.cfg.Workflow = w
	s.broken = ""
	s.learn()
	s.board.stale = true
	s.reads.pollAt = s.clock.t
	s.look = true
	s.emit(wire.Loop{Event: "reloaded"})
}

// breakConfig stops dispatch, and only dispatch, until the next Reloaded.
func (s *Scheduler) breakConfig(message string) {
	if s.broken == message {
		return
	}
	s.broken = message
	s.look = true
	s.emit(wire.Loop{Event: "config_error", Reason: wire.Text(message)})
}

func (s *Scheduler) act(a Action) { s.out = append(s.out, a) }

// emit fills in the time.
func (s *Scheduler) emit(l wire.Loop) {
	l.Time = wire.At(s.now)
	s.act(Emit{&l})
}

// tell is emit for one issue and its run.
func (s *Scheduler) tell(c *claim, event, reason string) {
	s.emit(c.loop(event, reason))
}

// sorted returns the claims that keep holds for, by issue id: the order of actions
// must not hang on the order of a map.
func (s *Scheduler) sorted(keep func(*claim) bool) []*claim {
	var list []*claim
	for _, id := range slices.Sorted(maps.Keys(s.claims)) {
		if c := s.claims[id]; keep(c) {
			list = append(list, c)
		}
	}
	return list
}
