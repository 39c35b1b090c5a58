// Package wire holds the records that the commands exchange: newline-delimited
// JSON, one object a line, each beginning with "v":1 and "type". os-wire(5) is
// its manual page and schema/*.json its machine-readable form.
//
// The rules: a reader ignores members it does not know, and passes on byte for
// byte a line whose type it does not know (Unknown). Times are RFC 3339 in UTC
// with milliseconds. What is not known is null, never 0 and never "". One record
// is at most MaxRecord bytes and is written with one Write.
//
// It is not for frames of peers, which stay unexported in the packages that speak
// to them. Writer is safe for concurrent use, Reader is not; records are plain
// values.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Version is the value of "v" in every record.
const Version = 1

// MaxRecord bounds one record of ours in bytes, its LF included.
const MaxRecord = 16 << 20

// Record is one of the record types of this package.
type Record interface{ kind() string }

// Time is an instant in RFC 3339, UTC, with milliseconds. The zero Time is null.
type Time struct{ time.Time }

// At returns t as it will be read back: in UTC and cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// UnmarshalJSON implements json.Unmarshaler. null and "" are the zero Time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == nil || *s == "" {
		*t = Time{}
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return fmt.Errorf("time %q is not RFC 3339", *s)
	}
	*t = At(at)
	return nil
}

// Text is a string that is null when it is not known.
type Text string

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return Encode(string(t))
}

// Count returns a known number for a member that may be null.
func Count(n int64) *int64 { return &n }

// Encode is json.Marshal without the escaping of <, > and &. U+2028, U+2029 and
// control characters are escaped, invalid UTF-8 becomes U+FFFD.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Marshal returns the line of rec, without its LF.
func Marshal(rec Record) ([]byte, error) {
	return Append(nil, rec)
}

// Unknown is a line whose type is not one of ours.
type Unknown struct {
	Type string
	Raw  []byte
}

func (u *Unknown) kind() string { return u.Type }

// Decode returns the record of one line. A line without "type" is taken for the
// type implied, if that is not "". Member names count only in their exact
// spelling, where encoding/json would also take TYPE for type.
func Decode(line []byte, implied string) (Record, error) {
	members, err := exact(line)
	if err != nil {
		return nil, err
	}
	version, kind := Version, implied
	if raw, ok := members["v"]; ok {
		if err := json.Unmarshal(raw, &version); err != nil || version < 1 {
			return nil, fmt.Errorf("member v is not a version: %s", clip(raw))
		}
	}
	if raw, ok := members["type"]; ok {
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, fmt.Errorf("member type is not a string: %s", clip(raw))
		}
	}
	if kind == "" {
		return nil, fmt.Errorf("member type is missing")
	}
	rec := blank(kind)
	if rec == nil || version > Version {
		return &Unknown{kind, bytes.Clone(line)}, nil
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, rec); err != nil {
		return nil, fmt.Errorf("%s record: %v", kind, strings.TrimPrefix(err.Error(), "json: "))
	}
	return rec, nil
}

func blank(kind string) Record {
	switch kind {
	case "issue":
		return &Issue{}
	case "gone":
		return &Gone{}
	case "comment":
		return &Comment{}
	case "summary":
		return &Summary{}
	case "workspace":
		return &Workspace{}
	case "event":
		return &Event{}
	case "outcome":
		return &Outcome{}
	case "loop":
		return &Loop{}
	}
	return nil
}

// exact splits an object into its members and drops those whose name is not
// lower case: none of ours is otherwise.
func exact(line []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return nil, fmt.Errorf("not a JSON object: %v", strings.TrimPrefix(err.Error(), "json: "))
	}
	if members == nil {
		return nil, fmt.Errorf("not a JSON object: null")
	}
	for name := range members {
		if name != strings.ToLower(name) {
			delete(members, name)
		}
	}
	return members, nil
}

func clip(raw []byte) string {
	const limit = 40
	if len(raw) > limit {
		return string(raw[:limit]) + "…"
	}
	return string(raw)
}
