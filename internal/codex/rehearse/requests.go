package rehearse

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"ostoolkit/internal/cli"
)

// maxText bounds the text of one input in characters, as the real server does.
const maxText = 1 << 20

// handler answers one request by s.reply, or returns why not.
type handler func(s *server, id, params json.RawMessage) *rpcError

var handlers = map[string]handler{
	"initialize":      (*server).initialize,
	"account/read":    (*server).readAccount,
	"thread/start":    (*server).startThread,
	"thread/resume":   (*server).resumeThread,
	"thread/goal/set": (*server).refuseGoal,
	"turn/start":      (*server).startTurn,
	"turn/steer":      (*server).steerTurn,
	"turn/interrupt":  (*server).interruptTurn,
}

func (s *server) initialize(id, raw json.RawMessage) *rpcError {
	var p struct {
		ClientInfo struct {
			Name string `json:"name"`
		} `json:"clientInfo"`
	}
	if fault := decodeParams(raw, &p, "clientInfo"); fault != nil {
		return fault
	}
	s.greeted = true
	s.reply(id, map[string]string{
		"userAgent":      fmt.Sprintf("%s/%s (os-codex rehearse)", p.ClientInfo.Name, cli.Version()),
		"codexHome":      s.home,
		"platformFamily": "unix",
		"platformOs":     runtime.GOOS,
	})
	return nil
}

// readAccount says that nobody is logged in and that nobody has to be.
func (s *server) readAccount(id, _ json.RawMessage) *rpcError {
	s.reply(id, map[string]any{"account": nil, "requiresOpenaiAuth": false})
	return nil
}

// threadParams are those of thread/start and thread/resume.
type threadParams struct {
	ThreadID       string          `json:"threadId"`
	Cwd            string          `json:"cwd"`
	Model          string          `json:"model"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"`
	Sandbox        string          `json:"sandbox"`
	Config         struct {
		Workspace workspaceWrite `json:"sandbox_workspace_write"`
	} `json:"config"`
	DynamicTools []tool `json:"dynamicTools"`
	ExcludeTurns bool   `json:"excludeTurns"`
}

// tool is one of the client's tools; its schema is for models only.
type tool struct {
	Name string `json:"name"`
}

type workspaceWrite struct {
	WritableRoots       []string `json:"writable_roots"`
	NetworkAccess       bool     `json:"network_access"`
	ExcludeTmpdirEnvVar bool     `json:"exclude_tmpdir_env_var"`
	ExcludeSlashTmp     bool     `json:"exclude_slash_tmp"`
}

// policy makes the sandbox that the real server would answer.
func (p *threadParams) policy() (sandbox, *rpcError) {
	switch p.Sandbox {
	case "danger-full-access":
		return sandbox{Type: "dangerFullAccess"}, nil
	case "read-only":
		return sandbox{Type: "readOnly"}, nil
	case "workspace-write":
		w := p.Config.Workspace
		roots := append([]string{}, w.WritableRoots...)
		return sandbox{"workspaceWrite", &roots, &w.NetworkAccess, &w.ExcludeTmpdirEnvVar, &w.ExcludeSlashTmp}, nil
	}
	return sandbox{}, invalid("Invalid request: unknown variant `%s`, expected one of `read-only`, `workspace-write`, `danger-full-access`", p.Sandbox)
}

// apply puts what the client asked for into the settings.
func (p *threadParams) apply(to *settings) *rpcError {
	if p.Sandbox != "" {
		policy, fault := p.policy()
		if fault != nil {
			return fault
		}
		to.Sandbox = policy
	}
	if p.Cwd != "" {
		to.Cwd = p.Cwd
	}
	if p.Model != "" {
		to.Model = p.Model
	}
	if len(p.ApprovalPolicy) > 0 && string(p.ApprovalPolicy) != "null" {
		to.ApprovalPolicy = p.ApprovalPolicy
	}
	if p.DynamicTools != nil {
		to.Tools = p.DynamicTools
	}
	return nil
}

func (s *server) startThread(id, raw json.RawMessage) *rpcError {
	var p threadParams
	if fault := decodeParams(raw, &p); fault != nil {
		return fault
	}
	set := settings{
		ID: s.newID(), CreatedAt: s.env.Now().Unix(), Cwd: s.env.Dir, Model: "rehearsal",
		ApprovalPolicy: json.RawMessage(`"never"`), Sandbox: sandbox{Type: "dangerFullAccess"},
	}
	if fault := p.apply(&set); fault != nil {
		return fault
	}
	t, err := createThread(s.home, set)
	if err != nil {
		return &rpcError{Code: codeInternal, Message: err.Error()}
	}
	s.threads[t.ID] = t
	s.reply(id, t.opened(false))
	s.notify("thread/started", map[string]any{"thread": t.frame(false)})
	return nil
}

