package tracker

import (
	"context"
	"strings"

	"ostoolkit/internal/wire"
)

// Scope is the board, repository or project that a tracker is limited to.
type Scope struct {
	ID     string
	Name   string
	URL    string
	States []string // that its issues can be in; nil where the tracker has no list of them
}

// Prober is implemented by trackers whose scope can be asked about by itself. One that
// is unknown looks empty in a list of Linear's.
type Prober interface {
	// Probe returns the scope, or an error that says what is wrong with the credential,
	// with the scope's name or with the way to the tracker.
	Probe(ctx context.Context) (*Scope, error)
}

// Commenter is implemented by trackers whose issues have comments.
type Commenter interface {
	// Comments returns the open comments of an issue, named by id or identifier, that
	// hold one of markers, and whether there is such an issue.
	Comments(ctx context.Context, name string, markers []string) (list []*wire.Comment, found bool, err error)
}

// LatestMarked returns the newest comment with a line that begins with one of markers,
// after blanks, or nil. Of comments without a time the later one counts.
func LatestMarked(list []*wire.Comment, markers []string) *wire.Comment {
	var latest *wire.Comment
	for _, c := range list {
		if marked(c.Body, markers) && (latest == nil || !c.UpdatedAt.Before(latest.UpdatedAt.Time)) {
			latest = c
		}
	}
	return latest
}

func marked(body string, markers []string) bool {
	for line := range strings.Lines(body) {
		for _, m := range markers {
			if strings.HasPrefix(strings.TrimLeft(line, " \t"), m) {
				return true
			}
		}
	}
	return false
}
