package poll

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// issueFile names the file that tells a tool which issue its caller works on.
const issueFile = "OS_ISSUE_FILE"

// maxArguments bounds the arguments of a tool in bytes.
const maxArguments = 1 << 20

var toolUsage = cli.Usage{
	Name:     "os-poll tool",
	Synopsis: []string{"list [flags]", "call NAME [flags] < arguments.json"},
	About: `The tools that an agent may use on the tracker, with the tracker's own credentials
and within the configured board or project. A tool that fails has changed nothing.
The file named by OS_ISSUE_FILE holds the issue or workspace record of the caller: its
issue is meant where the arguments name none.`,
	Verbs: [][2]string{
		{"list", `print {"name","description","inputSchema"}, one tool a line`},
		{"call", "run the tool NAME; arguments on standard input, result on standard output"},
	},
	Examples: `os-poll tool list
echo '{"identifier":"A-1","state":"Done","comment":"All tests pass."}' | os-poll tool call issue_update`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusData, cli.StatusNoInput,
		cli.StatusUnavailable, cli.StatusProtocol, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusFailed:      "the tool refused, or could not do it",
		cli.StatusUsage:       "the command line is wrong, or there is no such tool",
		cli.StatusData:        "the arguments are wrong",
		cli.StatusNoInput:     "the workflow or the file of OS_ISSUE_FILE is missing",
		cli.StatusUnavailable: "the tracker is not to be reached, or not in time",
		cli.StatusProtocol:    "the tracker's answer makes no sense",
		cli.StatusTemporary:   "the tracker, or another writer, wants us to try again later",
		cli.StatusConfig:      "the workflow is wrong, or the board folder is missing",
	},
}

func tool(ctx context.Context, env *cli.Env, args []string) error {
	var s source
	fs := toolUsage.Flags()
	s.add(fs)
	s.addTimeout(fs)
	scope := fs.String("tool-scope", "project", "what a tool may reach, `SCOPE`: project, the configured one, or any that the credential opens")
	rest, err := toolUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if err := cmp.Or(s.check(), s.chooseScope(*scope)); err != nil {
		return err
	}
	switch {
	case len(rest) == 1 && rest[0] == "list":
		return toolList(&s, env)
	case len(rest) == 2 && rest[0] == "call":
		return toolCall(ctx, &s, env, rest[1])
	}
	return cli.WithHint(cli.Usagef("tool wants: list, or call NAME"), "os-poll tool --help")
}

func (s *source) chooseScope(scope string) error {
	if scope != "project" && scope != "any" {
		return cli.Usagef("--tool-scope %q is neither project nor any", scope)
	}
	s.anyScope = scope == "any"
	return nil
}

func toolList(s *source, env *cli.Env) error {
	o, err := s.open(env)
	if err != nil {
		return err
	}
	out := wire.NewWriter(env.Stdout)
	for _, t := range o.tracker.Tools() {
		line, err := wire.Encode(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}{t.Name, t.Description, t.InputSchema})
		if err != nil {
			return err
		}
		if err := out.WriteLine(line); err != nil {
			return err
		}
	}
	return nil
}

func toolCall(ctx context.Context, s *source, env *cli.Env, name string) error {
	o, err := s.open(env)
	if err != nil {
		return err
	}
	tools := o.tracker.Tools()
	i := slices.IndexFunc(tools, func(t tracker.Tool) bool { return t.Name == name })
	if i < 0 {
		var names []string
		for _, t := range tools {
			names = append(names, t.Name)
		}
		return cli.Usagef("no tool %q; there is %s", name, strings.Join(names, ", "))
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	args, err := readArguments(ctx, env.Stdin)
	if err != nil {
		return err
	}
	result, err := tools[i].Call(ctx, tracker.Call{Args: args, Current: func() (string, error) { return currentIssue(env) }})
	if result != nil {
		err = cmp.Or(wire.NewWriter(env.Stdout).Write(result), err)
	}
	return withStatus(err)
}

// readArguments reads standard input to its end, in a goroutine that a caller who
// never closes it cannot make us wait for. Nothing stands for no arguments.
func readArguments(ctx context.Context, r io.Reader) (json.RawMessage, error) {
	type reading struct {
		data []byte
		err  error
	}
	done := make(chan reading, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, maxArguments+1))
		done <- reading{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-done:
		switch data := bytes.TrimSpace(got.data); {
		case got.err != nil:
			return nil, fmt.Errorf("read arguments: %w", got.err)
		case len(data) > maxArguments:
			return nil, cli.Errorf(cli.StatusData, "arguments are over %d bytes", maxArguments)
		case len(data) == 0:
			return json.RawMessage("{}"), nil
		case !json.Valid(data) || data[0] != '{':
			return nil, cli.Errorf(cli.StatusData, "arguments are not a JSON object")
		default:
			return data, nil
		}
	}
}

// currentIssue returns the identifier of the caller's own issue.
func currentIssue(env *cli.Env) (string, error) {
	path := env.Getenv(issueFile)
	if path == "" {
		return "", cli.Errorf(cli.StatusData, "arguments name no identifier, and %s is not set", issueFile)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(env.Dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", cli.Errorf(cli.StatusNoInput, "read %s: %w", issueFile, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, wire.MaxRecord))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", issueFile, err)
	}
	key, err := identifierIn(data)
	if err != nil {
		return "", cli.Errorf(cli.StatusData, "%s %q: %w", issueFile, path, err)
	}
	return key, nil
}

func identifierIn(data []byte) (string, error) {
	rec, err := wire.Decode(data, "issue")
	if err != nil {
		return "", err
	}
	issue, _ := rec.(*wire.Issue)
	if w, ok := rec.(*wire.Workspace); ok {
		issue = w.Issue
	}
	if issue == nil || issue.Identifier == "" {
		return "", errors.New("not a record of an issue or a workspace")
	}
	return issue.Identifier, nil
}
