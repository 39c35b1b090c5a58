package peertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// AgentServer is a running stand-in of an OpenHands agent-server with one conversation,
// whose faults a script decides. Its methods are safe for concurrent use.
//
// A script has one step a line:
//
//	rest METHOD PATH STATUS [JSON]   the answer to such a request; of several for one
//	                                 path each counts once and the last for ever. PATH is
//	                                 below /api/conversations, or /server_info, with ID for
//	                                 the conversation's id. STATUS "drop" cuts the
//	                                 connection, "keep" does so to a message that it has
//	                                 taken, "hang" never answers. JSON may hold ${NAME}.
//	session                          the session socket is there; else it is refused
//	ws N: STEP                       what the N-th socket that is opened does, in order
//
// What a socket does:
//
//	send JSON          a frame; one that is no JSON is sent as it stands
//	emit JSON          the same, and an event of the log
//	log JSON           an event of the log only
//	status WORD        the conversation's status, with its event
//	quiet WORD         the same without a word to anybody
//	state              the whole state, with that status
//	say TEXT           a message of the agent
//	user               the newest message that was posted
//	big BYTES          a message of the agent of that length
//	recv               wait for a frame
//	after METHOD PATH  wait until such a request has come, each one once
//	sleep DURATION
//	close CODE [TEXT]
//	drop               cut the connection
//	hang               say nothing more
//	refuse STATUS      as the first: do not open the socket
type AgentServer struct {
	rest    map[string][]agentAnswer
	sockets map[int][]string
	session bool
	getenv  func(string) string
	log     io.Writer
	server  *http.Server
	addr    string
	served  chan error
	quit    chan struct{}

	mu     sync.Mutex
	opened int
	posted []string
	events []json.RawMessage
	status string
	seen   map[string]int // requests by method and path
	used   map[string]int // of those, what "after" has waited for
	change chan struct{}  // closed and made anew at each request
	err    error          // of log
}

type agentAnswer struct{ status, body string }

// AgentOptions say what a stand-in does.
type AgentOptions struct {
	Script string
	Getenv func(string) string
	Log    io.Writer // one JSON line a request and a frame
}

