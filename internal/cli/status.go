package cli

import (
	"errors"
	"fmt"
	"syscall"
)

// The exit statuses of all commands. From 64 on they are those of sysexits(3).
const (
	StatusOK             = 0
	StatusFailed         = 1  // the run failed, or an error without a name of its own
	StatusInputRequired  = 10 // an approval or a question that nobody answered in time
	StatusStalled        = 11 // no progress for the stall limit
	StatusTimedOut       = 12 // over the run's total limit
	StatusBudgetExceeded = 13 // over a budget
	StatusCancelled      = 14 // stopped by an operator, the tracker or a shutdown
	StatusUsage          = 64 // the command line is wrong
	StatusData           = 65 // some input lines were bad, the rest was done
	StatusNoInput        = 66 // an input file is missing
	StatusUnavailable    = 69 // the agent or its server is not to be had
	StatusProtocol       = 70 // the peer broke the protocol
	StatusState          = 73 // a workspace or state file cannot be used
	StatusTemporary      = 75 // try again later: busy, superseded, rate limited
	StatusAuth           = 77 // a login or a permission is missing
	StatusConfig         = 78 // the workflow or the configuration is wrong
)

var statusMeaning = map[int]string{
	StatusOK:             "done",
	StatusFailed:         "failed",
	StatusInputRequired:  "an approval or a question that nobody answered in time",
	StatusStalled:        "no progress for the stall limit",
	StatusTimedOut:       "over the run's total limit",
	StatusBudgetExceeded: "over a budget",
	StatusCancelled:      "stopped by an operator, the tracker or a shutdown",
	StatusUsage:          "the command line is wrong",
	StatusData:           "some input lines were bad, the rest was done",
	StatusNoInput:        "an input file is missing",
	StatusUnavailable:    "the agent or its server is not to be had",
	StatusProtocol:       "the peer broke the protocol",
	StatusState:          "a workspace or state file cannot be used",
	StatusTemporary:      "temporary: busy, superseded or rate limited",
	StatusAuth:           "a login or a permission is missing",
	StatusConfig:         "the workflow or the configuration is wrong",
}

// ExitError is an error that asks for an exit status of its own. With a nil Err
// the status says it all and nothing is printed.
type ExitError struct {
	Status int
	Err    error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error that ends the command with status and prints nothing,
// or nil for StatusOK.
func Exit(status int) error {
	if status == StatusOK {
		return nil
	}
	return &ExitError{Status: status}
}

// Errorf returns an error with an exit status. Its format is that of fmt.Errorf.
func Errorf(status int, format string, args ...any) error {
	return &ExitError{Status: status, Err: fmt.Errorf(format, args...)}
}

// Usagef returns the error of a wrong command line.
func Usagef(format string, args ...any) error { return Errorf(StatusUsage, format, args...) }

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// WithHint adds a line that says what to type next; Main prints it after the error.
func WithHint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Interrupted is the cause of a context that Main cancelled.
type Interrupted struct{ Signal syscall.Signal }

func (i *Interrupted) Error() string { return "stopped by " + i.Signal.String() }

// Status returns the exit status of err: that of an ExitError in its chain,
// 128+n for an Interrupted, 0 for nil and for a closed stdout, else 1.
func Status(err error) int {
	var exit *ExitError
	var sig *Interrupted
	switch {
	case err == nil:
		return StatusOK
	case errors.As(err, &exit):
		return exit.Status
	case errors.As(err, &sig):
		return 128 + int(sig.Signal)
	case errors.Is(err, ErrStdoutClosed):
		return StatusOK
	default:
		return StatusFailed
	}
}
