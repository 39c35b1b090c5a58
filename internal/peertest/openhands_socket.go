package peertest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	closeAuth    = websocket.StatusCode(4001)
	closeUnknown = websocket.StatusCode(4004)
	authLimit    = 10 * time.Second

	maxSessionFrame = 4 << 20 // the session socket is closed instead of a larger one
)

// openHandsSocket is one socket of a conversation.
type openHandsSocket struct {
	c       *openHandsConv
	conn    *websocket.Conn
	number  int
	session bool // its frames are envelopes
	cut     context.CancelFunc
	code    string // and reason with which it is being closed; "": not

	after   int // of a session socket; -2: none was given
	resend  bool
	since   string
	at      int // what it has read of the feed
	kept    int // events that it was sent
	greeted bool
}

// socket serves a socket until one side ends it.
func (s *OpenHands) socket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.opened++
	number, life := s.opened, s.life
	entry := openHandsEntry{Method: "SOCKET", Path: r.URL.Path, Query: r.URL.RawQuery, Auth: s.admit(r), Socket: number, What: "open"}
	s.record(&entry)
	s.mu.Unlock()
	steps, _ := blockOf(s.script.sockets, number)
	k, status := s.newSocket(r, entry.Auth)
	if len(steps) > 0 && steps[0].op == "refuse" {
		status, _ = strconv.Atoi(steps[0].arg)
	}
	if status != 0 {
		http.Error(w, "", status)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }() // the last way out of all
	conn.SetReadLimit(-1)
	ctx, cut := context.WithCancel(life)
	defer cut()
	k.conn, k.number, k.cut = conn, number, cut
	if entry.Auth != "key" && !s.authenticated(ctx, k) {
		_ = conn.Close(closeAuth, "Authentication failed")
		return
	}
	s.mu.Lock()
	c := s.convs[compact(k.id(r))]
	s.mu.Unlock()
	if c == nil {
		_ = conn.Close(closeUnknown, "Conversation not found")
		return
	}
	k.c = c
	s.talk(ctx, k, steps)
}

func (k *openHandsSocket) id(r *http.Request) string {
	return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
}

// newSocket reads what a client asks for; a status that is not 0 refuses it.
func (s *OpenHands) newSocket(r *http.Request, auth string) (*openHandsSocket, int) {
	k := &openHandsSocket{after: -2}
	words := strings.Split(r.URL.Path, "/")
	q := r.URL.Query()
	k.session = len(words) == 4 && words[2] == "session" && !s.script.nosession
	known := k.session || len(words) == 4 && words[2] == "events"
	if !known || !uuidForm.MatchString(words[3]) || auth == "wrong" {
		return nil, http.StatusForbidden
	}
	if text := q.Get("after_seq"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, http.StatusForbidden
		}
		k.after = n
	}
	k.resend = q.Get("resend_mode") == "all" || q.Get("resend_all") == "true"
	k.since = q.Get("after_timestamp")
	return k, 0
}

// authenticated waits for the first frame, which brings the key.
func (s *OpenHands) authenticated(ctx context.Context, k *openHandsSocket) bool {
	if s.o.Key == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, authLimit)
	defer cancel()
	_, text, err := k.conn.Read(ctx)
	var frame struct {
		Type string `json:"type"`
		Key  string `json:"session_api_key"`
	}
	return err == nil && json.Unmarshal(text, &frame) == nil && frame.Type == "auth" && frame.Key == s.o.Key
}

func (s *OpenHands) talk(ctx context.Context, k *openHandsSocket, steps []openHandsStep) {
	s.mu.Lock()
	k.at = len(k.c.feed)
	s.sockets[k] = true
	s.record(&openHandsEntry{Method: "SOCKET", Socket: k.number, What: "auth"})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.sockets, k)
		s.mu.Unlock()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer k.cut()
		k.listen(ctx)
	}()
	for _, st := range steps {
		if !k.step(ctx, st) {
			break
		}
	}
	for ctx.Err() == nil && k.pump(ctx) {
	}
	s.mu.Lock()
	code := k.code
	s.mu.Unlock()
	k.close(code)
	_ = k.conn.CloseNow()
	<-read
}

// close sends a close frame, where code begins with the number of one.
func (k *openHandsSocket) close(code string) {
	if n, reason, err := twoWords(openHandsStep{arg: code}); err == nil {
		_ = k.conn.Close(websocket.StatusCode(n), reason)
	}
}

// listen takes what the client sends.
func (k *openHandsSocket) listen(ctx context.Context) {
	for {
		_, text, err := k.conn.Read(ctx)
		s := k.c.s
		s.mu.Lock()
		if err != nil {
			s.record(&openHandsEntry{Method: "SOCKET", Socket: k.number, What: "closed"})
			s.mu.Unlock()
			return
		}
		entry := &openHandsEntry{Method: "SOCKET", Socket: k.number, What: "received"}
		if json.Valid(text) && !strings.Contains(string(text), "session_api_key") {
			entry.Body = text
		}
		s.record(entry)
		s.mu.Unlock()
		k.received(ctx, text)
	}
}

func (k *openHandsSocket) received(ctx context.Context, text []byte) {
	var frame struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	err := json.Unmarshal(text, &frame)
	if err == nil && frame.Type == "auth" || !k.c.toolDone(ctx) {
		return
	}
	if err != nil {
		k.write(ctx, map[string]string{"type": "error", "code": "JSONDecodeError", "detail": err.Error()})
		return
	}
	k.c.s.mu.Lock()
	defer k.c.s.mu.Unlock()
	k.c.message(frame.Content)
	k.c.wake()
}

