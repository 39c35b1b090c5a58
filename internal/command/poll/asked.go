package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// question is one thing to answer, in order: an issue by id or by identifier, or a
// line of a type that is not ours, which is passed on.
type question struct {
	id  string
	key string
	raw []byte
}

// questions returns what the command line and standard input ask for. bad counts
// the input lines that ask for nothing; each has been told on stderr.
func (l *listing) questions(ctx context.Context, env *cli.Env) (qs []question, bad int, err error) {
	for _, id := range l.ids {
		qs = append(qs, question{id: strings.TrimSpace(id)})
	}
	for _, key := range l.identifiers {
		qs = append(qs, question{key: strings.TrimSpace(key)})
	}
	if !l.stdin {
		return qs, 0, nil
	}
	lines := readLines(ctx, env.Stdin)
	for {
		var in inputLine
		var more bool
		select {
		case in, more = <-lines:
		case <-ctx.Done():
			return nil, bad, context.Cause(ctx)
		}
		if !more {
			return qs, bad, nil
		}
		if in.stream != nil {
			return nil, bad, fmt.Errorf("read standard input: %w", in.stream)
		}
		q, err := ask(in)
		switch {
		case err != nil:
			bad++
			env.Warnf("standard input, line %d: %v", in.number, err)
		case q != nil:
			qs = append(qs, *q)
		}
	}
}

// inputLine is one line of standard input, owned by its receiver.
type inputLine struct {
	number int
	text   []byte
	err    error // wire.ErrTooLong
	stream error // standard input itself failed: the last line
}

// readLines reads r in a goroutine of its own, so that the command can end while a
// read is under way. The goroutine ends with the stream or, at its next line, with
// ctx; then the channel is closed.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	out := make(chan inputLine)
	go func() {
		defer close(out)
		lines := wire.NewReader(r, wire.MaxRecord)
		for {
			l, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			in := inputLine{number: l.Number, text: bytes.Clone(l.Bytes), stream: err}
			if errors.Is(l.Err, wire.ErrTooLong) {
				in.err = l.Err
			}
			select {
			case out <- in:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// ask returns the question of one line: an id as it is, or the id in a record. It is
// nil where the line is not meant for us.
func ask(in inputLine) (*question, error) {
	text := bytes.TrimSpace(in.text)
	switch {
	case in.err != nil:
		return nil, in.err
	case len(text) == 0:
		return nil, nil
	case text[0] == '{':
		return askRecord(text)
	case !utf8.Valid(text):
		return nil, errors.New("id is not valid UTF-8")
	}
	return &question{id: string(text)}, nil
}

func askRecord(text []byte) (*question, error) {
	rec, err := wire.Decode(text, "issue")
	if err != nil {
		return nil, err
	}
	var issue *wire.Issue
	switch r := rec.(type) {
	case *wire.Unknown:
		return &question{raw: r.Raw}, nil
	case *wire.Summary:
		return nil, nil // the last line of another os-poll
	case *wire.Gone:
		issue = &wire.Issue{ID: r.ID}
	case *wire.Issue:
		issue = r
	case *wire.Workspace:
		issue = r.Issue
	default:
		return nil, errors.New("record is neither an issue nor a workspace")
	}
	switch {
	case issue != nil && issue.ID != "":
		return &question{id: issue.ID}, nil
	case issue != nil && issue.Identifier != "":
		return &question{key: issue.Identifier}, nil
	}
	return nil, errors.New("record names no issue")
}