func (s *server) resumeThread(id, raw json.RawMessage) *rpcError {
	var p threadParams
	if fault := decodeParams(raw, &p, "threadId"); fault != nil {
		return fault
	}
	if !isUUID(p.ThreadID) {
		return invalid("invalid session id: %q is not a UUID", p.ThreadID)
	}
	t, fault := s.load(p.ThreadID)
	if fault != nil {
		return fault
	}
	p.DynamicTools = nil // the real server takes tools at the start of a thread only
	if fault := p.apply(&t.settings); fault != nil {
		return fault
	}
	s.save(t, record{Type: recordThread, Thread: &t.settings})
	if t.active == nil {
		s.notify("thread/status/changed", statusParams{t.ID, state{Type: "idle"}})
	}
	s.reply(id, t.opened(!p.ExcludeTurns))
	if n := len(t.turns); n > 0 {
		s.notify("thread/tokenUsage/updated", usageParams{t.ID, t.turns[n-1].ID, usageFrame{Total: t.total, Last: t.last}})
	}
	return nil
}

// load returns a thread of this process, or takes it from its rollout.
func (s *server) load(id string) (*thread, *rpcError) {
	if t, ok := s.threads[id]; ok {
		return t, nil
	}
	t, err := openThread(s.home, id)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, invalid("no rollout found for thread id %s", id)
	case errors.Is(err, errBusy):
		return nil, invalid("thread %s already has an active writer", id)
	case err != nil:
		return nil, &rpcError{Code: codeInternal, Message: err.Error()}
	}
	s.threads[id] = t
	return t, nil
}

// refuseGoal: what goes on by itself until a goal is reached is the model, and there is
// none.
func (s *server) refuseGoal(_, _ json.RawMessage) *rpcError {
	return invalid("os-codex rehearse has no goals")
}

// turnParams are those of turn/start, turn/steer and turn/interrupt.
type turnParams struct {
	ThreadID            string  `json:"threadId"`
	TurnID              string  `json:"turnId"`
	ExpectedTurnID      string  `json:"expectedTurnId"`
	Input               []input `json:"input"`
	Cwd                 string  `json:"cwd"`
	ClientUserMessageID *string `json:"clientUserMessageId"`
}

// text joins the texts of the input; images and the like are passed over.
func (p *turnParams) text() string {
	var parts []string
	for _, in := range p.Input {
		if in.Type == "text" {
			parts = append(parts, in.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// turnRequest decodes the params of a turn's request and finds its thread.
func (s *server) turnRequest(raw json.RawMessage, required ...string) (*thread, *turnParams, *rpcError) {
	p := &turnParams{}
	if fault := decodeParams(raw, p, append(required, "threadId")...); fault != nil {
		return nil, nil, fault
	}
	if len([]rune(p.text())) > maxText {
		return nil, nil, &rpcError{codeTooLarge, "the input is too long", map[string]string{"input_error_code": "input_too_large"}}
	}
	t, ok := s.threads[p.ThreadID]
	switch {
	case !isUUID(p.ThreadID):
		return nil, nil, invalid("invalid thread id: %q is not a UUID", p.ThreadID)
	case !ok:
		return nil, nil, invalid("thread not found: %s", p.ThreadID)
	}
	return t, p, nil
}

// startTurn starts a turn, or steers the one that runs, as the real server does.
func (s *server) startTurn(id, raw json.RawMessage) *rpcError {
	t, p, fault := s.turnRequest(raw, "input")
	if fault != nil {
		return fault
	}
	if t.active != nil {
		s.reply(id, turnResult{t.active.frame(nil, "notLoaded")})
		s.steer(t.active, p)
		return nil
	}
	if p.Cwd != "" {
		t.Cwd = p.Cwd
	}
	s.begin(id, t, p)
	return nil
}

func (s *server) steerTurn(id, raw json.RawMessage) *rpcError {
	t, p, fault := s.turnRequest(raw, "input", "expectedTurnId")
	if fault == nil {
		fault = t.expect("steer", p.ExpectedTurnID)
	}
	if fault != nil {
		return fault
	}
	s.reply(id, map[string]string{"turnId": t.active.ID})
	s.steer(t.active, p)
	return nil
}

func (s *server) interruptTurn(id, raw json.RawMessage) *rpcError {
	t, p, fault := s.turnRequest(raw, "turnId")
	if fault == nil {
		fault = t.expect("interrupt", p.TurnID)
	}
	if fault != nil {
		return fault
	}
	s.reply(id, struct{}{})
	t.active.interrupted = true
	t.active.stop()
	return nil
}

// expect checks that a turn runs and that the client means that one.
func (t *thread) expect(verb, turnID string) *rpcError {
	if t.active == nil {
		return invalid("no active turn to %s", verb)
	}
	if t.active.ID != turnID {
		return invalid("expected active turn id `%s` but found `%s`", turnID, t.active.ID)
	}
	return nil
}

// offers reports whether the client gave the thread a tool of that name.
func (t *thread) offers(name string) bool {
	return slices.ContainsFunc(t.Tools, func(have tool) bool { return have.Name == name })
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func isUUID(s string) bool { return uuidForm.MatchString(s) }
