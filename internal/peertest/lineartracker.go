package peertest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// LinearSchema is the part of Linear's schema that the stand-in knows.
//
//go:embed linear.graphql
var LinearSchema string

// LinearOptions says what a stand-in of Linear holds and whom it lets in.
type LinearOptions struct {
	Data         []byte // JSON, see linearData
	Faults       string // a file of JSON, read at each request; see linearFault
	Key          string // the one API key
	ClientID     string // of the one OAuth application
	ClientSecret string
	Log          io.Writer // one JSON line a request, without credentials
	Now          func() time.Time
}

// Linear is a running stand-in of Linear's API. Its methods are safe for concurrent
// use.
type Linear struct {
	o      LinearOptions
	schema *ast.Schema
	server *http.Server
	addr   string
	served chan error

	mu     sync.Mutex
	world  *linearWorld
	quota  linearQuota
	tokens map[string]time.Time          // minted, with their ends
	hits   map[string]int                // requests that a fault looked at, by its text
	parsed map[string]*ast.QueryDocument // documents that are valid, by their text
	count  int
	logErr error
	quit   chan struct{} // ends what a fault holds up
}

// StartLinear serves a stand-in of Linear on a free loopback port until Close.
func StartLinear(o LinearOptions) (*Linear, error) {
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "linear.graphql", Input: LinearSchema})
	if err != nil {
		return nil, fmt.Errorf("load Linear's schema: %w", err)
	}
	world, quota, err := readLinear(o.Data)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for Linear's stand-in: %w", err)
	}
	l := &Linear{
		o: o, schema: schema, addr: listener.Addr().String(), served: make(chan error, 1), quit: make(chan struct{}),
		world: world, quota: quota, tokens: map[string]time.Time{}, hits: map[string]int{}, parsed: map[string]*ast.QueryDocument{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /graphql", l.graphql)
	mux.HandleFunc("POST /oauth/token", l.token)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { l.served <- l.server.Serve(listener) }()
	return l, nil
}

// URL is the GraphQL endpoint, "http://127.0.0.1:PORT/graphql".
func (l *Linear) URL() string { return "http://" + l.addr + "/graphql" }

// Close ends the server, also in the middle of its answers, and returns the first
// error of its log.
func (l *Linear) Close() error {
	close(l.quit)
	err := l.server.Close()
	<-l.served
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.logErr)
}

// linearRequest is the body of a GraphQL request.
type linearRequest struct {
	Query     string         `json:"query"`
	Variables map[string]any `json:"variables"`
	Operation string         `json:"operationName"`
}

// linearReply is an answer before a fault has spoilt it.
type linearReply struct {
	status int
	header map[string]string
	body   map[string]any
}

// linearEntry is one line of the log.
type linearEntry struct {
	Number     int             `json:"n"`
	Operation  string          `json:"operation"`
	Kind       string          `json:"kind,omitempty"` // query or mutation
	Auth       string          `json:"auth"`           // key, bearer, none, wrong
	Status     int             `json:"status"`
	Code       string          `json:"code,omitempty"` // of the first error
	Complexity int             `json:"complexity"`
	Left       *linearLeft     `json:"left,omitempty"`
	Fault      json.RawMessage `json:"fault,omitempty"`
	Query      string          `json:"query,omitempty"`
	Variables  map[string]any  `json:"variables,omitempty"`
	Issues     int             `json:"issues"` // entries of the list of issues, if there is one
}

func (l *Linear) graphql(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // the client has gone
	}
	var req linearRequest
	entry := linearEntry{Auth: l.admit(r)}
	var reply *linearReply
	if err := json.Unmarshal(body, &req); err != nil {
		reply = linearError(http.StatusBadRequest, "BAD_REQUEST", "graphql error", "POST body is not JSON")
	}
	entry.Query, entry.Variables = req.Query, req.Variables
	l.mu.Lock()
	if reply == nil {
		reply = l.answer(&req, &entry)
	}
	fault := l.fault(&entry)
	l.mu.Unlock()
	l.send(w, r, reply, fault, &entry)
}

