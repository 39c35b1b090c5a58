package folder

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// Comments implements tracker.Commenter. A comment is what stands below a heading like
// those that issue_update writes, up to the next one; its id is the card's with its
// number, from 1.
func (b *Board) Comments(ctx context.Context, name string, markers []string) (list []*wire.Comment, found bool, err error) {
	s, err := b.scan(ctx)
	if err != nil {
		return nil, false, err
	}
	issue := s.byID[name]
	if issue == nil {
		issue = s.byKey(name)
	}
	switch {
	case issue == nil && len(s.broken) > 0:
		return nil, false, s.broken[0].problem // it may be the one
	case issue == nil:
		return nil, false, nil
	}
	for i, c := range comments(string(issue.Description)) {
		if slices.ContainsFunc(markers, func(m string) bool { return strings.Contains(c.Body, m) }) {
			c.ID = fmt.Sprintf("%s#%d", issue.ID, i+1)
			list = append(list, c)
		}
	}
	return list, true, nil
}

// comments takes a card's text apart at the headings of comments outside of code.
func comments(text string) []*wire.Comment {
	var out []*wire.Comment
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		at, heading := strings.CutPrefix(line, commentHeading)
		if heading && !fenced {
			if time := tracker.Instant(at); !time.IsZero() {
				out = append(out, &wire.Comment{UpdatedAt: time})
				continue
			}
		}
		if len(out) > 0 {
			out[len(out)-1].Body += line
		}
	}
	for _, c := range out {
		c.Body = strings.Trim(c.Body, "\n")
	}
	return out
}
