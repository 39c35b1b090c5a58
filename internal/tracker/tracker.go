// Package tracker is what all trackers have in common: the questions that os-poll
// asks, the rules that sort issues into active and terminal, ready and not ready,
// and the errors that decide an exit status.
//
// It speaks to no tracker itself (each adapter is a package below this one), keeps
// nothing between two calls and prints nothing. A Tracker may be used from several
// goroutines; Rules, pages and issues are plain values.
package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ostoolkit/internal/wire"
)

// Adapter is one kind of tracker.
type Adapter struct {
	Kind string // the word in tracker.kind
	// Active and Terminal are the states that stand where the workflow names none;
	// nil where the workflow has to name them.
	Active, Terminal []string
	// Secrets names the environment variables this kind usually takes tokens from.
	Secrets []string
	// Open checks the configuration. It makes no request: a tracker that is down or
	// a folder that is missing shows at the first question.
	Open func(Config) (Tracker, error)
}

// Config is what an adapter is opened with.
type Config struct {
	Dir      string         // absolute: what relative paths are relative to
	Provider map[string]any // tracker.provider of the workflow, with $VAR resolved
	Rules    Rules
	Now      func() time.Time
}

// Tracker answers the questions of os-poll. The issues of a page have gone through
// Rules.Normalise. A page is whole: on an error there is none.
type Tracker interface {
	// List returns the issues that q selects, in no order.
	List(ctx context.Context, q Query) (*Page, error)
	// ByIDs returns the issues with these ids. No ids are no request.
	ByIDs(ctx context.Context, ids []string) (*Page, error)
	// ByIdentifiers is ByIDs for identifiers; they match in any case.
	ByIdentifiers(ctx context.Context, keys []string) (*Page, error)
	// Tools returns what an agent may do to the tracker, within its scope.
	Tools() []Tool
}

// Query selects issues by state. Names match in any case and without the blanks
// around them. No names and not All selects nothing, and is no request.
type Query struct {
	All    bool
	States []string
}

// Page is one answer.
type Page struct {
	Issues []*wire.Issue
	// Gone holds those ids or identifiers, as they were asked for, that are certainly
	// not visible. One that is in neither list could not be read: see Problems.
	Gone []string
	// Problems are the entries that could not be read. For ByIDs and ByIdentifiers
	// only those that keep an answer back.
	Problems []Problem
	// Warnings are entries that were read, but not to the letter.
	Warnings  []Problem
	Skipped   int // entries that were read, but not asked for
	RateLimit *wire.RateLimit
}

// Problem is one entry of a tracker that could not be read as it stands.
type Problem struct {
	Where   string // a file, or the tracker's name for the entry
	Line    int    // from 1; 0 where lines mean nothing
	Message string
}

// Error implements error: "issues/A-1.md:3: …".
func (p Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.Where, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.Where, p.Line, p.Message)
}

// Tool is one thing an agent may do to the tracker.
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage // a JSON Schema of the arguments
	// Call runs it. On an error nothing was changed.
	Call func(context.Context, Call) (wire.Record, error)
}

// Call is one use of a tool.
type Call struct {
	Args json.RawMessage // a JSON object
	// Current returns the identifier of the issue the caller works on. It is asked
	// only where the arguments name no issue.
	Current func() (string, error)
}
