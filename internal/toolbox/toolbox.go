// Package toolbox runs the host-side tools of an agent: programs of the operator
// that work beside the session, with the tracker's credentials, and are called by
// the agent by name.
//
// A tool command answers two verbs. `CMD list` prints {name, description,
// inputSchema} a line. `CMD call NAME` reads the arguments, one JSON object, from
// stdin, prints the result and exits 0 for success. Both are bounded in time and
// size. Whatever goes wrong in a call is a Result that the agent can read; it never
// ends a session.
//
// It is not a sandbox, and it knows nothing of the protocol by which an agent asks.
// A Box may be used from several goroutines.
package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/shlex"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/wire"
)

// The defaults of Options.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultListTimeout = 10 * time.Second
	DefaultMaxOutput   = 1 << 20
)

const (
	maxCalls = 64 // that may be under way or wait
	workers  = 4  // tools that run at once
)

// Options say where and within which bounds tools run.
type Options struct {
	Dir         string        // the working directory of the tools: the workflow's folder
	Env         []string      // KEY=value: the host's environment, not the agent's
	IssueFile   string        // becomes OS_ISSUE_FILE; "" sets none
	Workspace   string        // becomes OS_WORKSPACE; "" sets none
	Timeout     time.Duration // of one call; 0 is DefaultTimeout
	ListTimeout time.Duration // of one list; 0 is DefaultListTimeout
	MaxOutput   int           // bytes of a result or a list; 0 is DefaultMaxOutput

	Warn func(format string, args ...any) // tells people of oddities; nil is silence
}

// Spec describes one tool to a model.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // a JSON Schema of an object
}

// Result is the answer to one call.
type Result struct {
	Success bool
	// Text is what the tool printed, without its last newline, as valid UTF-8. Where
	// Success is false it is {"error":{"code","message","stderr","output"}}; code is
	// unknown_tool, invalid_arguments, too_many_calls, not_started, exit_status,
	// timeout, cancelled or output_too_large.
	Text string
}

// Box holds the tools of one session.
type Box struct {
	specs   []Spec
	argv    map[string][]string // by tool name: the command that has it
	dir     string
	env     []string
	timeout time.Duration
	limit   int
	calls   chan struct{} // one for each call
	running chan struct{} // and for each tool that runs
}

// Open asks each command for its tools. A command that cannot be run or read is an
// error that names it; where two tools share a name the first one stays and Warn is
// told. Without commands the Box is empty.
func Open(ctx context.Context, commands []string, o Options) (*Box, error) {
	o = o.withDefaults()
	b := &Box{
		argv:    make(map[string][]string),
		dir:     o.Dir,
		env:     proc.Environ(o.Env, nil, o.facts()),
		timeout: o.Timeout,
		limit:   o.MaxOutput,
		calls:   make(chan struct{}, maxCalls),
		running: make(chan struct{}, workers),
	}
	for _, command := range commands {
		if err := b.add(ctx, command, o); err != nil {
			return nil, fmt.Errorf("list the tools of %q: %w", command, err)
		}
	}
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.ListTimeout == 0 {
		o.ListTimeout = DefaultListTimeout
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	return o
}

func (o Options) facts() map[string]string {
	facts := make(map[string]string)
	if o.IssueFile != "" {
		facts["OS_ISSUE_FILE"] = o.IssueFile
	}
	if o.Workspace != "" {
		facts["OS_WORKSPACE"] = o.Workspace
	}
	return facts
}

// add lists the tools of one command.
func (b *Box) add(ctx context.Context, command string, o Options) error {
	argv, err := b.split(command)
	if err != nil {
		return err
	}
	out := b.run(ctx, append(argv[:len(argv):len(argv)], "list"), nil, o.ListTimeout)
	if out.problem != nil {
		return out.problem.forPeople()
	}
	specs, err := parseList(out.stdout)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if first, taken := b.argv[spec.Name]; taken {
			o.Warn("tool %q of %q is hidden by that of %q", spec.Name, command, strings.Join(first, " "))
			continue
		}
		b.argv[spec.Name] = argv
		b.specs = append(b.specs, spec)
	}
	return nil
}

// split makes argv of a command line, its program resolved as the tools see it.
func (b *Box) split(command string) ([]string, error) {
	argv, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("split the command line: %v", err)
	}
	if len(argv) == 0 {
		return nil, errors.New("the command line is empty")
	}
	host := &cli.Env{Environ: b.env}
	argv[0], err = proc.LookPath(argv[0], b.dir, host.Getenv)
	return argv, err
}

func parseList(text []byte) ([]Spec, error) {
	var specs []Spec
	lines := wire.NewReader(bytes.NewReader(text), len(text))
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return specs, nil
		}
		if err != nil {
			return nil, err
		}
		spec, err := parseSpec(line.Bytes)
		if err != nil {
			return nil, fmt.Errorf("line %d: %v", line.Number, err)
		}
		specs = append(specs, spec)
	}
}

func parseSpec(line []byte) (Spec, error) {
	var spec Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return spec, fmt.Errorf("not a tool: %v", strings.TrimPrefix(err.Error(), "json: "))
	}
	if spec.Name == "" {
		return spec, errors.New("not a tool: member name is missing")
	}
	if isNull(spec.InputSchema) {
		spec.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	if !isObject(spec.InputSchema) {
		return spec, fmt.Errorf("tool %q: member inputSchema is not an object", spec.Name)
	}
	return spec, nil
}

// isNull reports whether a member of a decoded object is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool {
	return json.Valid(raw) && bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

// Specs returns the tools in the order of the commands. The caller must not change
// them. A nil Box has none.
func (b *Box) Specs() []Spec {
	if b == nil {
		return nil
	}
	return b.specs
}

// Call runs one tool with args, a JSON object; none at all is an empty one. A few run
// at once, others wait. It returns when the tool has ended, at the latest after
// Options.Timeout and a short grace, or when ctx ends.
func (b *Box) Call(ctx context.Context, name string, args json.RawMessage) Result {
	if b == nil {
		return failure(&problem{Code: "unknown_tool", Message: "this session has no tools"})
	}
	argv, ok := b.argv[name]
	if !ok {
		return failure(&problem{Code: "unknown_tool", Message: fmt.Sprintf("there is no tool %q", name)})
	}
	if args = bytes.TrimSpace(args); isNull(args) {
		args = json.RawMessage("{}")
	}
	if !isObject(args) {
		return failure(&problem{Code: "invalid_arguments", Message: fmt.Sprintf("the arguments of %q are not a JSON object", name)})
	}
	if problem := b.enter(ctx); problem != nil {
		return failure(problem)
	}
	defer b.leave()
	out := b.run(ctx, append(argv[:len(argv):len(argv)], "call", name), args, b.timeout)
	if out.problem != nil {
		return failure(out.problem)
	}
	return Result{Success: true, Text: text(out.stdout)}
}

// enter waits until one more tool may run.
func (b *Box) enter(ctx context.Context) *problem {
	select {
	case b.calls <- struct{}{}:
	default:
		return &problem{Code: "too_many_calls", Message: fmt.Sprintf("%d calls are under way already", maxCalls)}
	}
	select {
	case b.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-b.calls
		return &problem{Code: "cancelled", Message: "the session has ended"}
	}
}

func (b *Box) leave() { <-b.running; <-b.calls }

// text is output as a person would quote it: valid UTF-8 without the last newline.
func text(b []byte) string {
	return strings.TrimSuffix(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
}
