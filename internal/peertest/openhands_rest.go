package peertest

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)

const runningAlready = "Conversation already running. Wait for completion or pause first."

// answer is what the real server itself would say.
func (s *OpenHands) answer(r *http.Request, body []byte, auth string) *openHandsReply {
	rest, isAPI := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case r.URL.Path == "/ready" || r.URL.Path == "/alive" || r.URL.Path == "/health":
		return openHandsOK(map[string]string{"status": "ok"})
	case r.URL.Path == "/server_info":
		return openHandsOK(map[string]any{"version": s.script.version, "sdk_version": s.script.version, "tools_version": s.script.version,
			"workspace_version": s.script.version, "usable_tools": []string{"terminal", "file_editor"}, "capabilities": []string{}})
	case !isAPI:
		return openHandsError(http.StatusNotFound, "Not Found")
	case s.o.Key != "" && auth != "key":
		return openHandsError(http.StatusUnauthorized, "Unauthorized")
	}
	words := strings.Split(rest, "/")
	if words[0] != "conversations" {
		return openHandsError(http.StatusNotFound, "Not Found")
	}
	if words = words[1:]; len(words) == 0 || words[0] == "count" || words[0] == "search" {
		return s.conversations(r, body, strings.Join(words, "/"))
	}
	if !uuidForm.MatchString(words[0]) {
		return openHandsError(http.StatusUnprocessableEntity, "Input should be a valid UUID")
	}
	s.mu.Lock()
	c := s.convs[compact(words[0])]
	s.mu.Unlock()
	if c == nil {
		return openHandsError(http.StatusNotFound, "Conversation not found")
	}
	return c.route(r, body, r.Method+" "+strings.Join(words[1:], "/"))
}

func compact(id string) string { return strings.ReplaceAll(id, "-", "") }

func (s *OpenHands) conversations(r *http.Request, body []byte, what string) *openHandsReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method + " " + what {
	case "GET count":
		return openHandsOK(len(s.order))
	case "GET search":
		items := []any{}
		for _, id := range s.order {
			items = append(items, s.convs[id].info())
		}
		return openHandsOK(map[string]any{"items": items, "next_page_id": nil})
	case "POST ":
		return s.create(body)
	}
	return openHandsError(http.StatusMethodNotAllowed, "Method Not Allowed")
}

// create runs under the lock.
func (s *OpenHands) create(body []byte) *openHandsReply {
	var want struct {
		ID        string `json:"conversation_id"`
		Workspace struct {
			Dir string `json:"working_dir"`
		} `json:"workspace"`
		Agent   json.RawMessage `json:"agent"`
		Policy  any             `json:"confirmation_policy"`
		Initial *struct {
			Content any `json:"content"`
		} `json:"initial_message"`
	}
	if err := json.Unmarshal(body, &want); err != nil || want.Workspace.Dir == "" || want.Agent == nil {
		return &openHandsReply{status: http.StatusUnprocessableEntity, body: map[string]any{
			"detail": []any{map[string]any{"type": "missing", "loc": []string{"body", "workspace"}, "msg": "Field required"}}}}
	}
	if want.ID == "" {
		want.ID = s.newID()
	}
	if old := s.convs[compact(want.ID)]; old != nil {
		return openHandsOK(old.info())
	}
	if want.Policy == nil {
		want.Policy = map[string]any{"kind": "NeverConfirm"}
	}
	c := &openHandsConv{s: s, id: want.ID, dir: want.Workspace.Dir, policy: want.Policy, created: s.o.Now(), status: "idle", changed: make(chan struct{})}
	s.convs[compact(c.id)] = c
	s.order = append(s.order, compact(c.id))
	if want.Initial != nil {
		c.message(want.Initial.Content)
		c.start()
	}
	return &openHandsReply{status: http.StatusCreated, body: c.info()}
}

func (c *openHandsConv) info() map[string]any {
	info := c.state()
	info["workspace"] = map[string]any{"kind": "LocalWorkspace", "working_dir": c.dir}
	info["max_iterations"], info["stuck_detection"], info["title"] = 500, true, nil
	info["created_at"], info["updated_at"] = c.created.UTC().Format(time.RFC3339Nano), c.s.o.Now().UTC().Format(time.RFC3339Nano)
	return info
}

