package openhands

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/wire"
)

// redactor takes secrets out of texts.
type redactor []string

func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if s == "" {
			continue
		}
		r = append(r, s)
		// In a body the secret may stand with JSON's escapes, ours or those of the server.
		for _, encode := range []func(any) ([]byte, error){json.Marshal, wire.Encode} {
			quoted, err := encode(s)
			if err != nil {
				continue
			}
			if inner := string(quoted[1 : len(quoted)-1]); !slices.Contains(r, inner) {
				r = append(r, inner)
			}
		}
	}
	return r
}

func (r redactor) text(s string) string {
	for _, secret := range r {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// head returns the start of a text. Secrets are taken out before it is cut, so that
// none is left in halves.
func (r redactor) head(s string, n int) string {
	s = r.text(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// begun returns the length of the end of s with which a secret may begin.
func (r redactor) begun(s string) int {
	most := 0
	for _, secret := range r {
		for n := min(len(secret)-1, len(s)); n > most; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				most = n
			}
		}
	}
	return most
}

// pieces takes secrets out of a text that comes in pieces.
type pieces struct {
	secrets redactor
	kept    string // the end of the last piece, with which a secret may begin
}

// next returns what can be shown by now: the last piece's end that was kept, and the new
// one but for such an end.
func (p *pieces) next(s string) string {
	s = p.secrets.text(p.kept + s)
	n := len(s) - p.secrets.begun(s)
	p.kept = s[n:]
	return s[:n]
}

// tracer writes down requests, answers and frames. A nil one does nothing. It is safe
// for concurrent use.
type tracer struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	from    time.Time
	secrets redactor
	deltas  pieces // what the agent streams
}

func newTracer(w io.Writer, now func() time.Time, secrets redactor) *tracer {
	if w == nil {
		return nil
	}
	return &tracer{w: w, now: now, from: now(), secrets: secrets, deltas: pieces{secrets: secrets}}
}

type traceEntry struct {
	T      float64         `json:"t"`
	Dir    string          `json:"dir"` // out, in
	Rest   string          `json:"rest,omitempty"`
	Socket string          `json:"socket,omitempty"`
	Status int             `json:"status,omitempty"`
	Frame  json.RawMessage `json:"frame,omitempty"`
	Text   string          `json:"text,omitempty"`
}

func (t *tracer) request(r request, body []byte) {
	if t != nil {
		t.write(traceEntry{Dir: "out", Rest: r.method + " " + r.path}, body)
	}
}

func (t *tracer) answer(r request, status int, body []byte) {
	if t != nil {
		t.write(traceEntry{Dir: "in", Rest: r.method + " " + r.path, Status: status}, body)
	}
}

func (t *tracer) frame(dir, socket string, frame []byte) {
	if t != nil {
		t.write(traceEntry{Dir: dir, Socket: socket}, t.unsplit(frame))
	}
}

// unsplit makes of a frame with a piece of a message one that shows no part of a secret
// either: what may be the begin of one comes with the next piece.
func (t *tracer) unsplit(frame []byte) []byte {
	v := gjson.ParseBytes(frame)
	if v.Get("event").Exists() {
		v = v.Get("event")
	}
	content := v.Get("content")
	isPiece := v.Get("type").Str == "delta" || v.Get("kind").Str == "StreamingDeltaEvent"
	if !isPiece || content.Type != gjson.String || !gjson.ValidBytes(frame) {
		return frame
	}
	t.mu.Lock()
	shown := t.deltas.next(content.Str)
	t.mu.Unlock()
	text, err := wire.Encode(shown)
	if err != nil {
		return nil
	}
	at := content.Index // in frame
	return slices.Concat(frame[:at], text, frame[at+len(content.Raw):])
}

func (t *tracer) write(e traceEntry, body []byte) {
	e.T = float64(t.now().Sub(t.from).Milliseconds()) / 1000
	if clean := t.secrets.text(string(body)); json.Valid([]byte(clean)) {
		e.Frame = json.RawMessage(clean)
	} else {
		e.Text = clean
	}
	b, err := wire.Encode(e)
	if err != nil {
		return // a trace is a help for people, never a reason to fail
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.w.Write(append(b, '\n'))
}
