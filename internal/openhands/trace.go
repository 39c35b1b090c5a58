package openhands

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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
		// In a body the secret may stand with JSON's escapes.
		if quoted, err := json.Marshal(s); err == nil {
			if inner := string(quoted[1 : len(quoted)-1]); inner != s {
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

// tracer writes down requests, answers and frames. A nil one does nothing. It is safe
// for concurrent use.
type tracer struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	from    time.Time
	secrets redactor
}

func newTracer(w io.Writer, now func() time.Time, secrets redactor) *tracer {
	if w == nil {
		return nil
	}
	return &tracer{w: w, now: now, from: now(), secrets: secrets}
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
		t.write(traceEntry{Dir: dir, Socket: socket}, frame)
	}
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
