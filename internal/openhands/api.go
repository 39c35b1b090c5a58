package openhands

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The limits of requests. A message into a tool call is answered when the tool is done,
// so it has none but the session's own.
const (
	readLimit    = 30 * time.Second
	createLimit  = time.Minute
	messageLimit = 2 * time.Minute
	controlLimit = 20 * time.Second // an interrupt waits up to 5 s for the run's end
	steerLimit   = 24 * time.Hour
)

// pageSize is the most events that the server gives at once.
const pageSize = 100

func requestInfo() request {
	return request{op: "server_info", method: http.MethodGet, path: "/server_info", root: true, limit: readLimit}
}

// requestLogin asks for what the server tells only to those who have its key.
func requestLogin() request {
	return request{op: "login", method: http.MethodGet, path: "/count", limit: readLimit}
}

func requestCreate(body map[string]any) request {
	return request{op: "create", method: http.MethodPost, body: body, limit: createLimit}
}

func requestConversation(id string) request {
	return request{op: "attach", method: http.MethodGet, path: "/" + id, limit: readLimit}
}

func requestCount(id string) request {
	return request{op: "count", method: http.MethodGet, path: "/" + id + "/events/count", limit: readLimit}
}

// requestEvents asks for the events from one on, that one included; "" is the first.
func requestEvents(id, from string) request {
	q := url.Values{"limit": {fmt.Sprint(pageSize)}, "sort_order": {"TIMESTAMP"}}
	if from != "" {
		q.Set("page_id", from)
	}
	return request{op: "events", method: http.MethodGet, path: "/" + id + "/events/search?" + q.Encode(), limit: readLimit}
}

// requestNewest asks for the newest events, newest first, from one on.
func requestNewest(id, from string, n int) request {
	q := url.Values{"limit": {fmt.Sprint(n)}, "sort_order": {"TIMESTAMP_DESC"}}
	if from != "" {
		q.Set("page_id", from)
	}
	return request{op: "events", method: http.MethodGet, path: "/" + id + "/events/search?" + q.Encode(), limit: readLimit}
}

// requestMessage adds a user message. With run the server takes it for the running run,
// or begins one.
func requestMessage(id, text string, run bool, limit time.Duration) request {
	body := map[string]any{
		"role": "user", "content": []map[string]string{{"type": "text", "text": text}}, "run": run,
	}
	return request{op: "message", method: http.MethodPost, path: "/" + id + "/events", body: body, limit: limit}
}

func requestRun(id string) request {
	return request{op: "run", method: http.MethodPost, path: "/" + id + "/run", limit: controlLimit}
}

func requestInterrupt(id string) request {
	return request{op: "interrupt", method: http.MethodPost, path: "/" + id + "/interrupt", limit: controlLimit}
}

// requestPause is for servers that cannot interrupt. It is answered when the running
// tool is done.
func requestPause(id string) request {
	return request{op: "pause", method: http.MethodPost, path: "/" + id + "/pause", limit: messageLimit}
}

func requestConfirm(id string, accept bool, reason string) request {
	body := map[string]any{"accept": accept, "reason": reason}
	return request{op: "confirm", method: http.MethodPost, path: "/" + id + "/events/respond_to_confirmation", body: body, limit: messageLimit}
}

func requestSwitch(id string, llm map[string]any) request {
	return request{op: "switch_llm", method: http.MethodPost, path: "/" + id + "/switch_llm", body: map[string]any{"llm": llm}, limit: messageLimit}
}

func requestPolicy(id, confirm string) request {
	return request{op: "policy", method: http.MethodPost, path: "/" + id + "/confirmation_policy", body: map[string]any{"policy": confirmPolicy(confirm)}, limit: messageLimit}
}

func requestAnalyzer(id string) request {
	return request{op: "analyzer", method: http.MethodPost, path: "/" + id + "/security_analyzer", body: map[string]any{"security_analyzer": riskAnalyzer()}, limit: messageLimit}
}

// createBody is the request for a conversation in folder. No message is in it, since
// one would start a run at once; and no title, which would cost a model call.
func (a *Agent) createBody(id, folder string) map[string]any {
	tools := []map[string]string{}
	for _, t := range a.Tools {
		tools = append(tools, map[string]string{"name": t})
	}
	agent := map[string]any{"kind": "Agent", "llm": a.llm(), "tools": tools}
	if a.Condenser != nil {
		condenser := map[string]any{"kind": "LLMSummarizingCondenser"}
		llm := a.llm()
		llm["usage_id"] = "condenser"
		condenser["llm"] = llm
		for k, v := range a.Condenser {
			condenser[k] = v
		}
		agent["condenser"] = condenser
	}
	body := map[string]any{
		"conversation_id": id,
		"workspace":       map[string]any{"kind": "LocalWorkspace", "working_dir": folder},
		"agent":           agent,
		"autotitle":       false,
		"stuck_detection": a.Stuck,
	}
	if a.MaxIterations > 0 {
		body["max_iterations"] = a.MaxIterations
	}
	if a.Confirm != "" {
		body["confirmation_policy"] = confirmPolicy(a.Confirm)
	}
	if a.Confirm == ConfirmRisky {
		body["security_analyzer"] = riskAnalyzer()
	}
	return body
}

// llm is the model's configuration, its key included.
func (a *Agent) llm() map[string]any {
	llm := map[string]any{"usage_id": "default"}
	for k, v := range a.LLM {
		llm[k] = v
	}
	llm["model"] = a.Model
	if a.Key != "" {
		llm["api_key"] = a.Key
	}
	return llm
}

func confirmPolicy(word string) map[string]any {
	switch word {
	case ConfirmAlways:
		return map[string]any{"kind": "AlwaysConfirm"}
	case ConfirmRisky:
		return map[string]any{"kind": "ConfirmRisky"}
	}
	return map[string]any{"kind": "NeverConfirm"}
}

// riskAnalyzer believes what the model says of the risk of each action. Without one the
// server knows of no risk, and asks for all that the agent does.
func riskAnalyzer() map[string]any { return map[string]any{"kind": "LLMSecurityAnalyzer"} }

// Values of Agent.Confirm.
const (
	ConfirmNever  = "never"
	ConfirmAlways = "always"
	ConfirmRisky  = "risky" // what the model calls a high risk, or does not rate
)
