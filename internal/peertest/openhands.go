package peertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// OpenHandsOptions says what a stand-in of an OpenHands agent-server does and whom it
// lets in.
type OpenHandsOptions struct {
	Script string // see openHandsScript; "": each run says "done"
	Key    string // the session key; "": anybody is let in
	Dir    string // what the files of the script's waits are relative to
	Log    io.Writer
	Now    func() time.Time
}

// OpenHands is a running stand-in of an agent-server: conversations, their events by
// REST and on both kinds of sockets, and what a script makes go wrong. It asks no model
// and runs no command. Its methods are safe for concurrent use.
type OpenHands struct {
	o      OpenHandsOptions
	script *openHandsScript
	addr   string
	quit   chan struct{} // closed: the stand-in ends
	work   sync.WaitGroup

	mu      sync.Mutex // guards what is below, and conversations
	server  *http.Server
	life    context.Context // of what one start of the server runs
	endLife context.CancelFunc
	convs   map[string]*openHandsConv
	order   []string // ids, oldest first
	sockets map[*openHandsSocket]bool
	asked   []string // "METHOD PATH" of each request
	opened  int      // sockets
	runs    int
	ids     int
	logErr  error
}

// StartOpenHands serves a stand-in on a free loopback port until Close.
func StartOpenHands(o OpenHandsOptions) (*OpenHands, error) {
	script, err := parseOpenHandsScript(o.Script)
	if err != nil {
		return nil, fmt.Errorf("agent-server script: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the agent-server's stand-in: %w", err)
	}
	s := &OpenHands{
		o: o, script: script, addr: listener.Addr().String(), quit: make(chan struct{}),
		convs: map[string]*openHandsConv{}, sockets: map[*openHandsSocket]bool{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(listener)
	return s, nil
}

// URL is the server's address, "http://127.0.0.1:PORT".
func (s *OpenHands) URL() string { return "http://" + s.addr }

// openHandsEntry is one line of the log. The key stands in none.
type openHandsEntry struct {
	Number int             `json:"n"`
	Method string          `json:"method"` // SOCKET for what happens on one
	Path   string          `json:"path"`
	Query  string          `json:"query,omitempty"`
	Auth   string          `json:"auth"` // key, none, wrong; of a socket also frame
	Body   json.RawMessage `json:"body,omitempty"`
	Fault  string          `json:"fault,omitempty"`
	Socket int             `json:"socket,omitempty"`
	What   string          `json:"what,omitempty"` // of a socket: open, auth, state, received, closed
	Time   string          `json:"time"`
}

// record writes a line of the log. It runs under the lock.
func (s *OpenHands) record(e *openHandsEntry) {
	if s.o.Log == nil {
		return
	}
	e.Time = s.o.Now().UTC().Format(time.RFC3339Nano)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = s.o.Log.Write(append(line, '\n'))
	}
	s.logErr = errors.Join(s.logErr, err)
}

const keyHeader = "X-Session-API-Key"

func (s *OpenHands) admit(r *http.Request) string {
	switch r.Header.Get(keyHeader) {
	case "":
		return "none"
	case s.o.Key:
		return "key"
	}
	return "wrong"
}

// enter counts a handler, for which Close waits, unless the server has ended.
func (s *OpenHands) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

func (s *OpenHands) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.work.Done()
	if strings.HasPrefix(r.URL.Path, "/sockets/") {
		s.socket(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // the client has gone
	}
	entry := &openHandsEntry{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Auth: s.admit(r)}
	if len(body) > 0 && json.Valid(body) {
		entry.Body = body
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	entry.Number = len(s.asked)
	fault := s.fault(r)
	if fault != nil {
		entry.Fault = fault.line
	}
	s.record(entry)
	life := s.life
	s.mu.Unlock()

	reply := &openHandsReply{}
	if fault != nil && fault.late > 0 {
		rest(r, life, fault.late)
		fault = nil
	}
	if fault == nil || fault.after || fault.merge != nil || fault.slow > 0 {
		reply = s.answer(r, body, entry.Auth)
	}
	if fault != nil {
		fault.spoil(r, life, body, reply)
	}
	reply.send(w)
}

// fault takes the fault of a request, or nil. It runs under the lock.
func (s *OpenHands) fault(r *http.Request) *openHandsFault {
	for _, f := range s.script.faults {
		if f.matches(r.Method, r.URL.Path) && (f.when == "" || s.exists(f.when)) {
			if f.left > 0 {
				f.left--
			}
			return f
		}
	}
	return nil
}

// exists tells whether a file that the script names is there.
func (s *OpenHands) exists(file string) bool {
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.o.Dir, file)
	}
	_, err := os.Stat(file)
	return err == nil
}

// openHandsReply is an answer before it is sent.
type openHandsReply struct {
	status int
	body   any
	cut    bool // none: the connection ends
}

func openHandsOK(body any) *openHandsReply { return &openHandsReply{status: http.StatusOK, body: body} }

func openHandsSuccess() *openHandsReply { return openHandsOK(map[string]bool{"success": true}) }

func openHandsError(status int, detail string) *openHandsReply {
	return &openHandsReply{status: status, body: map[string]string{"detail": detail}}
}

// spoil makes of an answer what the script wants.
func (f *openHandsFault) spoil(r *http.Request, life context.Context, body []byte, reply *openHandsReply) {
	wait := time.Duration(0)
	switch {
	case f.cut:
		reply.cut = true
	case f.hang:
		reply.cut, wait = true, time.Hour
	case f.slow > 0:
		wait = f.slow
	case f.merge != nil:
		reply.body = merged(reply.body, f.merge)
	default:
		reply.status = f.status
		reply.body = json.RawMessage(strings.ReplaceAll(f.body, "$BODY", string(body)))
	}
	if wait > 0 && !rest(r, life, wait) {
		reply.cut = true
	}
}

// rest waits; it is false where the server has ended meanwhile.
func rest(r *http.Request, life context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-life.Done():
		return false
	}
	return true
}

// merged is body with other values of some members.
func merged(body any, other map[string]json.RawMessage) any {
	text, err := json.Marshal(body)
	members := map[string]any{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return body
	}
	for name, value := range other {
		members[name] = value
	}
	return members
}

func (reply *openHandsReply) send(w http.ResponseWriter) {
	if reply.cut {
		panic(http.ErrAbortHandler)
	}
	text, ok := reply.body.(json.RawMessage) // may be no JSON at all
	if !ok {
		var buf bytes.Buffer
		if err := json.NewEncoder(&buf).Encode(reply.body); err != nil {
			panic(http.ErrAbortHandler)
		}
		text = buf.Bytes()
	}
	w.Header().Set("Content-Type", "application/json")
	if reply.status >= http.StatusInternalServerError {
		w.Header().Set("Connection", "close") // as the real one does
	}
	w.WriteHeader(reply.status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}
