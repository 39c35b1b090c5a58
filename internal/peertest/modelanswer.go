package peertest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// usage is the token counts of one answer.
type usage struct{ input, cached, output, reasoning int64 }

// usualUsage is what an answer costs that no @usage step prices.
var usualUsage = usage{input: 100, cached: 30, output: 20, reasoning: 5}

// form writes one answer as an API has it. Where the client has gone a form goes on
// without effect.
type form interface {
	begin()
	// say adds a message and reports whether the client was there to its end.
	say(ctx context.Context, text string, drip time.Duration) bool
	call(c toolCall)
	// fail ends the answer with an error instead of end.
	fail(code, text string)
	// cut leaves the answer where it is, before the connection is closed.
	cut()
	end(u usage)
}

// toolCall is a call for one of the client's tools.
type toolCall struct {
	tool   string
	input  string // JSON, or free text for a custom tool
	custom bool
}

// answer is one answer on its way to the client. It belongs to the goroutine of its
// request.
type answer struct {
	ctx   context.Context
	form  form
	tools map[string]string // types by name
	turn  turn
	usage usage

	drip time.Duration
	used bool // something was said or called
}

// send gives what the steps ask for, and the frame around it. It stops, silently,
// where the client has gone.
func (a *answer) send(steps []order) {
	a.form.begin()
	for i := range steps {
		if !a.do(&steps[i]) {
			return
		}
	}
	if !a.used {
		a.say("done: " + firstLine(a.turn.prompt))
	}
	a.form.end(a.usage)
}

// do takes one step and reports whether the answer goes on.
func (a *answer) do(s *order) bool {
	switch s.verb {
	case verbDelay:
		return pause(a.ctx, s.wait)
	case verbDrip:
		a.drip = s.wait
	case verbUsage:
		a.usage = s.usage
	case verbSay:
		return a.say(a.expand(s.text))
	case verbRun:
		a.run(s.text)
	case verbCall:
		a.call(s.name, s.text)
	case verbPatch:
		a.patch(s.text)
	case verbAbort:
		a.form.fail(s.name, s.text)
		return false
	case verbCut:
		a.form.cut()
		// The one way of net/http to close the connection without an end.
		panic(http.ErrAbortHandler)
	}
	return a.ctx.Err() == nil
}

func (a *answer) expand(text string) string {
	return strings.NewReplacer("$OUTPUT", a.turn.output, "$STEERED", strings.Join(a.turn.steered, " / ")).Replace(text)
}

func (a *answer) say(text string) bool {
	a.used = true
	return a.form.say(a.ctx, text, a.drip)
}

// run calls whichever shell tool the client offers.
func (a *answer) run(command string) {
	switch {
	case a.tools["exec_command"] != "":
		a.call("exec_command", object("cmd", command))
	case a.tools["shell_command"] != "":
		a.call("shell_command", object("command", command))
	case a.tools["terminal"] != "":
		a.call("terminal", object("command", command))
	default:
		a.call("shell", object("command", []string{"bash", "-lc", command}))
	}
}

// patch calls apply_patch where the client has such a tool. Codex has it for
// models it knows only, but takes the shell form from every model.
func (a *answer) patch(text string) {
	switch a.tools["apply_patch"] {
	case "custom":
		a.used = true
		a.form.call(toolCall{tool: "apply_patch", input: text, custom: true})
	case "function":
		a.call("apply_patch", object("input", text))
	default:
		a.run("apply_patch <<'EOF'\n" + text + "EOF\n")
	}
}

func (a *answer) call(tool, arguments string) {
	a.used = true
	a.form.call(toolCall{tool: tool, input: arguments})
}

func object(key string, value any) string {
	b, _ := json.Marshal(map[string]any{key: value}) // strings only
	return string(b)
}

// firstLine returns the first line that is not blank, cut to what a test reads.
func firstLine(text string) string {
	const limit = 80
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > limit {
		line = string(r[:limit])
	}
	return line
}
