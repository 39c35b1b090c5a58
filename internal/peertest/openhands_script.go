package peertest

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// openHandsScript says what the stand-in of an agent-server does. It is a text of lines;
// blank ones and those that begin with "#" mean nothing:
//
//	version V                            what /server_info says
//	nosession                            there is no session socket, as before 1.49
//	stranding                            a message in the tail of a run does not start another
//	instead [when FILE] [xN|x*] METHOD GLOB ANSWER   the next N requests (one) are answered so, and not
//	                                     carried out; with when, of those that come while FILE is there
//	afterwards [when FILE] [xN|x*] METHOD GLOB ANSWER   the same, but they are carried out first
//	run N|*                              the steps of the N-th run, or of all others
//	socket N|*                           the steps of the N-th socket, or of all others
//
// GLOB is for the path, as path.Match takes it. ANSWER is STATUS [BODY], with $BODY for
// the request's own; "with JSON", members that replace those of the ordinary answer;
// "slow D", which delays it; "late D", which delays also what was asked for; "cut", the connection ends; "hang", nothing comes.
//
// Steps of a run, which ends as finished unless a step says how:
//
//	say TEXT           a message of the agent
//	long N             a message of N bytes
//	nudge TEXT         a message of the environment
//	command CMD        a command, done at once
//	act CMD            a command that runs until the next observe; requests wait for it as they do for a tool
//	observe EXIT TEXT  its end
//	edit PATH          a file is created
//	confirm CMD        the agent waits for leave; an accept, or a run after a reject, goes on with the next step
//	finish TEXT        the finish tool
//	error CODE KIND DETAIL   a ConversationErrorEvent, behind the status error
//	stats IN OUT       so many more tokens were used
//	status STATUS      an execution_status
//	emit JSON          an event that is kept
//	many N JSON        N events that are kept, each with an id of its own
//	transient JSON     one that is not
//	delta TEXT         a piece of a message
//	big N              an observation of N bytes
//	wait FILE          until it is there
//	wait message       until somebody has sent one more
//	wait request METHOD GLOB   until one more such request has come
//	sleep D            for so long
//	hang               for ever
//	tail D             the run is over and not cleaned up: /run is refused for so long
//	state              a full_state before the end
//	nofinal            no full_state will follow the end
//	sockets drop       all sockets are cut
//	sockets close CODE [REASON]   all sockets are closed, and get nothing that waits for them
//	unreachable D      the port refuses connections for so long; the run goes on
//	crash D            the server dies and is back after so long
//
// Steps of a socket, before it does what it always does. It greets with its state at
// the first after or state:
//
//	refuse STATUS      the upgrade is refused
//	state              greet now
//	frame TEXT         this text
//	history            all events once more
//	after N            go on behind the N-th kept event
//	swap               the next two events change places
//	sleep D            nothing for so long
//	mute               nothing more, for ever
//	close CODE [REASON]   a close frame
//	drop               the connection is cut
type openHandsScript struct {
	version   string
	nosession bool
	stranding bool
	faults    []*openHandsFault
	runs      map[string][]openHandsStep
	sockets   map[string][]openHandsStep
}

// openHandsStep is one line of a block.
type openHandsStep struct{ op, arg string }

// openHandsFault is what happens to some requests.
type openHandsFault struct {
	line         string
	when         string // a file; "": always
	left         int    // -1: always
	after        bool
	method, glob string

	status    int
	body      string
	merge     map[string]json.RawMessage
	slow      time.Duration
	late      time.Duration
	cut, hang bool
}

func (f *openHandsFault) matches(method, urlPath string) bool {
	ok, _ := path.Match(f.glob, urlPath) // the pattern was tried when it was read
	return ok && f.left != 0 && (f.method == "*" || f.method == method)
}

var (
	runSteps = []string{"say", "long", "nudge", "command", "act", "observe", "edit", "confirm", "finish", "error", "stats", "status", "emit", "many",
		"transient", "delta", "big", "wait", "sleep", "hang", "tail", "state", "nofinal", "sockets", "unreachable", "crash"}
	socketSteps = []string{"refuse", "state", "frame", "history", "after", "swap", "sleep", "mute", "close", "drop"}
)

// openHandsScriptReader reads the lines of a script, of which those of a block belong to the
// last run or socket that was named.
type openHandsScriptReader struct {
	s     *openHandsScript
	kind  string // run or socket; "" outside a block
	block map[string][]openHandsStep
	name  string
}

