package peertest

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// step carries out a step that takes no time. It runs under the lock.
func (c *openHandsConv) step(st openHandsStep) {
	switch st.op {
	case "say":
		c.say(st.arg)
	case "long":
		n, _ := strconv.Atoi(st.arg) // it was tried when it was read
		c.say(strings.Repeat("A", n))
	case "nudge":
		c.add(true, "environment", "MessageEvent", map[string]any{"llm_message": map[string]any{"role": "user", "content": textContent(st.arg)}})
	case "command":
		c.act("terminal", map[string]any{"kind": "TerminalAction", "command": st.arg, "is_input": false, "reset": false})
		c.observe(0, "")
	case "act":
		c.act("terminal", map[string]any{"kind": "TerminalAction", "command": st.arg, "is_input": false, "reset": false})
		c.tool = make(chan struct{})
	case "observe":
		code, text, _ := twoWords(st)
		c.observe(code, text)
	case "edit":
		c.act("file_editor", map[string]any{"kind": "FileEditorAction", "command": "create", "path": st.arg, "file_text": "x\n"})
		c.observed(map[string]any{"kind": "FileEditorObservation", "command": "create", "path": st.arg, "prev_exist": false, "is_error": false, "content": textContent("")})
	case "finish":
		c.act("finish", map[string]any{"kind": "FinishAction", "message": st.arg})
		c.observed(map[string]any{"kind": "FinishObservation", "is_error": false, "content": textContent(st.arg)})
	case "confirm":
		c.act("terminal", map[string]any{"kind": "TerminalAction", "command": st.arg, "is_input": false, "reset": false})
		c.waiting = true
		c.setStatus("waiting_for_confirmation")
	case "big":
		n, _ := strconv.Atoi(st.arg)
		c.act("terminal", map[string]any{"kind": "TerminalAction", "command": "big", "is_input": false, "reset": false})
		c.observe(0, strings.Repeat("A", n))
	default:
		c.odd(st)
	}
}

// odd is step for what an agent does not do by itself.
func (c *openHandsConv) odd(st openHandsStep) {
	switch st.op {
	case "error":
		words := append(strings.SplitN(st.arg, " ", 3), "", "")
		c.setStatus("error")
		c.add(true, "environment", "ConversationErrorEvent", map[string]any{"code": words[0], "detail": words[2],
			"classification": map[string]any{"kind": words[1], "retryable": false, "user_action": "none"}})
	case "stats":
		in, more, _ := twoWords(st)
		out, _ := strconv.Atoi(more)
		c.spend(in, out)
	case "status":
		c.setStatus(st.arg)
	case "emit", "transient":
		members := map[string]any{}
		_ = json.Unmarshal([]byte(st.arg), &members) // it was tried when it was read
		c.add(st.op == "emit", "agent", "", members)
	case "delta":
		c.add(false, "agent", "StreamingDeltaEvent", map[string]any{"content": st.arg})
	case "state":
		c.fullState()
	case "nofinal":
		c.final = false
	case "sockets":
		c.s.endSockets(c, strings.TrimSpace(strings.TrimPrefix(st.arg, "close")))
	}
}

func (c *openHandsConv) say(text string) {
	c.spend(100, 20)
	c.add(true, "agent", "MessageEvent", map[string]any{"llm_message": map[string]any{"role": "assistant", "content": textContent(text)}})
}

func (c *openHandsConv) spend(in, out int) {
	c.in, c.out = c.in+in, c.out+out
	c.update(true, "stats", c.stats())
}

func (c *openHandsConv) act(tool string, action map[string]any) {
	c.spend(100, 20)
	call := "call_" + strconv.Itoa(c.kept)
	ids := map[string]any{"tool_name": tool, "tool_call_id": call}
	members := map[string]any{"thought": textContent(""), "action": action, "security_risk": "UNKNOWN"}
	maps.Copy(members, ids)
	ids["action_id"] = c.add(true, "agent", "ActionEvent", members)
	c.action = ids
}

func (c *openHandsConv) observe(code int, text string) {
	c.observed(map[string]any{"kind": "TerminalObservation", "exit_code": code, "is_error": code != 0, "timeout": false, "content": textContent(text)})
}

func (c *openHandsConv) observed(observation map[string]any) {
	members := map[string]any{"observation": observation}
	maps.Copy(members, c.action)
	c.add(true, "environment", "ObservationEvent", members)
	c.action = nil
	c.toolEnds()
}

func (c *openHandsConv) openHandsError(text string) {
	members := map[string]any{"error": text, "classification": map[string]any{"kind": "agent_action", "retryable": true, "user_action": "retry"}}
	maps.Copy(members, c.action)
	delete(members, "action_id")
	c.add(true, "agent", "AgentErrorEvent", members)
	c.action = nil
}

func (c *openHandsConv) reject(reason string) {
	c.waiting = false
	c.setStatus("idle")
	members := map[string]any{"rejection_reason": reason, "rejection_source": "user"}
	maps.Copy(members, c.action)
	c.add(true, "environment", "UserRejectObservation", members)
	c.action = nil
}

func (c *openHandsConv) toolEnds() {
	if c.tool != nil {
		close(c.tool)
		c.tool = nil
	}
}