func (c *openHandsConv) route(r *http.Request, body []byte, what string) *openHandsReply {
	if what == "POST events" || what == "POST pause" || what == "POST confirmation_policy" {
		if !c.toolDone(r.Context()) {
			return &openHandsReply{cut: true}
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch what {
	case "GET ":
		return openHandsOK(c.info())
	case "GET agent_final_response":
		return openHandsOK(map[string]string{"response": c.finalResponse()})
	case "GET events/search":
		return c.search(r)
	case "GET events/count":
		return openHandsOK(len(c.found(r)))
	case "POST events":
		return c.posted(body)
	case "POST events/respond_to_confirmation":
		return c.respond(body)
	case "POST run":
		if !c.start() {
			return openHandsError(http.StatusConflict, runningAlready)
		}
		return openHandsSuccess()
	case "POST interrupt":
		c.interrupt()
		return openHandsSuccess()
	case "POST pause":
		c.pause()
		return openHandsSuccess()
	case "POST confirmation_policy":
		var want struct{ Policy any }
		_ = json.Unmarshal(body, &want) // what is none leaves the policy empty
		c.policy = want.Policy
		return openHandsSuccess()
	case "POST switch_llm", "POST security_analyzer", "POST secrets", "PATCH ":
		return openHandsSuccess()
	case "DELETE ":
		c.interrupt()
		delete(c.s.convs, compact(c.id))
		c.s.order = slices.DeleteFunc(c.s.order, func(id string) bool { return id == compact(c.id) })
		return openHandsSuccess()
	}
	return c.event(what)
}

// event answers for one event, and for what there is not.
func (c *openHandsConv) event(what string) *openHandsReply {
	id, ok := strings.CutPrefix(what, "GET events/")
	for _, item := range c.feed {
		if ok && item.seq >= 0 && item.id == id {
			return openHandsOK(item.text)
		}
	}
	return openHandsError(http.StatusNotFound, "Not Found")
}

// toolDone waits for the tool that runs, which holds the conversation's state. It is
// false where the client has gone.
func (c *openHandsConv) toolDone(ctx context.Context) bool {
	for {
		c.s.mu.Lock()
		tool, life := c.tool, c.s.life
		c.s.mu.Unlock()
		if tool == nil {
			return true
		}
		select {
		case <-tool:
		case <-ctx.Done():
			return false
		case <-life.Done():
			return false
		}
	}
}

func (c *openHandsConv) posted(body []byte) *openHandsReply {
	var want struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
		Run     bool   `json:"run"`
	}
	if err := json.Unmarshal(body, &want); err != nil {
		return openHandsError(http.StatusUnprocessableEntity, err.Error())
	}
	if _, isList := want.Content.([]any); !isList {
		return openHandsError(http.StatusUnprocessableEntity, "Input should be a valid list")
	}
	c.message(want.Content)
	if want.Run {
		c.wake()
	}
	return openHandsSuccess()
}

// wake starts a run for a message, or lets the tail of one do it.
func (c *openHandsConv) wake() {
	if c.over {
		c.again = true
	}
	c.start()
}

func (c *openHandsConv) respond(body []byte) *openHandsReply {
	var want struct {
		Accept bool   `json:"accept"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(body, &want); err != nil {
		return openHandsError(http.StatusUnprocessableEntity, err.Error())
	}
	switch {
	case want.Accept:
		c.start()
	case c.waiting:
		c.reject(want.Reason)
	}
	return openHandsSuccess()
}

func (c *openHandsConv) interrupt() {
	if c.running && !c.over {
		c.stop()
		return
	}
	c.fullState()
}

func (c *openHandsConv) pause() {
	if !c.running || c.over || c.pausing {
		return
	}
	c.pausing = true
	c.setStatus("paused")
	c.add(true, "user", "PauseEvent", nil)
	c.fullState()
}

func (c *openHandsConv) finalResponse() string {
	for i := len(c.feed) - 1; i >= 0; i-- {
		var ev struct {
			Source, Kind string
			Action       struct{ Kind, Message string }
			Message      struct {
				Content []struct{ Text string } `json:"content"`
			} `json:"llm_message"`
		}
		_ = json.Unmarshal(c.feed[i].text, &ev) // foreign shapes are nothing
		switch {
		case ev.Action.Kind == "FinishAction":
			return ev.Action.Message
		case ev.Kind == "MessageEvent" && ev.Source == "agent" && len(ev.Message.Content) > 0:
			return ev.Message.Content[0].Text
		}
	}
	return ""
}

// found returns the kept events that a search asks for, in its order.
func (c *openHandsConv) found(r *http.Request) []openHandsItem {
	q := r.URL.Query()
	var items []openHandsItem
	for _, item := range c.feed {
		kind := q.Get("kind")
		switch {
		case item.seq < 0,
			kind != "" && item.kind != kind[strings.LastIndex(kind, ".")+1:],
			q.Get("source") != "" && item.source != q.Get("source"),
			!strings.Contains(strings.ToLower(item.body), strings.ToLower(q.Get("body"))):
			continue
		}
		items = append(items, item)
	}
	if q.Get("sort_order") == "TIMESTAMP_DESC" {
		slices.Reverse(items)
	}
	return items
}

func (c *openHandsConv) search(r *http.Request) *openHandsReply {
	limit := 100
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return openHandsError(http.StatusUnprocessableEntity, "limit must be from 1 to 100")
		}
		limit = n
	}
	items := c.found(r)
	page := r.URL.Query().Get("page_id")
	if at := slices.IndexFunc(items, func(i openHandsItem) bool { return i.id == page }); at > 0 {
		items = items[at:]
	}
	var next any
	if len(items) > limit {
		next = items[limit].id
		items = items[:limit]
	}
	texts := []json.RawMessage{}
	for _, item := range items {
		texts = append(texts, item.text)
	}
	return openHandsOK(map[string]any{"items": texts, "next_page_id": next})
}
