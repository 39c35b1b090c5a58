package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"ostoolkit/internal/cli"
)

// agentClient is the verb that makes this program the least that a client of an
// agent-server is: for the server's URL, a folder and the model's URL it makes the requests
// of os-openhands in their order, reads the socket to the end of one run, and prints how
// many frames that brought.
const agentClient = "agentclient"

// What the scripted model is asked as, and with.
const (
	scriptedModel = "openai/scripted"
	scriptedKey   = "key-of-the-bench"
)

func agentClientMain(env *cli.Env) int {
	return cli.Main("bench "+agentClient, env, func(ctx context.Context, env *cli.Env) error {
		if len(env.Args) != 3 {
			return cli.Usagef("the server's address, a folder and the model's address are missing")
		}
		c := newRestClient(env.Args[0])
		c.model = env.Args[2]
		frames, err := c.session(ctx, env.Args[1])
		if err == nil {
			_, err = fmt.Fprintln(env.Stdout, frames)
		}
		return err
	})
}

// restClient asks an agent-server about one conversation.
type restClient struct {
	base, id string
	model    string // where the model is asked; "": nowhere
}

func newRestClient(url string) *restClient {
	var id [16]byte
	_, _ = rand.Read(id[:]) // which never fails
	return &restClient{base: url, id: fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])}
}

// session is one conversation of one run. It returns the number of frames that came.
func (c *restClient) session(ctx context.Context, cwd string) (int, error) {
	if err := c.call(ctx, http.MethodGet, "/server_info", nil, nil); err != nil {
		return 0, err
	}
	if err := c.create(ctx, cwd); err != nil {
		return 0, err
	}
	if err := c.call(ctx, http.MethodGet, c.below("/events/count"), nil, new(int)); err != nil {
		return 0, err
	}
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.base, "http")+"/sockets/session/"+c.id+"?after_seq=-1", nil)
	if err != nil {
		return 0, fmt.Errorf("open the socket: %w", err)
	}
	defer func() { _ = conn.CloseNow() }() // nothing is left to say
	conn.SetReadLimit(-1)
	greeted, _, err := toState(ctx, conn)
	if err == nil {
		err = c.say(ctx, "say hello", false)
	}
	if err == nil {
		err = c.call(ctx, http.MethodPost, c.below("/run"), nil, nil)
	}
	if err != nil {
		return 0, err
	}
	frames, last, err := toState(ctx, conn)
	if err != nil {
		return 0, err
	}
	return greeted + frames, c.confirm(ctx, last)
}

// below is a path below the conversation.
func (c *restClient) below(path string) string { return "/api/conversations/" + c.id + path }

func (c *restClient) create(ctx context.Context, cwd string) error {
	llm := map[string]string{"usage_id": "default", "model": scriptedModel, "api_key": scriptedKey}
	if c.model != "" {
		llm["base_url"] = c.model
	}
	tools := []map[string]string{{"name": "terminal"}, {"name": "file_editor"}}
	return c.call(ctx, http.MethodPost, "/api/conversations", map[string]any{
		"conversation_id": c.id, "autotitle": false,
		"workspace": map[string]string{"kind": "LocalWorkspace", "working_dir": cwd},
		"agent":     map[string]any{"kind": "Agent", "llm": llm, "tools": tools},
	}, nil)
}

// say sends a message; with run the server takes it for the running run, or begins one.
func (c *restClient) say(ctx context.Context, text string, run bool) error {
	content := []map[string]string{{"type": "text", "text": text}}
	return c.call(ctx, http.MethodPost, c.below("/events"), map[string]any{"role": "user", "content": content, "run": run}, nil)
}

// confirm asks for the status that the run has left, and for the events behind the last.
func (c *restClient) confirm(ctx context.Context, last []byte) error {
	var frame struct{ Event struct{ ID string } }
	if err := json.Unmarshal(last, &frame); err != nil {
		return fmt.Errorf("decode a frame: %w", err)
	}
	var info struct {
		Status string `json:"execution_status"`
	}
	if err := c.call(ctx, http.MethodGet, c.below(""), nil, &info); err != nil {
		return err
	}
	if info.Status != "finished" {
		return fmt.Errorf("the run ended as %q", info.Status)
	}
	return c.call(ctx, http.MethodGet, c.below("/events/search?limit=100&sort_order=TIMESTAMP&page_id="+frame.Event.ID), nil, nil)
}

// toState counts the frames up to one of the whole state. It also returns the frame
// before that.
func toState(ctx context.Context, conn *websocket.Conn) (n int, before []byte, err error) {
	for {
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return n, nil, fmt.Errorf("read a frame: %w", err)
		}
		n++
		if bytes.Contains(frame, []byte(`"key":"full_state"`)) {
			return n, before, nil
		}
		before = frame
	}
}

// call makes a request and decodes its answer into result, unless that is nil.
func (c *restClient) call(ctx context.Context, method, path string, body, result any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, &text)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answer, result)
}