func (k *openHandsSocket) write(ctx context.Context, v any) bool {
	text, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return false
		}
	}
	return k.conn.Write(ctx, websocket.MessageText, text) == nil
}

// step carries out a step of the script; false ends the socket.
func (k *openHandsSocket) step(ctx context.Context, st openHandsStep) bool {
	switch st.op {
	case "state":
		return k.greet(ctx)
	case "frame":
		return k.conn.Write(ctx, websocket.MessageText, []byte(st.arg)) == nil
	case "history":
		k.c.s.mu.Lock()
		k.at = 0
		k.c.s.mu.Unlock()
	case "after":
		n, _ := strconv.Atoi(st.arg)
		for k.kept < n {
			if ctx.Err() != nil || !k.pump(ctx) {
				return false
			}
		}
	case "swap":
		slow, ok := k.next(ctx)
		fast, more := k.next(ctx)
		return ok && more && k.sendAll(ctx, []openHandsItem{fast, slow})
	case "sleep":
		d, _ := time.ParseDuration(st.arg) // it was tried when it was read
		pause(ctx, d)
	case "mute":
		<-ctx.Done()
		return false
	case "close":
		k.c.s.mu.Lock()
		k.code = st.arg
		k.c.s.mu.Unlock()
		k.close(st.arg)
		k.cut()
		return false
	case "drop":
		_ = k.conn.CloseNow()
		k.cut()
		return false
	}
	return true
}

// greet sends what a new socket gets first. It waits for a tool that runs.
func (k *openHandsSocket) greet(ctx context.Context) bool {
	if k.greeted {
		return true
	}
	k.greeted = true
	if !k.c.toolDone(ctx) {
		return false
	}
	s := k.c.s
	s.mu.Lock()
	var missed []openHandsItem
	sync := map[string]any{"type": "sync"}
	for i, item := range k.c.feed {
		old := i < k.at
		switch {
		case item.seq < 0:
		case k.session:
			sync["through_seq"] = item.seq
			if old && k.after > -2 && item.seq > k.after {
				missed = append(missed, item)
			}
		case old && (k.resend || k.since != "" && k.since <= item.stamp()):
			missed = append(missed, item)
		}
	}
	if k.after > -2 {
		sync["from_seq"] = k.after
	}
	state, _ := json.Marshal(map[string]any{"id": s.newID(), "timestamp": s.o.Now().UTC().Format("2006-01-02T15:04:05.000000"),
		"source": "environment", "kind": "ConversationStateUpdateEvent", "key": "full_state", "value": k.c.state()})
	s.record(&openHandsEntry{Method: "SOCKET", Socket: k.number, What: "state"})
	s.mu.Unlock()
	greeting := openHandsItem{seq: -1, text: state}
	if k.session {
		return k.write(ctx, sync) && k.sendAll(ctx, missed) && k.send(ctx, greeting)
	}
	return k.send(ctx, greeting) && k.sendAll(ctx, missed)
}

// stamp is the event's own time.
func (i openHandsItem) stamp() string {
	var ev struct{ Timestamp string }
	_ = json.Unmarshal(i.text, &ev) // an event without one is as old as can be
	return ev.Timestamp
}

func (k *openHandsSocket) sendAll(ctx context.Context, items []openHandsItem) bool {
	for _, item := range items {
		if !k.send(ctx, item) {
			return false
		}
	}
	return true
}

func (k *openHandsSocket) send(ctx context.Context, item openHandsItem) bool {
	if k.session && len(item.text) > maxSessionFrame {
		k.c.s.mu.Lock()
		defer k.c.s.mu.Unlock()
		k.code = "1013 frame_too_large"
		return false
	}
	if item.seq >= 0 {
		k.kept++
	}
	if !k.session {
		return k.write(ctx, item.text)
	}
	if item.seq < 0 {
		return k.write(ctx, map[string]any{"type": "transient", "event": item.text})
	}
	return k.write(ctx, map[string]any{"type": "durable", "seq": item.seq, "event": item.text})
}

// pump sends the next event, for which it waits; false ends the socket.
func (k *openHandsSocket) pump(ctx context.Context) bool {
	item, ok := k.next(ctx)
	return ok && k.send(ctx, item)
}

// next waits for the next event. There is none for a socket that ends.
func (k *openHandsSocket) next(ctx context.Context) (openHandsItem, bool) {
	if !k.greet(ctx) {
		return openHandsItem{}, false
	}
	for {
		item, changed, ok := k.waiting()
		if changed == nil {
			return item, ok
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return openHandsItem{}, false
		}
	}
}

// waiting takes the next event, if there is one by now; else changed is closed at the
// next change, and nil where none is to come.
func (k *openHandsSocket) waiting() (item openHandsItem, changed <-chan struct{}, ok bool) {
	s := k.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case k.code != "":
		return openHandsItem{}, nil, false
	case k.at == len(k.c.feed):
		return openHandsItem{}, k.c.changed, false
	}
	k.at++
	return k.c.feed[k.at-1], nil, true
}

// endSockets ends the sockets of a conversation, by a close frame where code is one. It
// runs under the lock.
func (s *OpenHands) endSockets(c *openHandsConv, code string) {
	for k := range s.sockets {
		if k.c != c {
			continue
		}
		if k.code = code; code == "drop" {
			k.cut()
		}
	}
	close(c.changed) // so that they notice
	c.changed = make(chan struct{})
}
