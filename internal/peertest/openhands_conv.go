package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// openHandsConv is one conversation. The server's lock guards it.
type openHandsConv struct {
	s        *OpenHands
	id, dir  string
	policy   any
	created  time.Time
	status   string
	feed     []openHandsItem
	kept     int           // of the feed
	changed  chan struct{} // closed when the feed grows
	in, out  int           // tokens
	users    int           // messages of users
	lastUser string        // id of the newest

	epoch   int // grows when the server dies: a run of an older one is void
	running bool
	over    bool // the run has its status, and is being cleaned up
	pausing bool
	again   bool // a message in the tail wants another run
	final   bool // a full_state follows the run
	stop    context.CancelFunc
	tool    chan struct{} // closed at the end of the tool that runs; nil: none does
	action  map[string]any
	waiting bool            // for leave
	rest    []openHandsStep // of the run that waits for it
}

// openHandsItem is one event as sockets and searches have it.
type openHandsItem struct {
	seq              int // -1: not kept
	id, kind, source string
	body             string // of a message
	text             json.RawMessage
}

// die is what a kill leaves of a conversation. It runs under the lock.
func (c *openHandsConv) die() {
	c.epoch++
	if c.running && !c.over {
		c.setStatus("error")
		if c.action != nil {
			c.openHandsError("A restart occurred while this tool was in progress.")
		}
	}
	c.running, c.over, c.pausing, c.again = false, false, false, false
	c.toolEnds()
}

// add puts an event at the end of the feed. It runs under the lock.
func (c *openHandsConv) add(kept bool, source, kind string, members map[string]any) string {
	ev := map[string]any{"id": c.s.newID(), "timestamp": c.s.o.Now().UTC().Format("2006-01-02T15:04:05.000000"), "source": source, "kind": kind}
	maps.Copy(ev, members)
	text, err := json.Marshal(ev)
	if err != nil {
		panic(err) // it is made of what JSON was decoded to
	}
	item := openHandsItem{seq: -1, text: text}
	item.id, _ = ev["id"].(string)
	item.kind, _ = ev["kind"].(string)
	item.source, _ = ev["source"].(string)
	if m, ok := ev["llm_message"].(map[string]any); ok {
		item.body = fmt.Sprint(m["content"])
	}
	if kept {
		item.seq = c.kept
		c.kept++
	}
	c.feed = append(c.feed, item)
	close(c.changed)
	c.changed = make(chan struct{})
	return item.id
}

func (s *OpenHands) newID() string {
	s.ids++
	return fmt.Sprintf("%08x-0000-4000-8000-000000000000", s.ids)
}

func (c *openHandsConv) update(kept bool, key string, value any) {
	c.add(kept, "environment", "ConversationStateUpdateEvent", map[string]any{"key": key, "value": value})
}

func (c *openHandsConv) setStatus(status string) {
	c.status = status
	c.update(true, "execution_status", status)
}

func (c *openHandsConv) fullState() { c.update(false, "full_state", c.state()) }

func (c *openHandsConv) state() map[string]any {
	v := map[string]any{"id": c.id, "execution_status": c.status, "stats": c.stats(), "confirmation_policy": c.policy}
	if c.lastUser != "" {
		v["last_user_message_id"] = c.lastUser
	}
	return v
}

func (c *openHandsConv) stats() map[string]any {
	if c.in+c.out == 0 {
		return map[string]any{"usage_to_metrics": map[string]any{}}
	}
	return map[string]any{"usage_to_metrics": map[string]any{"default": map[string]any{
		"model_name": "openai/scripted", "accumulated_cost": 0,
		"accumulated_token_usage": map[string]any{
			"prompt_tokens": c.in, "completion_tokens": c.out, "cache_read_tokens": 0, "cache_write_tokens": 0,
			"reasoning_tokens": 0, "context_window": 0, "per_turn_token": c.in + c.out,
		},
	}}}
}

func textContent(text string) []any { return []any{map[string]any{"type": "text", "text": text}} }

// message takes a message of a user. It runs under the lock.
func (c *openHandsConv) message(content any) {
	if c.kept == 0 {
		c.add(true, "agent", "SystemPromptEvent", map[string]any{"system_prompt": map[string]any{"type": "text", "text": "You are a stand-in."}})
	}
	if (!c.running || c.over) && (c.status == "finished" || c.status == "stuck") {
		c.setStatus("idle")
	}
	c.users++
	c.lastUser = c.add(true, "user", "MessageEvent", map[string]any{"llm_message": map[string]any{"role": "user", "content": content}})
	c.update(true, "last_user_message_id", c.lastUser)
}

// start begins a run, unless one is under way. It runs under the lock.
func (c *openHandsConv) start() bool {
	if c.running {
		return false
	}
	if c.status == "finished" {
		c.fullState()
		return true
	}
	steps := c.rest
	if c.rest = nil; steps == nil {
		c.s.runs++
		var ok bool
		if steps, ok = blockOf(c.s.script.runs, c.s.runs); !ok {
			steps = []openHandsStep{{"say", "done"}}
		}
	}
	if c.waiting { // a run approves
		c.waiting = false
		c.setStatus("running")
		c.observe(0, "")
	} else {
		c.setStatus("running")
	}
	c.running, c.over, c.pausing, c.final = true, false, false, true
	ctx, stop := context.WithCancel(c.s.life)
	c.stop = stop
	r := &openHandsRun{c: c, ctx: ctx, epoch: c.epoch, users: c.users, asked: len(c.s.asked)}
	c.s.work.Go(func() {
		defer stop()
		r.steps(steps)
	})
	return true
}
