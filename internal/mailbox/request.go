package mailbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/wire"
)

// Kinds of requests, to a session unless said otherwise.
const (
	Steer     = "steer"     // a text into the running turn
	Queue     = "queue"     // a text that starts the next turn
	Interrupt = "interrupt" // ends the turn
	Stop      = "stop"      // ends the run; in os-loop's box that of one issue
	Approve   = "approve"   // an approval that is open
	Decline   = "decline"
	Cancel    = "cancel" // declines it and ends the turn
	Answer    = "answer" // a question that is open

	Refresh  = "refresh" // os-loop: poll now
	Pause    = "pause"
	Resume   = "resume"
	Drain    = "drain"
	Shutdown = "shutdown"
	Hold     = "hold" // one backend
	Clear    = "clear"
	Retry    = "retry" // one issue
	Release  = "release"
)

const (
	maxText       = 65_536 // bytes
	defaultReason = "operator"
)

// Kinds says what may be asked for in a box: each kind with the members that it
// needs, of text, request, answers, issue and backend.
type Kinds map[string][]string

// What the boxes of this toolkit know.
var (
	SessionKinds = Kinds{
		Steer: {"text"}, Queue: {"text"}, Interrupt: nil, Stop: nil,
		Approve: {"request"}, Decline: {"request"}, Cancel: {"request"}, Answer: {"request", "answers"},
	}
	LoopKinds = Kinds{
		Refresh: nil, Pause: nil, Resume: nil, Drain: nil, Shutdown: nil,
		Hold: {"backend"}, Clear: {"backend"}, Stop: {"issue"}, Retry: {"issue"}, Release: {"issue"},
	}
)

// Request is the content of a request file. Members that are not here are ignored.
type Request struct {
	ID string `json:"-"` // the file's name

	Kind      string          `json:"kind"`                // default steer
	Text      string          `json:"text,omitempty"`      // 1 to 65,536 bytes, not blank, for steer and queue
	Target    map[string]any  `json:"target,omitempty"`    // members of active.json, which must all be so
	ExpiresAt wire.Time       `json:"expires_at,omitzero"` // not to be delivered from then on
	Keep      bool            `json:"keep,omitempty"`      // stays in the box when a run ends without having read it
	Reason    string          `json:"reason,omitempty"`    // of interrupt and stop; default operator
	Request   string          `json:"request,omitempty"`   // the open approval or question that is answered
	Answers   json.RawMessage `json:"answers,omitempty"`   // an object or an array, as the question wants it
	Issue     string          `json:"issue,omitempty"`     // identifier
	Backend   string          `json:"backend,omitempty"`
}

// speaks reports whether a kind brings a text that the peer consumes later than it
// accepts it. The others are controls: once accepted they are done.
func speaks(kind string) bool { return kind == Steer || kind == Queue }

// errTorn is the parse error of a file that may still be being written.
var errTorn = errors.New("it is not complete JSON")

// parse returns the request of a file's content, with defaults. With an error it
// holds what could be read, so that a reply can quote it.
func parse(data []byte) (Request, error) {
	members, err := object(data)
	if err != nil {
		return Request{}, err
	}
	r := Request{Kind: Steer, Reason: defaultReason}
	for _, m := range []struct {
		name, want string
		into       any
	}{
		{"kind", "a string", &r.Kind}, {"text", "a string", &r.Text}, {"reason", "a string", &r.Reason},
		{"request", "a string", &r.Request}, {"issue", "a string", &r.Issue}, {"backend", "a string", &r.Backend},
		{"answers", "JSON", &r.Answers}, {"keep", "true or false", &r.Keep}, {"target", "an object", &r.Target},
		{"expires_at", "a time in RFC 3339", &r.ExpiresAt},
	} {
		raw, ok := members[m.name]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, m.into); err != nil {
			return r, fmt.Errorf("member %s is not %s", m.name, m.want)
		}
	}
	if r.Reason == "" {
		r.Reason = defaultReason
	}
	return r, nil
}

// object splits one JSON object, and nothing besides, into its members.
func object(data []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&members); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errTorn
	case err != nil:
		return nil, fmt.Errorf("it is not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
	case members == nil:
		return nil, errors.New("it is not a JSON object but null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its JSON object")
	}
	return members, nil
}

// check reports what makes r no request of these kinds.
func (k Kinds) check(r Request) error {
	needs, ok := k[r.Kind]
	if !ok {
		return fmt.Errorf("kind %q is none of %s", r.Kind, strings.Join(slices.Sorted(maps.Keys(k)), ", "))
	}
	for _, name := range needs {
		if !r.has(name) {
			return fmt.Errorf("kind %q needs member %s", r.Kind, name)
		}
	}
	if len(r.Text) > maxText {
		return fmt.Errorf("its text has %d bytes, over the limit of %d", len(r.Text), maxText)
	}
	for name, value := range r.Target {
		if !slices.Contains(activeMembers, name) {
			return fmt.Errorf("target names %q, which %s does not have", name, activeName)
		}
		if !plain(value) {
			return fmt.Errorf("target %s is neither a string nor a number", name)
		}
	}
	return nil
}

func (r Request) has(member string) bool {
	switch member {
	case "text":
		return strings.TrimSpace(r.Text) != ""
	case "request":
		return r.Request != ""
	case "answers":
		return len(r.Answers) > 0 && strings.ContainsRune("{[", rune(r.Answers[0]))
	case "issue":
		return r.Issue != ""
	case "backend":
		return r.Backend != ""
	}
	return false
}

func plain(value any) bool {
	switch value.(type) {
	case string, float64:
		return true
	}
	return false
}

// show prints a string or a number as it stands in a file.
func show(value any) string {
	text, err := wire.Encode(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// ruling is what is to be done about a request now.
type ruling struct {
	act     act
	state   State // of the reply, where act is answer
	message string
}

type act int

const (
	wait act = iota
	deliver
	answer
)

func answered(state State, format string, args ...any) ruling {
	return ruling{answer, state, fmt.Sprintf(format, args...)}
}

// judge rules on a whole request that is valid. known are the members of active.json
// as far as they are known.
func judge(r Request, now time.Time, known map[string]any) ruling {
	if !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt.Time) {
		return answered(Expired, "it expired at %s", r.ExpiresAt.Format(time.RFC3339))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Target)) {
		have, ok := known[name]
		switch {
		case ok && have == r.Target[name]:
		case ok:
			return answered(Refused, "target %s is %s, not %s", name, show(have), show(r.Target[name]))
		case ofTurn(name):
			return answered(Refused, "target %s: no turn runs", name)
		default:
			return ruling{act: wait}
		}
	}
	return ruling{act: deliver}
}
