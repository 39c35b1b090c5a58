package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// harnessAlias maps OpenSymphony's names of harnesses to ours.
var harnessAlias = map[string]string{
	"codex_app_server":       "codex",
	"openhands_agent_server": "openhands",
}

func harnessName(name string) string {
	if ours, ok := harnessAlias[name]; ok {
		return ours
	}
	return name
}

// Where a routing choice comes from.
const (
	fromDefault  = "default"
	fromWorkflow = "workflow"
	fromEnv      = "env"
)

func (r *reader) readRouting(s *section, out *Routing, openhands bool) {
	out.Commands = map[string]string{}
	r.readHarnesses(s.table("harnesses"), out.Commands)
	out.Harness = "codex"
	if openhands {
		out.Harness = "openhands"
	}
	fallback := out.Harness
	env := r.choose(s, "harness", "OPENSYMPHONY_HARNESS", &out.Harness, &out.HarnessSource)
	r.choose(s, "model", "OPENSYMPHONY_MODEL", &out.Model, &out.ModelSource)
	r.choose(s, "model_profile", "OPENSYMPHONY_MODEL_PROFILE", &out.ModelProfile, &out.ModelProfileSource)
	out.Harness = harnessName(out.Harness)
	if !out.knows(out.Harness) {
		from := s.take("harness")
		if env != "" {
			from = &node{line: s.line, text: out.Harness, env: env, value: out.Harness}
		}
		r.refuse(s.key("harness"), from, out.harnesses())
		out.Harness, out.HarnessSource = fallback, fromDefault
	}
	r.readRules(s, out)
	s.done()
}

// choose reads one choice: the file's, unless the environment has one. It returns the
// variable that decided, or "".
func (r *reader) choose(s *section, key, variable string, dst, source *string) string {
	*source = fromDefault
	if s.has(key) {
		*source = fromWorkflow
	}
	s.variable(key+"_env", &variable)
	value, _ := r.opts.LookupEnv(variable)
	if value = strings.TrimSpace(value); value != "" {
		s.take(key) // known, though not looked at
		*dst, *source = value, fromEnv
		return variable
	}
	s.text(key, dst)
	return ""
}

func (r *Routing) knows(harness string) bool {
	_, ok := r.Commands[harness]
	return ok || harness == "codex" || harness == "openhands"
}

func (r *Routing) harnesses() string {
	names := []string{"codex", "openhands"}
	for name := range r.Commands {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("a harness: %s, or one named under routing.harnesses", strings.Join(names, ", "))
}

func (r *reader) readHarnesses(s *section, commands map[string]string) {
	for _, e := range s.entries {
		var command string
		one := s.table(e.key)
		one.command("command", &command)
		if one.isMap && !one.has("command") {
			r.fault(one.name, e.node, "a harness needs a command")
		}
		one.done()
		if command != "" {
			commands[harnessName(e.key)] = command
		}
	}
}

func (r *reader) readRules(s *section, out *Routing) {
	items, _ := s.items("rules")
	for _, item := range items {
		var rule Rule
		one := r.section(s.key("rules"), item)
		one.text("label", &rule.Label)
		one.text("state", &rule.State)
		one.text("harness", &rule.Harness)
		one.text("model", &rule.Model)
		one.done()
		rule.Label = strings.ToLower(strings.TrimSpace(rule.Label))
		rule.Harness = harnessName(rule.Harness)
		switch {
		case !one.isMap:
		case !one.has("label") && !one.has("state"):
			r.fault(one.name, item, "a rule needs a label or a state")
		case !one.has("harness") && !one.has("model"):
			r.fault(one.name, item, "a rule needs a harness or a model")
		case rule.Harness != "" && !out.knows(rule.Harness):
			r.refuse(one.name+".harness", one.take("harness"), out.harnesses())
		}
		out.Rules = append(out.Rules, rule)
	}
}
