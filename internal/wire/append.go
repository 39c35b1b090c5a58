package wire

import (
	"fmt"
	"strconv"
)

// Append appends the line of rec, without its LF, to b. With an error b comes back as
// it was. Events are written without reflection: a flood of deltas is most of what a
// session prints.
func Append(b []byte, rec Record) ([]byte, error) {
	begin := len(b)
	line, err := appendRecord(b, rec)
	if err != nil {
		return b, fmt.Errorf("encode %s record: %w", rec.kind(), err)
	}
	if n := len(line) - begin; n >= MaxRecord {
		return b, fmt.Errorf("%s record of %d bytes is over the limit of %d", rec.kind(), n, MaxRecord)
	}
	return line, nil
}

func appendRecord(b []byte, rec Record) ([]byte, error) {
	switch r := rec.(type) {
	case *Unknown:
		return append(b, r.Raw...), nil
	case *Event:
		return r.appendMembers(append(b, `{"v":1,"type":"event",`...))
	}
	body, err := Encode(rec)
	if err != nil {
		return nil, err
	}
	b = fmt.Appendf(b, `{"v":%d,"type":%q`, Version, rec.kind())
	if len(body) > len("{}") {
		b = append(b, ',')
	}
	return append(b, body[1:]...), nil
}

// appendMembers appends all members and the closing brace.
func (e *Event) appendMembers(b []byte) ([]byte, error) {
	b = e.Time.append(append(b, `"time":`...))
	b = strconv.AppendInt(append(b, `,"seq":`...), e.Seq, 10)
	b = appendString(append(b, `,"run_id":`...), e.RunID)
	b = e.IssueID.append(append(b, `,"issue_id":`...))
	b = e.Identifier.append(append(b, `,"identifier":`...))
	b = e.Session.append(append(b, `,"session":`...))
	b = e.Turn.append(append(b, `,"turn":`...))
	b = appendString(append(b, `,"event":`...), e.Event)
	b = appendString(append(b, `,"summary":`...), e.Summary)
	if len(e.Raw) > 0 {
		raw, err := Encode(e.Raw)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"raw":`...), raw...)
	}
	return appendOwn(b, e.Members)
}

// appendOwn appends what only this kind of event has.
func appendOwn(b []byte, members any) ([]byte, error) {
	switch m := members.(type) {
	case nil:
		return append(b, '}'), nil
	case *Item:
		b = m.Item.append(append(b, `,"item":`...))
		b = appendString(append(b, `,"text":`...), m.Text)
		return append(b, '}'), nil
	}
	own, err := Encode(members)
	switch {
	case err != nil:
		return nil, err
	case own[0] != '{' || len(own) == len("{}"):
		return append(b, '}'), nil
	}
	return append(append(b, ','), own[1:]...), nil
}

func (t Time) append(b []byte) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return t.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
}

func (t Text) append(b []byte) []byte {
	if t == "" {
		return append(b, "null"...)
	}
	return appendString(b, string(t))
}

// appendString appends s as Encode writes it. ASCII, which is most, is done here.
func appendString(b []byte, s string) []byte {
	begin := len(b)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case ' ' <= c && c <= '~':
			b = append(b, c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		default:
			whole, _ := Encode(s) // a string always encodes
			return append(b[:begin], whole...)
		}
	}
	return append(b, '"')
}
