package rehearse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

const (
	socketName = "tool.sock"
	// maxCall bounds what goes over the tool socket in either direction, in bytes.
	maxCall = 16 << 20
)

// toolRequest and toolAnswer are all that goes over the socket, one a connection.
type (
	toolRequest struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	toolAnswer struct {
		Success bool   `json:"success"`
		Text    string `json:"text"`
	}
)

// toolServer takes the calls of one command. Closing it ends every connection.
type toolServer struct {
	job      *job
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	conns    sync.WaitGroup
}

func (j *job) listen() (*toolServer, error) {
	l, err := net.Listen("unix", j.socket())
	if err != nil {
		return nil, fmt.Errorf("open the tool socket: %v", err)
	}
	t := &toolServer{job: j, listener: l}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.conns.Go(t.accept)
	return t, nil
}

func (t *toolServer) close() {
	t.cancel()
	_ = t.listener.Close() // its file goes with the folder
	t.conns.Wait()
}

func (t *toolServer) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		t.conns.Go(func() { t.serve(conn) })
	}
}

// serve takes one call and writes its answer. A connection that breaks off has
// nobody left to tell.
func (t *toolServer) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(t.ctx, func() { _ = conn.Close() })()
	var req toolRequest
	if err := json.NewDecoder(io.LimitReader(conn, maxCall)).Decode(&req); err != nil {
		return
	}
	answer := make(chan toolAnswer, 1)
	t.job.post(t.ctx, called{t.job.turn, req, answer})
	select {
	case a := <-answer:
		_ = writeJSON(conn, a)
	case <-t.ctx.Done():
	}
}

// toolCall is a call that waits for the client. Its channel has room for the answer.
type toolCall struct {
	turn   *turn
	item   *dynamicToolCall
	answer chan<- toolAnswer
}

// called is a tool call of a turn's command.
type called struct {
	turn   *turn
	req    toolRequest
	answer chan<- toolAnswer
}

type toolParams struct {
	ThreadID  string          `json:"threadId"`
	TurnID    string          `json:"turnId"`
	CallID    string          `json:"callId"`
	Namespace *string         `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// apply asks the client. A tool that it does not have is refused at once, as a model
// could not call it either.
func (c called) apply(s *server) {
	t := c.turn.thread
	if !t.offers(c.req.Tool) {
		c.answer <- toolAnswer{Text: fmt.Sprintf("the client has no tool %q", c.req.Tool)}
		return
	}
	it := &dynamicToolCall{
		Type: "dynamicToolCall", ID: "call_" + s.newID(), Tool: c.req.Tool,
		Arguments: c.req.Arguments, Status: "inProgress",
	}
	s.itemStarted(c.turn, it)
	id := s.nextID
	s.nextID++
	s.calls[id] = &toolCall{c.turn, it, c.answer}
	s.send(request{"item/tool/call", id, toolParams{
		ThreadID: t.ID, TurnID: c.turn.ID, CallID: it.ID, Tool: it.Tool, Arguments: it.Arguments,
	}})
}

// answered takes the client's answer to one of our requests.
func (s *server) answered(f frame) {
	var id int64
	if json.Unmarshal(f.ID, &id) != nil {
		return
	}
	call, open := s.calls[id]
	if !open {
		return // to a call whose turn has ended
	}
	delete(s.calls, id)
	var result struct {
		Success      bool      `json:"success"`
		ContentItems []content `json:"contentItems"`
	}
	if f.Error != nil {
		result.ContentItems = []content{{"inputText", f.Error.Message}}
	} else if err := json.Unmarshal(f.Result, &result); err != nil {
		result.ContentItems = []content{{"inputText", fmt.Sprintf("the client's answer is no result: %v", err)}}
	}
	s.toolCompleted(call, result.Success, result.ContentItems)
}

func (s *server) toolCompleted(call *toolCall, success bool, items []content) {
	it := call.item
	took := s.env.Now().UnixMilli() - it.StartedAtMs
	it.Success, it.ContentItems, it.DurationMs = &success, items, &took
	it.Status = "completed"
	if !success {
		it.Status = "failed"
	}
	s.itemCompleted(call.turn, it)
	var texts []string
	for _, c := range items {
		texts = append(texts, c.Text)
	}
	call.answer <- toolAnswer{success, strings.Join(texts, "\n")}
}

// dropCalls forgets the calls of a turn whose command is gone.
func (s *server) dropCalls(tn *turn) {
	for id, call := range s.calls {
		if call.turn == tn {
			delete(s.calls, id)
		}
	}
}

var toolUsage = cli.Usage{
	Name:     "os-codex rehearse tool",
	Synopsis: []string{"--socket PATH NAME [JSON]"},
	About: `
Calls a tool of the client of the rehearsal that runs this command, with a JSON object
as its arguments, and prints the result. A command of a rehearsal calls it as
"$OS_TOOL" NAME JSON.`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage},
	Notes: map[int]string{
		cli.StatusOK:     "the tool succeeded",
		cli.StatusFailed: "the tool did not succeed, or could not be asked",
	},
}

// runTool is the other end of the socket: `os-codex rehearse tool`.
func runTool(ctx context.Context, env *cli.Env, args []string) error {
	fs := toolUsage.Flags()
	socket := fs.String("socket", "", "the `PATH` of the rehearsal's socket; OS_TOOL has it")
	rest, err := toolUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if *socket == "" {
		return cli.WithHint(cli.Usagef("--socket is missing"), `call it as "$OS_TOOL" in the command of a rehearsal`)
	}
	if len(rest) < 1 || len(rest) > 2 {
		return cli.WithHint(cli.Usagef("a tool needs a name and at most one JSON object"), "%s --help", toolUsage.Name)
	}
	req := toolRequest{Tool: rest[0], Arguments: json.RawMessage("{}")}
	if len(rest) == 2 {
		req.Arguments = json.RawMessage(rest[1])
	}
	if !json.Valid(req.Arguments) {
		return cli.Usagef("the arguments of %q are not JSON: %s", req.Tool, req.Arguments)
	}
	answer, err := callTool(ctx, *socket, req)
	if err != nil {
		return fmt.Errorf("call tool %q: %w", req.Tool, err)
	}
	if _, err := fmt.Fprintln(env.Stdout, answer.Text); err != nil {
		return err
	}
	if !answer.Success {
		return cli.Exit(cli.StatusFailed)
	}
	return nil
}

func callTool(ctx context.Context, socket string, req toolRequest) (toolAnswer, error) {
	var answer toolAnswer
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := writeJSON(conn, req); err != nil {
		return answer, err
	}
	err = json.NewDecoder(io.LimitReader(conn, maxCall)).Decode(&answer)
	if ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		return answer, errors.New("the rehearsal ended before the tool did")
	}
	return answer, err
}

func writeJSON(w io.Writer, v any) error {
	line, err := wire.Encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}
