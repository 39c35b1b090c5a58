package rehearse

import (
	"encoding/json"
	"fmt"
)

// The shapes below are those of the real server, without the members that tell of
// what a rehearsal does not have.

// frame is any frame of the client: a request, a notification or a response.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// The codes of rpcError that the real server uses.
const (
	codeInvalid  = -32600 // whatever the client did wrong
	codeTooLarge = -32602
	codeInternal = -32603
)

func invalid(format string, args ...any) *rpcError {
	return &rpcError{Code: codeInvalid, Message: fmt.Sprintf(format, args...)}
}

type reply struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

type request struct {
	Method string `json:"method"`
	ID     int64  `json:"id"`
	Params any    `json:"params"`
}

type notification struct {
	Method      string `json:"method"`
	Params      any    `json:"params"`
	EmittedAtMs int64  `json:"emittedAtMs"`
}

// state is the status of a thread.
type state struct {
	Type        string    `json:"type"` // idle, active, systemError
	ActiveFlags *[]string `json:"activeFlags,omitempty"`
}

func active() state { return state{Type: "active", ActiveFlags: &[]string{}} }

type threadFrame struct {
	ID            string      `json:"id"`
	SessionID     string      `json:"sessionId"`
	ForkedFromID  *string     `json:"forkedFromId"`
	Preview       string      `json:"preview"`
	Ephemeral     bool        `json:"ephemeral"`
	ProjectID     *string     `json:"projectId"`
	ModelProvider string      `json:"modelProvider"`
	Model         string      `json:"model"`
	CreatedAt     int64       `json:"createdAt"` // Unix seconds
	UpdatedAt     int64       `json:"updatedAt"`
	Status        state       `json:"status"`
	Path          string      `json:"path"`
	Cwd           string      `json:"cwd"`
	CLIVersion    string      `json:"cliVersion"`
	Source        string      `json:"source"`
	Turns         []turnFrame `json:"turns"`
}

// opened is the result of thread/start and thread/resume.
type opened struct {
	Thread            threadFrame     `json:"thread"`
	Model             string          `json:"model"`
	ModelProvider     string          `json:"modelProvider"`
	Cwd               string          `json:"cwd"`
	ApprovalPolicy    json.RawMessage `json:"approvalPolicy"`
	ApprovalsReviewer string          `json:"approvalsReviewer"`
	Sandbox           sandbox         `json:"sandbox"`
	ReasoningEffort   *string         `json:"reasoningEffort"`
}

type turnFrame struct {
	ID          string            `json:"id"`
	RootTurnID  string            `json:"rootTurnId"`
	Items       []json.RawMessage `json:"items"`
	ItemsView   string            `json:"itemsView"` // notLoaded, summary, full
	Status      string            `json:"status"`    // inProgress, completed, failed, interrupted
	Error       *turnError        `json:"error"`
	StartedAt   *int64            `json:"startedAt"` // Unix seconds
	CompletedAt *int64            `json:"completedAt"`
	DurationMs  *int64            `json:"durationMs"`
}

type turnError struct {
	Message           string  `json:"message"`
	CodexErrorInfo    string  `json:"codexErrorInfo"`
	AdditionalDetails *string `json:"additionalDetails"`
}

type input struct {
	Type         string   `json:"type"`
	Text         string   `json:"text"`
	TextElements []string `json:"text_elements"`
}

// span is the time of an item in Unix milliseconds; an item without an end runs.
type span struct {
	StartedAtMs   int64  `json:"startedAtMs"`
	CompletedAtMs *int64 `json:"completedAtMs"`
}

// item is what the four kinds of items have in common.
type item interface {
	ident() string
	times() *span
}

type userMessage struct {
	Type     string  `json:"type"`
	ID       string  `json:"id"`
	ClientID *string `json:"clientId"`
	Content  []input `json:"content"`
	span
}

type commandExecution struct {
	Type             string   `json:"type"`
	ID               string   `json:"id"`
	Command          string   `json:"command"`
	Cwd              string   `json:"cwd"`
	ProcessID        *string  `json:"processId"`
	Source           string   `json:"source"`
	Status           string   `json:"status"` // inProgress, completed, failed
	CommandActions   []action `json:"commandActions"`
	AggregatedOutput *string  `json:"aggregatedOutput"`
	ExitCode         *int     `json:"exitCode"`
	DurationMs       *int64   `json:"durationMs"`
	span
}

type action struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

type agentMessage struct {
	Type  string  `json:"type"`
	ID    string  `json:"id"`
	Text  string  `json:"text"`
	Phase *string `json:"phase"`
	span
}

type dynamicToolCall struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Namespace    *string         `json:"namespace"`
	Tool         string          `json:"tool"`
	Arguments    json.RawMessage `json:"arguments"`
	Status       string          `json:"status"` // inProgress, completed, failed
	ContentItems []content       `json:"contentItems"`
	Success      *bool           `json:"success"`
	DurationMs   *int64          `json:"durationMs"`
	span
}

// content is a piece of a tool's result.
type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (m *userMessage) ident() string      { return m.ID }
func (c *commandExecution) ident() string { return c.ID }
func (m *agentMessage) ident() string     { return m.ID }
func (c *dynamicToolCall) ident() string  { return c.ID }
func (s *span) times() *span              { return s }

// tokens is one count of usage.
type tokens struct {
	TotalTokens           int64 `json:"totalTokens"`
	InputTokens           int64 `json:"inputTokens"`
	CachedInputTokens     int64 `json:"cachedInputTokens"`
	CacheWriteInputTokens int64 `json:"cacheWriteInputTokens"`
	OutputTokens          int64 `json:"outputTokens"`
	ReasoningOutputTokens int64 `json:"reasoningOutputTokens"`
}

// words counts in and out words as tokens, and adds them to t.
func (t *tokens) words(in, out int64) {
	t.InputTokens += in
	t.OutputTokens += out
	t.TotalTokens += in + out
}

type usageFrame struct {
	Total              tokens `json:"total"`
	Last               tokens `json:"last"`
	ModelContextWindow *int64 `json:"modelContextWindow"`
}

// sandbox is the policy as the server echoes it; a rehearsal does not enforce it.
type sandbox struct {
	Type                string    `json:"type"` // readOnly, workspaceWrite, dangerFullAccess
	WritableRoots       *[]string `json:"writableRoots,omitempty"`
	NetworkAccess       *bool     `json:"networkAccess,omitempty"`
	ExcludeTmpdirEnvVar *bool     `json:"excludeTmpdirEnvVar,omitempty"`
	ExcludeSlashTmp     *bool     `json:"excludeSlashTmp,omitempty"`
}