func parseOpenHandsScript(text string) (*openHandsScript, error) {
	r := &openHandsScriptReader{s: &openHandsScript{version: "1.58.2", runs: map[string][]openHandsStep{}, sockets: map[string][]openHandsStep{}}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if err := r.line(word, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return r.s, nil
}

func (r *openHandsScriptReader) line(word, rest string) error {
	switch word {
	case "version":
		r.s.version = rest
	case "nosession":
		r.s.nosession = true
	case "stranding":
		r.s.stranding = true
	case "instead", "afterwards":
		f, err := parseOpenHandsFault(word, rest)
		r.s.faults = append(r.s.faults, f)
		return err
	case "run":
		return r.open(word, r.s.runs, rest)
	case "socket":
		return r.open(word, r.s.sockets, rest)
	default:
		return r.step(openHandsStep{word, rest})
	}
	return nil
}

func (r *openHandsScriptReader) open(kind string, blocks map[string][]openHandsStep, name string) error {
	if n, err := strconv.Atoi(name); name != "*" && (err != nil || n < 1) {
		return fmt.Errorf("%s %q is neither a number nor *", kind, name)
	}
	if _, twice := blocks[name]; twice {
		return fmt.Errorf("%s %s stands there twice", kind, name)
	}
	blocks[name] = []openHandsStep{}
	r.kind, r.block, r.name = kind, blocks, name
	return nil
}

func (r *openHandsScriptReader) step(st openHandsStep) error {
	known := map[string][]string{"run": runSteps, "socket": socketSteps}[r.kind]
	if !slices.Contains(known, st.op) {
		return fmt.Errorf("%q is no step of a %q", st.op, r.kind)
	}
	var err error
	switch st.op {
	case "sleep", "tail", "crash", "unreachable":
		_, err = time.ParseDuration(st.arg)
	case "long", "big", "after", "refuse":
		_, err = strconv.Atoi(st.arg)
	case "wait":
		if _, glob, ok := requestOf(st.arg); ok {
			_, err = path.Match(glob, "")
		} else if strings.Contains(st.arg, " ") {
			err = fmt.Errorf("%q is no file", st.arg)
		}
	case "observe", "stats", "close":
		_, _, err = twoWords(st)
	case "many":
		var event string
		if _, event, err = twoWords(st); err == nil {
			err = json.Unmarshal([]byte(event), &map[string]any{})
		}
	case "emit", "transient":
		err = json.Unmarshal([]byte(st.arg), &map[string]any{})
	}
	r.block[r.name] = append(r.block[r.name], st)
	return err
}

// requestOf splits the argument of a wait for a request.
func requestOf(arg string) (method, glob string, ok bool) {
	rest, ok := strings.CutPrefix(arg, "request ")
	method, glob, _ = strings.Cut(rest, " ")
	return method, glob, ok
}

// twoWords splits the argument of a step behind a number.
func twoWords(st openHandsStep) (n int, rest string, err error) {
	word, rest, _ := strings.Cut(st.arg, " ")
	n, err = strconv.Atoi(word)
	return n, rest, err
}

func parseOpenHandsFault(word, rest string) (*openHandsFault, error) {
	f := &openHandsFault{line: word + " " + rest, left: 1, after: word == "afterwards"}
	if file, ok := strings.CutPrefix(rest, "when "); ok {
		f.when, rest, _ = strings.Cut(file, " ")
	}
	if count, more, ok := strings.Cut(rest, " "); ok && strings.HasPrefix(count, "x") {
		rest = more
		if f.left = -1; count != "x*" {
			n, err := strconv.Atoi(count[1:])
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q is no count", count)
			}
			f.left = n
		}
	}
	words := strings.SplitN(rest, " ", 4)
	if len(words) < 3 {
		return nil, fmt.Errorf("%q has no method, path and answer", rest)
	}
	f.method, f.glob = words[0], words[1]
	if _, err := path.Match(f.glob, ""); err != nil {
		return nil, err
	}
	arg := strings.Join(words[3:], "")
	return f, f.answer(words[2], arg)
}

func (f *openHandsFault) answer(word, arg string) (err error) {
	switch word {
	case "cut":
		f.cut = true
	case "hang":
		f.hang = true
	case "slow":
		f.slow, err = time.ParseDuration(arg)
	case "late":
		f.late, err = time.ParseDuration(arg)
	case "with":
		err = json.Unmarshal([]byte(arg), &f.merge)
	default:
		f.status, err = strconv.Atoi(word)
		f.body = arg
	}
	return err
}

// blockOf returns the steps of number n, false where the script has none.
func blockOf(blocks map[string][]openHandsStep, n int) ([]openHandsStep, bool) {
	steps, ok := blocks[strconv.Itoa(n)]
	if !ok {
		steps, ok = blocks["*"]
	}
	return steps, ok
}
