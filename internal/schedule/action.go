package schedule

import (
	"time"

	"ostoolkit/internal/wire"
)

// Action is something to be done. The list is closed.
type Action interface{ action() }

type (
	// Poll asks for all active issues. Answer: Polled or PollFailed.
	Poll struct{}

	// ReadIDs asks for these issues by id, in one call. Answer: Read or ReadFailed.
	ReadIDs struct {
		IDs     []string
		Purpose Purpose
	}

	// Start begins a run. Answer: RunStarted or RunFailedToStart, and RunEnded.
	Start struct {
		Issue   *wire.Issue // as read just now
		Attempt *int64      // nil on the first run
		// Resume is false where an earlier session must not be taken up again.
		Resume bool
		Route  wire.Route
	}

	// Stop ends a run: politely for Grace, then by force. It may come before the run
	// has an id. The run's end is told as always.
	Stop struct {
		IssueID, RunID string
		Cause          string // one of the Stop… words
		Grace          time.Duration
	}

	// Interrupt ends the running turn and queues a continuation, since the issue
	// went from one state to another.
	Interrupt struct{ IssueID, RunID, From, To string }

	// Remove takes an ended issue's folder away, if that loses no work.
	Remove struct{ IssueID, Identifier string }

	// Save writes schedule.json, before any action that follows.
	Save struct {
		IssueID, Identifier string
		Record              Record
	}

	// Drop removes schedule.json: there is nothing to remember.
	Drop struct{ IssueID, Identifier string }

	// HoldBackend writes the file of a hold.
	HoldBackend struct{ Hold Hold }

	// ClearBackend removes it.
	ClearBackend struct{ Backend string }

	// Emit prints a record.
	Emit struct{ Loop *wire.Loop }

	// Reply answers a Command.
	Reply struct {
		ID       string
		Accepted bool
		Message  string
	}

	// WakeAt asks for a Tick at that time, in place of the one asked for before.
	WakeAt struct{ At time.Time }

	// Exit is the last action.
	Exit struct{ Status int }
)

// Purpose says what a reading by id is for.
type Purpose string

// The purposes of ReadIDs.
const (
	ForReconcile Purpose = "reconcile" // what is claimed
	ForStart     Purpose = "start"     // what is about to start
)

// The words of Stop.Cause. The first three are categories of a cancelled outcome.
const (
	StopOperator = wire.CauseOperator
	StopTracker  = wire.CauseTracker
	StopShutdown = wire.CauseShutdown
	StopStalled  = wire.Stalled
	StopTimedOut = wire.TimedOut
	StopBudget   = wire.BudgetExceeded
	StopLaunch   = "launch" // no session within the launch limit
)

func (Poll) action()         {}
func (ReadIDs) action()      {}
func (Start) action()        {}
func (Stop) action()         {}
func (Interrupt) action()    {}
func (Remove) action()       {}
func (Save) action()         {}
func (Drop) action()         {}
func (HoldBackend) action()  {}
func (ClearBackend) action() {}
func (Emit) action()         {}
func (Reply) action()        {}
func (WakeAt) action()       {}
func (Exit) action()         {}