// answer is what Linear itself would say. It runs under the lock.
func (l *Linear) answer(req *linearRequest, entry *linearEntry) *linearReply {
	op, errs := l.parse(req)
	if op != nil {
		entry.Operation, entry.Kind = op.Name, string(op.Operation)
	}
	if entry.Auth == "none" || entry.Auth == "wrong" {
		return linearError(http.StatusUnauthorized, "AUTHENTICATION_ERROR", "authentication error", "Authentication required, not authenticated")
	}
	if len(errs) > 0 {
		return linearError(http.StatusBadRequest, "GRAPHQL_VALIDATION_FAILED", "graphql error", errs[0].Message)
	}
	vars, err := validator.VariableValues(l.schema, op, req.Variables)
	if err != nil {
		return linearError(http.StatusBadRequest, "GRAPHQL_VALIDATION_FAILED", "graphql error", err.Error())
	}
	entry.Complexity = complexity(op, vars)
	if entry.Complexity > maxComplexity {
		return linearError(http.StatusBadRequest, "INPUT_ERROR", "invalid input", "Query too complex")
	}
	header, left, ok := l.quota.take(l.now(), entry.Complexity)
	entry.Left = &left
	if !ok {
		reply := linearError(http.StatusBadRequest, "RATELIMITED", "ratelimited", "Rate limit exceeded")
		reply.header = header
		return reply
	}
	x := &linearExecution{world: l.world, vars: vars, now: l.now()}
	data, err := x.run(op)
	if err != nil {
		reply := linearError(http.StatusOK, "INPUT_ERROR", "invalid input", err.Error())
		var bad *linearInputError
		if errors.As(err, &bad) {
			reply = linearError(http.StatusOK, bad.code, "invalid input", bad.message)
		}
		reply.header = header
		return reply
	}
	if issues, ok := data["issues"].(map[string]any); ok {
		nodes, _ := issues["nodes"].([]any)
		entry.Issues = len(nodes)
	}
	return &linearReply{status: http.StatusOK, header: header, body: map[string]any{"data": data}}
}

// parse reads and validates a request's document, and picks its operation. It runs under
// the lock.
func (l *Linear) parse(req *linearRequest) (*ast.OperationDefinition, gqlerror.List) {
	doc, known := l.parsed[req.Query]
	if !known {
		var err error
		if doc, err = parser.ParseQuery(&ast.Source{Input: req.Query}); err != nil {
			return nil, gqlerror.List{gqlerror.WrapIfUnwrapped(err)}
		}
	}
	op := doc.Operations.ForName(req.Operation)
	if op == nil {
		return nil, gqlerror.List{gqlerror.Errorf("Must provide operation name if query contains multiple operations.")}
	}
	if known {
		return op, nil
	}
	errs := validator.ValidateWithRules(l.schema, doc, rules.NewDefaultRules())
	if len(errs) == 0 {
		l.parsed[req.Query] = doc
	}
	return op, errs
}

// admit tells by which credential a request comes in.
func (l *Linear) admit(r *http.Request) string {
	given := r.Header.Get("Authorization")
	token, bearer := strings.CutPrefix(given, "Bearer ")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch end, minted := l.tokens[token]; {
	case given == "":
		return "none"
	case bearer && minted && l.now().Before(end), bearer && token == l.o.Key:
		return "bearer"
	case !bearer && given == l.o.Key:
		return "key"
	}
	return "wrong"
}

func (l *Linear) now() time.Time {
	if l.o.Now != nil {
		return l.o.Now()
	}
	return time.Now()
}

func linearError(status int, code, kind, message string) *linearReply {
	return &linearReply{status: status, body: map[string]any{"data": nil, "errors": []any{map[string]any{
		"message":    message,
		"extensions": map[string]any{"code": code, "type": kind, "statusCode": status, "userError": status < 500, "userPresentableMessage": message},
	}}}}
}

// token mints a token for the application, by client credentials.
func (l *Linear) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := linearEntry{Operation: "token", Auth: "none", Status: http.StatusUnauthorized}
	body := map[string]any{"error": "invalid_client"}
	if l.o.ClientID != "" && id == l.o.ClientID && secret == l.o.ClientSecret && r.PostFormValue("grant_type") == "client_credentials" {
		entry.Auth, entry.Status = "client", http.StatusOK
		token := fmt.Sprintf("lin_oauth_%d", len(l.tokens)+1)
		l.tokens[token] = l.now().Add(time.Duration(l.world.tokenLife) * time.Second)
		body = map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": l.world.tokenLife, "scope": r.PostFormValue("scope")}
	}
	l.record(&entry)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(entry.Status)
	_ = json.NewEncoder(w).Encode(body) // nobody is left to tell when the client has gone
}

// record writes one line of the log. It runs under the lock.
func (l *Linear) record(e *linearEntry) {
	l.count++
	e.Number = l.count
	if l.o.Log == nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.o.Log.Write(append(line, '\n'))
	}
	if l.logErr == nil && err != nil {
		l.logErr = fmt.Errorf("write the log of Linear's stand-in: %w", err)
	}
}
