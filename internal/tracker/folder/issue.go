package folder

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"ostoolkit/internal/wire"
)

// commentHeading begins the heading of each comment that a tool appends; the time follows.
const commentHeading = "## Comment "

// issue makes the record of one card, without what other cards say of it.
func (b *Board) issue(c *card) (*wire.Issue, error) {
	key := strings.TrimSuffix(c.file, suffix)
	ref, err := wire.Encode(map[string]string{"file": c.file})
	if err != nil {
		return nil, err
	}
	issue := &wire.Issue{
		ID:           cmp.Or(c.id, key),
		NativeRef:    ref,
		Identifier:   key,
		Title:        cmp.Or(c.title, heading(c.body), key),
		Description:  description(c.body),
		Priority:     c.priority,
		State:        cmp.Or(c.state, b.firstState()),
		BranchName:   wire.Text(c.branch),
		URL:          wire.Text(c.url),
		AssigneeID:   wire.Text(c.assignee),
		Labels:       c.labels,
		Dispatchable: !c.archived,
		PRURL:        wire.Text(c.prURL),
		Milestone:    wire.Text(c.milestone),
		Author:       wire.Text(c.author),
		Trusted:      new(true), // whoever can write the board has the user's own rights
		Archived:     c.archived,
		Tracker:      Kind,
		CreatedAt:    c.createdAt,
		UpdatedAt:    c.updatedAt,
	}
	if c.project != "" {
		issue.Project = &wire.Project{Slug: wire.Text(c.project), Name: wire.Text(c.project)}
	}
	if c.route != (wire.IssueRoute{}) {
		issue.Route = &c.route
	}
	if issue.UpdatedAt.IsZero() {
		issue.UpdatedAt = wire.At(c.modified)
	}
	return issue, b.rules.Normalise(issue)
}

func description(body []byte) wire.Text {
	text := strings.ToValidUTF8(string(body), string(utf8.RuneError))
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return wire.Text(strings.TrimRight(strings.TrimLeft(text, "\n"), " \t\n"))
}

// heading returns the text of the first Markdown heading outside of code blocks
// and before the first comment, or "".
func heading(body []byte) string {
	fenced := false
	for rest := body; len(rest) > 0; {
		var current []byte
		current, rest = line(rest)
		text := strings.TrimSpace(string(current))
		switch {
		case strings.HasPrefix(text, "```"):
			fenced = !fenced
		case fenced:
		case bytes.HasPrefix(current, []byte(commentHeading)):
			return ""
		case strings.HasPrefix(text, "#"):
			if title := headingText(text); title != "" {
				return strings.ToValidUTF8(title, string(utf8.RuneError))
			}
		}
	}
	return ""
}

// headingText returns what follows one to six "#" and a blank, or "".
func headingText(text string) string {
	title := strings.TrimLeft(text, "#")
	if len(text)-len(title) > 6 || !strings.HasPrefix(title, " ") {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(title, "# "))
}
