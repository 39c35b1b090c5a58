package peertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The verbs of a script. Each stands at the start of a line, after an "@":
//
//	@run CMD                  run a shell command with the tool that the client offers
//	@call TOOL [JSON]         call a tool
//	@patch FILE TEXT          add FILE with the one line TEXT
//	@patch                    apply the patch on the lines up to "*** End Patch"
//	@say TEXT                 a message; $OUTPUT is the newest tool result, $STEERED
//	                          the texts steered into this turn
//	@delay DURATION           wait before what follows
//	@drip DURATION            wait between the words of what is said from here on
//	@usage IN CACHED OUT REASONING    token counts of this answer
//	@fail STATUS [TIMES] [JSON]       an HTTP error, for ever or so many times
//	@abort CODE [TEXT]        end the stream with an error; status 400 without a stream
//	@cut                      close the connection in mid-answer
//
// Steps run in order, as far as one answer reaches: each of run, call and patch
// ends an answer, since its result comes with the next request. An answer in
// which nothing is said or called says "done: " and the start of the prompt.
const (
	verbRun   = "run"
	verbCall  = "call"
	verbPatch = "patch"
	verbSay   = "say"
	verbDelay = "delay"
	verbDrip  = "drip"
	verbUsage = "usage"
	verbFail  = "fail"
	verbAbort = "abort"
	verbCut   = "cut"
)

// order is one step, one line of a script. Which members count depends on the verb.
type order struct {
	verb   string
	name   string        // tool, error code
	text   string        // command, arguments, patch, message, error body
	status int           // fail
	times  int           // fail: 0 is for ever
	wait   time.Duration // delay, drip
	usage  usage
}

// awaits reports whether the step needs a tool result before the next one.
func (s *order) awaits() bool {
	return s.verb == verbRun || s.verb == verbCall || s.verb == verbPatch
}

func (s *order) body() string {
	if s.text != "" {
		return s.text
	}
	kind := "server_error"
	switch s.status {
	case http.StatusTooManyRequests:
		kind = "rate_limit_exceeded"
	case http.StatusUnauthorized:
		kind = "invalid_api_key"
	}
	return errorBody(kind, fmt.Sprintf("scripted failure with status %d", s.status))
}

// parsers reads what follows a verb on its line.
var parsers = map[string]func(rest string) (order, error){
	verbRun:   parseText,
	verbSay:   func(rest string) (order, error) { return order{text: rest}, nil },
	verbCall:  parseCall,
	verbPatch: parsePatch,
	verbDelay: parseWait,
	verbDrip:  parseWait,
	verbUsage: parseUsage,
	verbFail:  parseFail,
	verbAbort: parseAbort,
	verbCut:   func(string) (order, error) { return order{}, nil },
}

// parseSteps finds the steps in a text. Other lines, and an "@" before a word
// that is no verb, are left alone: a prompt may mention people.
func parseSteps(text string) ([]order, error) {
	var steps []order
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		marker, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "@")
		if !ok {
			continue
		}
		verb, rest, _ := strings.Cut(marker, " ")
		parse, ok := parsers[verb]
		if !ok {
			continue
		}
		rest, at := strings.TrimSpace(rest), i
		if verb == verbPatch && rest == "" {
			rest, i = patchBlock(lines, i+1)
		}
		s, err := parse(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: @%s: %w", at+1, verb, err)
		}
		s.verb = verb
		steps = append(steps, s)
	}
	return steps, nil
}

const (
	patchStart = "*** Begin Patch"
	patchEnd   = "*** End Patch"
)

// patchBlock returns the patch that starts at lines[from] and its last line.
func patchBlock(lines []string, from int) (string, int) {
	for i := from; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == patchEnd {
			return strings.Join(lines[from:i+1], "\n") + "\n", i
		}
	}
	return "", len(lines)
}

func parseText(rest string) (order, error) {
	if rest == "" {
		return order{}, errors.New("nothing follows it")
	}
	return order{text: rest}, nil
}

