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
	// Missing maps a provider key that was left out to the variable, unset or empty,
	// that should have given its value.
	Missing map[string]string
	Getenv  func(string) string // of the process, for what Provider does not say
	Environ []string            // KEY=value, of the process: what a program inherits
	Rules   Rules
	Now     func() time.Time
	// ToolScopeAny lets tools reach whatever the credential does; without it they are
	// limited to the board, repository or project.
	ToolScopeAny bool
	// Timeout bounds one request, from the first byte sent to the last received;
	// MaxWait is the longest wait for a limit to be lifted that is spent inside a
	// question. With 0 a Timeout is 30 s, and there is no wait.
	Timeout, MaxWait time.Duration
	// TrustedAuthors are logins whose texts count as trusted besides those that the
	// tracker vouches for.
	TrustedAuthors []string
}

// Tracker answers the questions of os-poll. The issues of a page have gone through
// Rules.Normalise. A page is whole: on an error there is none.
type Tracker interface {
	// List calls use with each page of the issues that q selects, as it arrives and in
	// no order; an issue comes once. The answer is whole only if List returns nil. It
	// ends with the first error of use and returns it as it is.
	List(ctx context.Context, q Query, use func(*Page) error) error
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
	// Labels lets the tracker leave out issues that do not have all of these. It does
	// not have to.
	Labels []string
}

// Collect returns the whole answer to q as one page. On an error there is none.
func Collect(ctx context.Context, t Tracker, q Query) (*Page, error) {
	all := &Page{}
	err := t.List(ctx, q, func(p *Page) error {
		all.Issues = append(all.Issues, p.Issues...)
		all.Problems = append(all.Problems, p.Problems...)
		all.Warnings = append(all.Warnings, p.Warnings...)
		all.Skipped += p.Skipped
		if p.RateLimit != nil {
			all.RateLimit = p.RateLimit
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Page is one answer, or a part of a list.
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
	// Call runs it. On an error without a record nothing was changed. A record with an
	// error is what the tracker answered to a call that it did not grant.
	Call func(context.Context, Call) (wire.Record, error)
}

// Call is one use of a tool.
type Call struct {
	Args json.RawMessage // a JSON object
	// Current returns the identifier of the issue the caller works on. It is asked
	// only where the arguments name no issue.
	Current func() (string, error)
}