// StartAgentServer serves a stand-in on a free loopback port until Close.
func StartAgentServer(o AgentOptions) (*AgentServer, error) {
	s := &AgentServer{
		rest: make(map[string][]agentAnswer), sockets: make(map[int][]string), getenv: o.Getenv, log: o.Log,
		served: make(chan error, 1), quit: make(chan struct{}), status: "idle",
		seen: make(map[string]int), used: make(map[string]int), change: make(chan struct{}),
	}
	for i, line := range strings.Split(o.Script, "\n") {
		if err := s.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr, s.server = l.Addr().String(), &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

func (s *AgentServer) line(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	switch {
	case text == "" || strings.HasPrefix(text, "#"):
	case text == "session":
		s.session = true
	case verb == "rest":
		f := strings.SplitN(rest, " ", 4)
		if len(f) < 3 {
			return fmt.Errorf("%q is not rest METHOD PATH STATUS [JSON]", text)
		}
		a := agentAnswer{status: f[2], body: `{"success":true}`}
		if len(f) == 4 {
			a.body = f[3]
		}
		key := f[0] + " " + f[1]
		s.rest[key] = append(s.rest[key], a)
	case verb == "ws":
		number, step, ok := strings.Cut(rest, ": ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return fmt.Errorf("%q is not ws N: STEP", text)
		}
		s.sockets[n] = append(s.sockets[n], step)
	default:
		return fmt.Errorf("unknown step %q", text)
	}
	return nil
}

// URL is the address of the stand-in.
func (s *AgentServer) URL() string { return "http://" + s.addr }

// Close ends the stand-in and returns what went wrong with its log.
func (s *AgentServer) Close() error {
	close(s.quit)
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.err)
}

// ServeHTTP implements http.Handler.
func (s *AgentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/sockets/") {
		s.serveSocket(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	key := r.Method + " " + agentPath(r.URL.Path)
	a := s.took(key, body, r.URL.Query())
	s.note(map[string]any{"rest": key, "query": r.URL.RawQuery, "body": rawOrText(body), "status": a.status})
	switch a.status {
	case "drop", "keep":
		panic(http.ErrAbortHandler) // net/http's way to cut the connection
	case "hang":
		select {
		case <-s.quit:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	code, err := strconv.Atoi(a.status)
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, s.expand(a.body)) // the client may have gone
}

// agentPath is a path as scripts name it.
func agentPath(path string) string {
	rest, ok := strings.CutPrefix(path, "/api/conversations")
	if !ok {
		return path
	}
	parts := strings.Split(rest, "/")
	if len(parts) > 1 && parts[1] != "count" {
		parts[1] = "ID"
	}
	if len(parts) == 1 {
		return "/"
	}
	return strings.Join(parts, "/")
}

// took counts a request and returns its answer.
func (s *AgentServer) took(key string, body []byte, query url.Values) agentAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key]++
	close(s.change)
	s.change = make(chan struct{})
	if queue := s.rest[key]; len(queue) > 0 {
		if len(queue) > 1 {
			s.rest[key] = queue[1:]
		}
		if key == "POST /ID/events" && slices.Contains([]string{"200", "429", "keep"}, queue[0].status) {
			s.message(body)
		}
		return queue[0]
	}
	return s.usual(key, body, query)
}

// usual is the answer where the script says nothing.
func (s *AgentServer) usual(key string, body []byte, query url.Values) agentAnswer {
	switch key {
	case "GET /server_info":
		return agentAnswer{"200", `{"version":"1.58.2","usable_tools":["terminal","file_editor"]}`}
	case "POST /":
		return agentAnswer{"201", fmt.Sprintf(`{"execution_status":%q}`, s.status)}
	case "GET /ID":
		return agentAnswer{"200", fmt.Sprintf(`{"execution_status":%q}`, s.status)}
	case "GET /ID/events/count":
		return agentAnswer{"200", strconv.Itoa(len(s.events))}
	case "GET /ID/events/search":
		items, err := json.Marshal(s.page(query))
		if err != nil {
			return agentAnswer{"500", fmt.Sprintf("%q", err)}
		}
		return agentAnswer{"200", fmt.Sprintf(`{"items":%s,"next_page_id":null}`, items)}
	case "POST /ID/events":
		s.message(body)
	}
	return agentAnswer{"200", `{"success":true}`}
}

// page is the log from the event that was named on, in the order that was asked for;
// all of it where that is not known.
func (s *AgentServer) page(query url.Values) []json.RawMessage {
	page := append([]json.RawMessage{}, s.events...)
	if query.Get("sort_order") == "TIMESTAMP_DESC" {
		slices.Reverse(page)
	}
	for i, e := range page {
		if id := query.Get("page_id"); id != "" && strings.Contains(string(e), fmt.Sprintf(`"id":%q`, id)) {
			page = page[i:]
			break
		}
	}
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n < len(page) {
		page = page[:n]
	}
	return page
}

// message puts a message that was posted into the log.
func (s *AgentServer) message(body []byte) {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return
	}
	s.posted = append(s.posted, string(m.Content))
	s.events = append(s.events, s.event("user", `"kind":"MessageEvent","llm_message":{"role":"user","content":`+string(m.Content)+`}`))
}

// event makes an event with the next id.
func (s *AgentServer) event(source, members string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":"e%d","source":%q,%s}`, len(s.events), source, members))
}

func (s *AgentServer) expand(text string) string {
	if s.getenv == nil {
		return text
	}
	return expandBraces(text, s.getenv)
}

// expandBraces replaces ${NAME}; a "$" alone stays.
func expandBraces(text string, getenv func(string) string) string {
	for {
		before, rest, ok := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			return text
		}
		text = before + getenv(name) + after
	}
}

func rawOrText(b []byte) any {
	if json.Valid(b) {
		return json.RawMessage(b)
	}
	return string(b)
}

func (s *AgentServer) note(entry map[string]any) {
	b, err := json.Marshal(entry)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = s.log.Write(append(b, '\n'))
	}
	s.err = errors.Join(s.err, err)
}

func (s *AgentServer) serveSocket(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/sockets/session/") && !s.session {
		http.Error(w, "no such socket", http.StatusForbidden)
		return
	}
	s.mu.Lock()
	s.opened++
	n := s.opened
	s.mu.Unlock()
	s.note(map[string]any{"ws": n, "url": r.URL.String(), "header": r.Header.Get("X-Session-API-Key")})
	steps := s.sockets[n]
	if len(steps) > 0 && strings.HasPrefix(steps[0], "refuse ") {
		code, err := strconv.Atoi(strings.TrimPrefix(steps[0], "refuse "))
		if err != nil {
			code = http.StatusForbidden
		}
		http.Error(w, "refused", code)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.CloseNow() }() // the script says how it ends
	s.play(r.Context(), conn, n, steps)
}