func parseCall(rest string) (order, error) {
	name, args, _ := strings.Cut(rest, " ")
	if args = strings.TrimSpace(args); args == "" {
		args = "{}"
	}
	switch {
	case name == "":
		return order{}, errors.New("no tool is named")
	case !json.Valid([]byte(args)):
		return order{}, fmt.Errorf("arguments %q are not JSON", args)
	}
	return order{name: name, text: args}, nil
}

func parsePatch(rest string) (order, error) {
	if strings.HasPrefix(rest, patchStart) {
		return order{text: rest}, nil
	}
	file, text, ok := strings.Cut(rest, " ")
	if !ok {
		return order{}, fmt.Errorf("neither %q to %q nor FILE TEXT", patchStart, patchEnd)
	}
	return order{text: fmt.Sprintf("%s\n*** Add File: %s\n+%s\n%s\n", patchStart, file, text, patchEnd)}, nil
}

func parseWait(rest string) (order, error) {
	d, err := time.ParseDuration(rest)
	return order{wait: d}, err
}

func parseUsage(rest string) (order, error) {
	var u usage
	n, err := fmt.Sscan(rest, &u.input, &u.cached, &u.output, &u.reasoning)
	if err != nil {
		return order{}, fmt.Errorf("%d of 4 numbers: %w", n, err)
	}
	return order{usage: u}, nil
}

func parseFail(rest string) (order, error) {
	var s order
	word, rest, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(word)
	if err != nil || status < 400 || status > 599 {
		return order{}, fmt.Errorf("%q is no HTTP status of an error", word)
	}
	s.status = status
	rest = strings.TrimSpace(rest)
	if rest != "" && !strings.HasPrefix(rest, "{") {
		word, rest, _ = strings.Cut(rest, " ")
		if s.times, err = strconv.Atoi(word); err != nil || s.times < 1 {
			return order{}, fmt.Errorf("%q is no number of times", word)
		}
	}
	if s.text = strings.TrimSpace(rest); s.text != "" && !json.Valid([]byte(s.text)) {
		return order{}, fmt.Errorf("body %q is not JSON", s.text)
	}
	return s, nil
}

func parseAbort(rest string) (order, error) {
	code, text, _ := strings.Cut(rest, " ")
	if code == "" {
		return order{}, errors.New("no error code is named")
	}
	return order{name: code, text: strings.TrimSpace(text)}, nil
}

// segment returns the steps of one answer: those behind the first n tool steps,
// up to and with the next one.
func segment(steps []order, n int) []order {
	start := 0
	for i := range steps {
		if !steps[i].awaits() {
			continue
		}
		if n == 0 {
			return steps[start : i+1]
		}
		n--
		start = i + 1
	}
	return steps[start:]
}

// Script is a list of rules for prompts that carry no steps of their own: the
// first whose pattern matches the prompt gives the steps.
type Script struct{ rules []rule }

type rule struct {
	pattern *regexp.Regexp
	steps   []order
}

// ParseScript reads rules: each starts with a line "match REGEXP", and the steps
// that follow are its own. Blank lines and lines that start with "#" separate.
func ParseScript(text string) (*Script, error) {
	s := &Script{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		line := strings.TrimSpace(lines[i])
		pattern, ok := strings.CutPrefix(line, "match ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			i++
			continue
		case !ok:
			return nil, fmt.Errorf("line %d: %q stands before any match", i+1, line)
		}
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), "match ") {
			end++
		}
		r, err := parseRule(pattern, lines[i+1:end])
		if err != nil {
			return nil, fmt.Errorf("rule at line %d: %w", i+1, err)
		}
		s.rules = append(s.rules, r)
		i = end
	}
	return s, nil
}

func parseRule(pattern string, lines []string) (rule, error) {
	expr, err := regexp.Compile(strings.TrimSpace(pattern))
	if err != nil {
		return rule{}, err
	}
	steps, err := parseSteps(strings.Join(lines, "\n"))
	return rule{expr, steps}, err
}

// steps returns what is to be done for a prompt; a nil Script has no rules.
func (s *Script) steps(prompt string) ([]order, error) {
	steps, err := parseSteps(prompt)
	if err != nil || len(steps) > 0 || s == nil {
		return steps, err
	}
	for _, r := range s.rules {
		if r.pattern.MatchString(prompt) {
			return r.steps, nil
		}
	}
	return nil, nil
}
