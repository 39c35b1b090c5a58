package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxRequest bounds the body of one request in bytes.
const maxRequest = 64 << 20

// ModelOptions says what a Model answers and where it writes down what it was
// asked. The zero value answers inline steps only and keeps no log.
type ModelOptions struct {
	Script *Script   // rules for prompts that carry no steps of their own
	Log    io.Writer // one JSON line a request, written with one Write each
}

// Model is a running scripted model. Its methods are safe for concurrent use.
type Model struct {
	script *Script
	server *http.Server
	addr   string
	served chan error

	mu       sync.Mutex
	log      io.Writer
	logErr   error
	failures map[string]int // how often a @fail step has failed
	answers  int            // numbers the ids of responses
}

// StartModel serves a scripted model on a free loopback port until Close.
func StartModel(o ModelOptions) (*Model, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scripted model: %w", err)
	}
	m := &Model{
		script:   o.Script,
		addr:     listener.Addr().String(),
		served:   make(chan error, 1),
		log:      o.Log,
		failures: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", m.models)
	mux.HandleFunc("POST /v1/responses", m.answer(readRequest, newResponse))
	mux.HandleFunc("POST /v1/chat/completions", m.answer(readChat, newCompletion))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { m.served <- m.server.Serve(listener) }()
	return m, nil
}

// URL is the base URL that a client is configured with, "http://127.0.0.1:PORT/v1".
func (m *Model) URL() string { return "http://" + m.addr + "/v1" }

// Close ends the server, also in the middle of its answers, and returns the first
// error of its log.
func (m *Model) Close() error {
	err := m.server.Close()
	<-m.served
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logErr != nil {
		return fmt.Errorf("write the model's log: %w", m.logErr)
	}
	return err
}

func (m *Model) models(w http.ResponseWriter, r *http.Request) {
	m.record(entry{Method: r.Method, Path: r.URL.Path})
	w.Header().Set("Content-Type", "application/json")
	// Nobody is left to tell when the client has gone.
	_, _ = io.WriteString(w, `{"object":"list","data":[],"models":[]}`)
}

// answer serves one API: read takes its requests apart, and form writes its answers.
func (m *Model) answer(
	read func(*http.Request) (*request, error), form func(http.ResponseWriter, *request, string) form,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := read(r)
		if err != nil {
			refuse(w, http.StatusBadRequest, errorBody("invalid_request_error", err.Error()))
			return
		}
		turn := req.turn(m.script)
		m.record(entry{
			Method: r.Method, Path: r.URL.Path, Thread: req.CacheKey, Prompt: turn.prompt,
			Results: turn.results, Output: turn.output, Steered: turn.steered,
			Tools: slices.Sorted(maps.Keys(req.tools())), Body: req.raw,
		})
		steps, err := m.script.steps(turn.prompt)
		if err != nil {
			refuse(w, http.StatusBadRequest, errorBody("invalid_request_error", err.Error()))
			return
		}
		steps = segment(steps, turn.results)
		if f := m.failing(req.CacheKey, turn, steps); f != nil {
			refuse(w, f.status, f.body())
			return
		}
		a := answer{
			ctx: r.Context(), form: form(w, req, strconv.Itoa(m.number())),
			tools: req.tools(), turn: turn, usage: usualUsage,
		}
		a.send(steps)
	}
}

// failing returns the first step that makes this request fail, and counts it.
// The count is kept for a place in one conversation, so that a retry of the same
// request moves it on and another conversation with the same prompt has its own.
func (m *Model) failing(thread string, t turn, steps []order) *order {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range steps {
		if steps[i].verb != verbFail {
			continue
		}
		place := fmt.Sprintf("%s/%d/%d/%d", thread, t.number, t.results, i)
		if steps[i].times == 0 || m.failures[place] < steps[i].times {
			m.failures[place]++
			return &steps[i]
		}
	}
	return nil
}

func (m *Model) number() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers++
	return m.answers
}

// entry is one line of the model's log.
type entry struct {
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Thread  string          `json:"thread,omitempty"`
	Prompt  string          `json:"prompt,omitempty"`  // the text whose steps are followed
	Results int             `json:"results"`           // tool results since that text
	Output  string          `json:"output,omitempty"`  // the newest of them
	Steered []string        `json:"steered,omitempty"` // user texts since that text
	Tools   []string        `json:"tools,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

func (m *Model) record(e entry) {
	if m.log == nil {
		return
	}
	line, err := json.Marshal(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		_, err = m.log.Write(append(line, '\n'))
	}
	if m.logErr == nil {
		m.logErr = err
	}
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // as in models
}

func errorBody(kind, message string) string {
	b, _ := json.Marshal(map[string]any{"error": map[string]string{"type": kind, "message": message}}) // strings only
	return string(b)
}

// pause waits for d and reports whether the client is still there.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
