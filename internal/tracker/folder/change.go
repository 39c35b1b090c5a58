package folder

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
)

// change is what issue_update does to one card. Nil members stay as they are.
type change struct {
	state   string
	labels  []string // the whole new list
	relabel bool
	comment string
	now     string // RFC 3339
}

// apply returns the bytes of the card after the change, or data itself if there is
// nothing to change.
func (ch change) apply(data []byte) ([]byte, error) {
	before, err := parse(data)
	if err != nil {
		return nil, err
	}
	l, err := cut(data)
	if err != nil {
		return nil, err
	}
	newline := "\n"
	if bytes.HasSuffix(l.open, []byte("\r\n")) {
		newline = "\r\n"
	}
	front, err := ch.front(before, l.front, newline)
	if err != nil {
		return nil, err
	}
	body := ch.body(l, newline)
	if bytes.Equal(front, l.front) && len(body) == len(l.body) {
		return data, nil
	}
	if _, stamped := before.lines["updated_at"]; stamped {
		if front, err = edit(front, newline, func(d *document) { d.set("updated_at", ch.now) }); err != nil {
			return nil, err
		}
	}
	end := l.end
	if len(body) > 0 && !bytes.HasSuffix(end, []byte("\n")) {
		end = append(bytes.Clone(end), newline...)
	}
	out := slices.Concat(l.open, front, end, body)
	return out, ch.verify(before, out)
}

// edit runs f on a document. Each edit has a document of its own: the positions of
// one hold only until its lines change.
func edit(front []byte, newline string, f func(*document)) ([]byte, error) {
	d, err := newDocument(front, newline)
	if err != nil {
		return nil, err
	}
	f(d)
	return d.bytes(), nil
}

func (ch change) front(before *card, front []byte, newline string) ([]byte, error) {
	var err error
	if ch.state != "" && before.state != ch.state {
		if front, err = edit(front, newline, func(d *document) { d.set("state", yamlText(ch.state)) }); err != nil {
			return nil, err
		}
	}
	if ch.relabel && !slices.Equal(tracker.Labels(before.labels), tracker.Labels(ch.labels)) {
		return edit(front, newline, func(d *document) { d.setList("labels", ch.labels) })
	}
	return front, nil
}

// body returns the text with the comment at its end, under a heading of its own.
func (ch change) body(l layout, newline string) []byte {
	if ch.comment == "" {
		return l.body
	}
	body := bytes.Clone(l.body)
	if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n")) {
		body = append(body, newline...)
	}
	text := "\n" + commentHeading + ch.now + "\n\n" + strings.TrimSpace(ch.comment) + "\n"
	return append(body, strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", newline)...)
}

// verify reads the new card back: the change is there, and nothing else is.
func (ch change) verify(before *card, data []byte) error {
	if len(data) > maxCard {
		return errTooBig
	}
	unsafe := errors.New("front matter cannot be edited without changing more than was asked; edit it by hand")
	after, err := parse(data)
	if err != nil {
		return unsafe
	}
	want := *before
	want.state = cmp.Or(ch.state, want.state)
	if ch.relabel {
		want.labels = ch.labels
	}
	if !sameFront(&want, after) {
		return unsafe
	}
	return nil
}

func sameFront(a, b *card) bool {
	words := func(c *card) []string {
		return []string{c.id, c.title, c.state, c.parent, c.assignee, c.author, c.branch, c.url, c.prURL, c.milestone, c.project}
	}
	return slices.Equal(words(a), words(b)) && a.route == b.route &&
		slices.Equal(tracker.Labels(a.labels), tracker.Labels(b.labels)) &&
		slices.Equal(a.blockedBy, b.blockedBy) &&
		(a.priority == nil) == (b.priority == nil) && (a.priority == nil || *a.priority == *b.priority) &&
		a.archived == b.archived && a.createdAt == b.createdAt
}
