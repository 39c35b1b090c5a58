package codex

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

func (d *driver) itemStarted(item gjson.Result, raw string) {
	switch item.Get("type").Str {
	case "userMessage":
		d.seeded()
		d.userSaid(item)
	case "commandExecution":
		d.em.Emit(wire.EventCommandStarted, command(item), []byte(raw))
	case "mcpToolCall", "dynamicToolCall", "webSearch":
		d.em.Emit(wire.EventToolCalled, tool(item), []byte(raw))
	}
}

func (d *driver) itemCompleted(p gjson.Result, raw string) {
	item := p.Get("item")
	id := text(item.Get("id"))
	emit := func(event string, members any) { d.em.Emit(event, members, []byte(raw)) }
	switch kind := item.Get("type").Str; kind {
	case "userMessage":
		d.userSaid(item)
	case "agentMessage":
		d.turn.text = item.Get("text").Str
		emit(wire.EventMessage, &wire.Item{Item: id, Text: d.turn.text})
	case "reasoning":
		if t := reasoning(item); t != "" {
			emit(wire.EventReasoning, &wire.Item{Item: id, Text: t})
		}
	case "plan":
		emit(wire.EventPlan, &wire.Item{Item: id, Text: item.Get("text").Str})
	case "commandExecution":
		emit(wire.EventCommandCompleted, command(item))
	case "fileChange":
		emit(wire.EventFileChanged, fileChange(item))
	case "mcpToolCall", "dynamicToolCall", "webSearch":
		emit(wire.EventToolCompleted, tool(item))
	default:
		d.pass("item/completed", p, raw)
	}
}

func command(item gjson.Result) *wire.Command {
	return &wire.Command{
		Item:     text(item.Get("id")),
		Command:  text(item.Get("command")),
		Cwd:      text(item.Get("cwd")),
		ExitCode: number(item.Get("exitCode")),
		Status:   text(item.Get("status")),
		Output:   session.Bounded(item.Get("aggregatedOutput").String()),
	}
}

func fileChange(item gjson.Result) *wire.FileChange {
	paths := []string{}
	for _, c := range item.Get("changes").Array() {
		paths = append(paths, c.Get("path").String())
	}
	return &wire.FileChange{Item: text(item.Get("id")), Paths: paths, Status: text(item.Get("status"))}
}

func tool(item gjson.Result) *wire.Tool {
	t := &wire.Tool{Item: text(item.Get("id")), Tool: item.Get("tool").Str, Source: "builtin"}
	switch item.Get("type").Str {
	case "dynamicToolCall":
		t.Source = "host"
	case "mcpToolCall":
		t.Source, t.Tool = "mcp", item.Get("server").Str+"."+t.Tool
	case "webSearch":
		t.Tool = "web_search"
	}
	switch success, status := item.Get("success"), item.Get("status").Str; {
	case success.IsBool():
		ok := success.Bool()
		t.Success = &ok
	case status == "completed" || status == "failed":
		ok := status == "completed"
		t.Success = &ok
	}
	return t
}

// reasoning is the summary of a reasoning item, or its content where there is none.
func reasoning(item gjson.Result) string {
	parts := item.Get("summary").Array()
	if len(parts) == 0 {
		parts = item.Get("content").Array()
	}
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "\n\n")
}

// planText writes a plan as a check list.
func planText(p gjson.Result) string {
	marks := map[string]string{"completed": "x", "inProgress": ">"}
	var b strings.Builder
	if e := p.Get("explanation").String(); e != "" {
		b.WriteString(e + "\n")
	}
	for _, step := range p.Get("plan").Array() {
		mark, ok := marks[step.Get("status").Str]
		if !ok {
			mark = " "
		}
		fmt.Fprintf(&b, "[%s] %s\n", mark, step.Get("step").String())
	}
	return strings.TrimRight(b.String(), "\n")
}
