package tracker

import (
	"fmt"
	"time"
)

// Category says what kind of trouble an Error is. The exit status hangs on it.
type Category string

// The categories. Their words are those of the Symphony specification where it has one.
const (
	UnsupportedKind Category = "unsupported_tracker_kind"
	InvalidConfig   Category = "invalid_tracker_config"
	MissingSecret   Category = "missing_tracker_secret"
	Denied          Category = "tracker_auth"         // a login or permission is refused
	Unavailable     Category = "tracker_request"      // the tracker is not to be reached
	BadStatus       Category = "tracker_status"       // it answered that it could not
	BadResponse     Category = "tracker_response"     // its answer makes no sense
	BadPaging       Category = "tracker_pagination"   // its pages do not end or repeat
	RateLimited     Category = "tracker_rate_limited" // not before RetryAt
	TooComplex      Category = "tracker_complexity"   // it finds the question too expensive, whenever it is asked
	Busy            Category = "tracker_busy"         // other writers did not let us in
	BadArguments    Category = "tool_arguments"       // a tool was called with wrong arguments
	Forbidden       Category = "tracker_permission"   // the login is good, but not for this
	NotFound        Category = "tracker_not_found"    // the project, repository or endpoint is not there
	TimedOut        Category = "tracker_timeout"      // no answer in time
)

// Error is an error of a tracker as a whole.
type Error struct {
	Category Category
	Message  string
	Hint     string    // what to type next, or ""
	RetryAt  time.Time // with RateLimited, where known
	Err      error     // the cause, or nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error without a cause.
func Errorf(c Category, format string, args ...any) *Error {
	return &Error{Category: c, Message: fmt.Sprintf(format, args...)}
}
