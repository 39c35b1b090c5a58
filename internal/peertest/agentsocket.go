package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// play does what the script says for one socket, and then stays open.
func (s *AgentServer) play(ctx context.Context, conn *websocket.Conn, n int, steps []string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn.SetReadLimit(1 << 20)
	frames := make(chan []byte, 64)
	go func() {
		defer cancel() // the client has gone
		for {
			_, b, err := conn.Read(ctx)
			if err != nil {
				return
			}
			s.note(map[string]any{"ws": n, "recv": rawOrText(b)})
			frames <- b
		}
	}()
	for _, step := range steps {
		if !s.step(ctx, conn, frames, step) {
			return
		}
	}
	<-ctx.Done()
}

// step does one step and reports whether the next may follow.
func (s *AgentServer) step(ctx context.Context, conn *websocket.Conn, frames <-chan []byte, step string) bool {
	verb, rest, _ := strings.Cut(step, " ")
	switch verb {
	case "recv":
		select {
		case <-frames:
			return true
		case <-ctx.Done():
			return false
		}
	case "after":
		return s.await(ctx, rest)
	case "sleep":
		d, err := time.ParseDuration(rest)
		return err == nil && rested(ctx, d)
	case "close":
		code, text, _ := strings.Cut(rest, " ")
		number, err := strconv.Atoi(code)
		return err == nil && conn.Close(websocket.StatusCode(number), text) == nil && false
	case "drop":
		return false
	case "hang":
		<-ctx.Done()
		return false
	case "log":
		s.append(rest)
		return true
	case "quiet":
		s.mu.Lock()
		s.status = rest
		s.mu.Unlock()
		return true
	}
	frame := s.frame(verb, rest)
	return frame != "" && conn.Write(ctx, websocket.MessageText, []byte(frame)) == nil
}

// frame makes what is sent, and puts it into the log where it belongs.
func (s *AgentServer) frame(verb, rest string) string {
	switch verb {
	case "send":
		return s.expand(rest)
	case "emit":
		return s.append(rest)
	case "state":
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprintf(`{"kind":"ConversationStateUpdateEvent","id":"state","key":"full_state","value":{"execution_status":%q}}`, s.status)
	case "user":
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := len(s.events) - 1; i >= 0; i-- {
			if strings.Contains(string(s.events[i]), `"source":"user"`) {
				return string(s.events[i])
			}
		}
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var e json.RawMessage
	switch verb {
	case "status":
		s.status = rest
		e = s.event("environment", fmt.Sprintf(`"kind":"ConversationStateUpdateEvent","key":"execution_status","value":%q`, rest))
	case "say", "big":
		if n, err := strconv.Atoi(rest); verb == "big" && err == nil {
			rest = strings.Repeat("x", n)
		}
		e = s.event("agent", fmt.Sprintf(`"kind":"MessageEvent","llm_message":{"role":"assistant","content":[{"type":"text","text":%q}]}`, rest))
	default:
		return ""
	}
	s.events = append(s.events, e)
	return string(e)
}

// append puts an event into the log as it stands.
func (s *AgentServer) append(event string) string {
	event = s.expand(event)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, json.RawMessage(event))
	return event
}

// await waits for one more request of a kind.
func (s *AgentServer) await(ctx context.Context, key string) bool {
	for {
		s.mu.Lock()
		change := s.change
		there := s.seen[key] > s.used[key]
		if there {
			s.used[key]++
		}
		s.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-change:
		case <-ctx.Done():
			return false
		}
	}
}

// rested waits, and reports whether nothing ended the wait.
func rested(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
