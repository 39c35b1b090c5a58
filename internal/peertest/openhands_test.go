package peertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const openHandsTestID = "11111111-1111-4111-8111-111111111111"

// openHandsClient is a plain client of a stand-in.
type openHandsClient struct {
	t   *testing.T
	s   *OpenHands
	key string
}

func startOpenHands(t *testing.T, script string) *openHandsClient {
	t.Helper()
	return startOpenHandsWith(t, OpenHandsOptions{Script: script, Key: "k", Dir: t.TempDir(), Now: time.Now})
}

func startOpenHandsWith(t *testing.T, o OpenHandsOptions) *openHandsClient {
	t.Helper()
	s, err := StartOpenHands(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &openHandsClient{t, s, o.Key}
}

// try makes a request; status 0 means that there was no answer.
func (c *openHandsClient) try(method, path, body string) (status int, reply string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.s.URL()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set(keyHeader, c.key)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }() // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// call makes a request about the conversation that must answer with a status.
func (c *openHandsClient) call(want int, method, path, body string) string {
	c.t.Helper()
	status, reply := c.try(method, "/api/conversations/"+openHandsTestID+path, body)
	if status != want {
		c.t.Fatalf("%s %s: %d %s, want %d", method, path, status, reply, want)
	}
	return reply
}

func (c *openHandsClient) create() {
	c.t.Helper()
	body := `{"conversation_id":"` + openHandsTestID + `","workspace":{"working_dir":"/w"},"agent":{"kind":"Agent"}}`
	if status, reply := c.try("POST", "/api/conversations", body); status != 201 {
		c.t.Fatalf("create: %d %s", status, reply)
	}
}

func (c *openHandsClient) say(text string, run bool) {
	c.t.Helper()
	c.call(200, "POST", "/events", fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}],"run":%v}`, text, run))
}

// openHandsFeed is a socket of a client, with the frames that it has got.
type openHandsFeed struct {
	t    *testing.T
	conn *websocket.Conn
	got  []string // what the frames are, in short
}

func (c *openHandsClient) follow(path string) *openHandsFeed {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, c.s.URL()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	c.t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"auth","session_api_key":"`+c.key+`"}`)); err != nil {
		c.t.Fatal(err)
	}
	return &openHandsFeed{t: c.t, conn: conn}
}

func (c *openHandsClient) events() *openHandsFeed {
	f := c.follow("/sockets/events/" + openHandsTestID)
	f.await("full_state idle")
	return f
}

// next returns what the next frame is, or how the socket was closed.
func (f *openHandsFeed) next() string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	_, text, err := f.conn.Read(ctx)
	if err != nil {
		return fmt.Sprintf("closed %d", websocket.CloseStatus(err))
	}
	what := inShort(text)
	f.got = append(f.got, what)
	return what
}

func (f *openHandsFeed) await(what string) {
	f.t.Helper()
	for {
		switch got := f.next(); {
		case got == what:
			return
		case strings.HasPrefix(got, "closed"):
			f.t.Fatalf("%s before %q; got %q", got, what, f.got)
		}
	}
}

// inShort names a frame by what a client decides on.
func inShort(text []byte) string {
	var f struct {
		Type, Kind, Source, Key string
		Seq                     *int
		Event                   json.RawMessage
		Value                   any
		Action                  *struct{ Kind string }
		Observation             *struct{ Kind string }
		Code                    string
		Content                 string
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return string(text)
	}
	switch {
	case f.Type == "durable":
		return fmt.Sprintf("%d %s", *f.Seq, inShort(f.Event))
	case f.Type == "transient":
		return "- " + inShort(f.Event)
	case f.Type != "":
		return f.Type + " " + f.Code
	case f.Key == "full_state":
		return fmt.Sprintf("full_state %v", f.Value.(map[string]any)["execution_status"])
	case f.Key == "execution_status":
		return fmt.Sprintf("status %v", f.Value)
	case f.Key != "":
		return f.Key
	case f.Action != nil:
		return f.Action.Kind
	case f.Observation != nil:
		return f.Observation.Kind
	case f.Kind == "MessageEvent":
		return "message of " + f.Source
	case f.Kind == "ConversationErrorEvent":
		return f.Kind + " " + f.Code
	}
	return f.Kind + f.Content
}

