package schedule

import (
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Fact is something that happened. The list is closed.
type Fact interface{ fact() }

type (
	// Tick says that time has passed; the answer to WakeAt.
	Tick struct{}

	// Begin ends the recovery: all that was on disk has been told, the events of the
	// runs that are alive included.
	Begin struct{}

	// TimeUp says that the time allowed for the whole scheduler is over.
	TimeUp struct{}

	// Recovered is one workspace that was found at start. Each is told by itself, so
	// that a damaged one hurts no other.
	Recovered struct {
		IssueID, Identifier string
		Issue               *wire.Issue // as of the last run; nil if it cannot be read
		Record              Record      // schedule.json; zero if there is none
		Run                 *LastRun    // nil if it never ran
	}

	// Held is a hold of a backend that was found at start, or that somebody placed.
	Held struct{ Hold Hold }

	// Polled answers Poll with all active issues, ready or not. They are kept, and must
	// not be changed afterwards: what is new is told from them.
	Polled struct {
		Issues []*wire.Issue
		// Complete is false where the list may lack some: what it does not show is
		// kept then.
		Complete bool
	}

	// PollFailed answers Poll.
	PollFailed struct{ Failure }

	// Read answers ReadIDs. An id in neither list could not be read.
	Read struct {
		Issues []*wire.Issue
		Gone   []string // certainly not visible
	}

	// ReadFailed answers ReadIDs.
	ReadFailed struct{ Failure }

	// RunStarted says that the supervisor of a Start has its run id. Before it, no
	// other fact names that run id.
	RunStarted struct{ IssueID, RunID string }

	// RunEvent is something that a run did.
	RunEvent struct {
		IssueID, RunID string
		Kind           EventKind
		Tokens         *int64 // of this run until now; nil if not told
	}

	// RunEnded says that the run is over and its lock free. The driver makes an
	// outcome where the supervisor printed none (busy, superseded). RunID is "" where
	// the run never got one.
	RunEnded struct {
		IssueID, RunID string
		Outcome        *wire.Outcome
		// Fingerprint of what the run left in its folder; "" if unknown.
		Fingerprint string
	}

	// RunFailedToStart answers Start where there is no run to speak of.
	RunFailedToStart struct {
		IssueID  string
		Category string // one of wire.Cause…
		Message  string
	}

	// Command is what an operator wants.
	Command struct {
		ID     string // named by the Reply; "" wants none
		Kind   string // one of the Command… words
		Target string // an issue's id or identifier, or a backend
	}

	// Reloaded brings a new workflow that passed its checks.
	Reloaded struct{ Workflow *workflow.Workflow }

	// ConfigBroken says that the workflow on disk does not pass its checks.
	ConfigBroken struct{ Message string }
)

// LastRun is the newest run of a recovered issue.
type LastRun struct {
	ID      string
	Attempt *int64
	Route   wire.Route
	Alive   bool // its lock is held
	// Outcome of a run that is over; one whose owner died has been settled as
	// interrupted by then.
	Outcome     *wire.Outcome
	Fingerprint string
}

// Failure is why a tracker could not be read.
type Failure struct {
	Category string // a word: auth, rate_limited, unavailable, …
	Message  string
	RetryAt  wire.Time // of a rate limit: no reading before it
}

// EventKind sorts what a run does by what the scheduler makes of it.
type EventKind int

// The kinds of RunEvent.
const (
	Launched EventKind = iota // the hooks are done, the harness runs
	Opened                    // its session was started or resumed
	Progress                  // the agent did something
	Asking                    // it waits for an answer or an approval
	Answered                  // it does not any more
	Chatter                   // anything that is no progress: retries, warnings, usage
)

// The words of Command.Kind.
const (
	CommandRefresh  = "refresh"
	CommandPause    = "pause"
	CommandResume   = "resume"
	CommandDrain    = "drain"
	CommandShutdown = "shutdown"
	CommandStop     = "stop"
	CommandRetry    = "retry"
	CommandRelease  = "release"
	CommandHold     = "hold"
	CommandClear    = "clear"
)

func (Tick) fact()             {}
func (Begin) fact()            {}
func (TimeUp) fact()           {}
func (Recovered) fact()        {}
func (Held) fact()             {}
func (Polled) fact()           {}
func (PollFailed) fact()       {}
func (Read) fact()             {}
func (ReadFailed) fact()       {}
func (RunStarted) fact()       {}
func (RunEvent) fact()         {}
func (RunEnded) fact()         {}
func (RunFailedToStart) fact() {}
func (Command) fact()          {}
func (Reloaded) fact()         {}
func (ConfigBroken) fact()     {}