// recorded returns what the real server has sent, from a recording.
func recordedFrames(t *testing.T, name, socket string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "openhands", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var frames []string
	for line := range bytes.Lines(text) {
		var entry struct {
			Socket string
			Frame  json.RawMessage
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Socket == socket && entry.Frame != nil {
			frames = append(frames, inShort(entry.Frame))
		}
	}
	return frames
}

// The stand-in is as good as its frames are those of the real server.
func TestOpenHandsIsLikeTheRealOne(t *testing.T) {
	begin := func(c *openHandsClient) { c.say("do it", false); c.call(200, "POST", "/run", "") }
	tests := []struct {
		recording, script string
		act               func(c *openHandsClient, f *openHandsFeed)
	}{
		{"success", "run 1\ncommand echo\nedit /w/a\nfinish all done", func(c *openHandsClient, f *openHandsFeed) {
			begin(c)
			f.await("full_state finished")
		}},
		{"bare_message", "", func(c *openHandsClient, f *openHandsFeed) {
			begin(c)
			f.await("full_state finished")
		}},
		{"confirm", "run 1\nconfirm echo yes\nconfirm echo no\nsay done", func(c *openHandsClient, f *openHandsFeed) {
			begin(c)
			f.await("full_state waiting_for_confirmation")
			c.call(200, "POST", "/events/respond_to_confirmation", `{"accept":true}`)
			f.await("full_state waiting_for_confirmation")
			c.call(200, "POST", "/events/respond_to_confirmation", `{"accept":false,"reason":"no"}`)
			c.call(200, "POST", "/run", "")
			f.await("full_state finished")
		}},
		{"interrupt", "run 1\nact sleep 30\nhang\nrun 2\nsay over", func(c *openHandsClient, f *openHandsFeed) {
			begin(c)
			f.await("TerminalAction")
			c.call(200, "POST", "/interrupt", "")
			f.await("full_state paused")
			f.await("full_state paused")
			c.call(200, "POST", "/run", "")
			f.await("full_state finished")
		}},
		{"rate_limit", "run 1\nerror LLMRateLimitError rate_limit too many", func(c *openHandsClient, f *openHandsFeed) {
			begin(c)
			f.await("full_state error")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.recording, func(t *testing.T) {
			c := startOpenHands(t, tt.script)
			c.create()
			f := c.events()
			tt.act(c, f)
			if want := recordedFrames(t, tt.recording, "events"); !slices.Equal(f.got, want[:min(len(f.got), len(want))]) || len(f.got) > len(want) {
				t.Errorf("frames are\n%q, those of the real server\n%q", f.got, want)
			}
		})
	}
}

func TestOpenHandsSessionSocket(t *testing.T) {
	c := startOpenHands(t, "run 1\ncommand echo\nedit /w/a\nfinish all done")
	c.create()
	f := c.follow("/sockets/session/" + openHandsTestID + "?after_seq=-1")
	f.await("- full_state idle")
	c.say("do it", false)
	c.call(200, "POST", "/run", "")
	f.await("- full_state finished")
	if want := recordedFrames(t, "success", "session"); !slices.Equal(f.got, want) {
		t.Errorf("frames are\n%q, those of the real server\n%q", f.got, want)
	}
	again := c.follow("/sockets/session/" + openHandsTestID + "?after_seq=11")
	again.await("- full_state finished")
	if want := []string{"sync ", "12 FinishObservation", "13 status finished", "- full_state finished"}; !slices.Equal(again.got, want) {
		t.Errorf("a cursor gives %q, want %q", again.got, want)
	}
}

func TestOpenHandsAdmits(t *testing.T) {
	c := startOpenHands(t, "")
	c.create()
	wrong := &openHandsClient{t, c.s, "other"}
	if got := wrong.follow("/sockets/events/" + openHandsTestID).next(); got != "closed 4001" {
		t.Errorf("a wrong key: %s", got)
	}
	if got := c.follow("/sockets/events/22222222-2222-4222-8222-222222222222").next(); got != "closed 4004" {
		t.Errorf("an unknown conversation: %s", got)
	}
	for key, want := range map[string]int{"": 401, "other": 401, "k": 200} {
		if status, _ := (&openHandsClient{t, c.s, key}).try("GET", "/api/conversations/count", ""); status != want {
			t.Errorf("key %q: status %d, want %d", key, status, want)
		}
	}
	for _, path := range []string{"/sockets/events/x", "/sockets/other/" + openHandsTestID, "/sockets/session/" + openHandsTestID + "?after_seq=x"} {
		_, resp, err := websocket.Dial(t.Context(), c.s.URL()+path, nil)
		if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v, want a 403", path, err)
		}
	}
}
