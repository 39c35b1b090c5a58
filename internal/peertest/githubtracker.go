package peertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitHubOptions says what a stand-in of GitHub holds and whom it lets in.
type GitHubOptions struct {
	Data   []byte // JSON, see githubData
	Faults string // a file of JSON, read at each request; see githubFault
	Token  string // the one token
	Log    io.Writer
	Now    func() time.Time
}

// GitHub is a running stand-in of GitHub's REST API for one repository. Its methods are
// safe for concurrent use.
type GitHub struct {
	o      GitHubOptions
	server *http.Server
	addr   string
	served chan error
	quit   chan struct{} // ends what a fault holds up

	mu     sync.Mutex
	world  *githubData
	hits   map[string]int // requests that a fault looked at, by its text
	count  int
	logErr error
}

// StartGitHub serves a stand-in of GitHub on a free loopback port until Close.
func StartGitHub(o GitHubOptions) (*GitHub, error) {
	world, err := readGitHub(o.Data)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for GitHub's stand-in: %w", err)
	}
	g := &GitHub{
		o: o, addr: listener.Addr().String(), served: make(chan error, 1), quit: make(chan struct{}),
		world: world, hits: map[string]int{},
	}
	g.server = &http.Server{Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { g.served <- g.server.Serve(listener) }()
	return g, nil
}

// URL is the address of the API, "http://127.0.0.1:PORT".
func (g *GitHub) URL() string { return "http://" + g.addr }

// Requests is the number of requests so far.
func (g *GitHub) Requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// Close ends the server, also in the middle of its answers, and returns the first
// error of its log.
func (g *GitHub) Close() error {
	close(g.quit)
	err := g.server.Close()
	<-g.served
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(err, g.logErr)
}

// githubEntry is one line of the log. It holds no token.
type githubEntry struct {
	Number    int             `json:"n"`
	Method    string          `json:"method"`
	Path      string          `json:"path"`
	Query     string          `json:"query,omitempty"`
	Auth      string          `json:"auth"` // token, none, wrong
	Agent     string          `json:"agent"`
	Condition bool            `json:"conditional"`
	Status    int             `json:"status"` // 0: the connection was cut
	Left      int             `json:"left"`   // of the quota
	Body      json.RawMessage `json:"body,omitempty"`
	Fault     json.RawMessage `json:"fault,omitempty"`
}

// githubReply is an answer before it is sent.
type githubReply struct {
	status int
	header http.Header
	body   any // nil: none
}

func githubError(status int, message string) *githubReply {
	return &githubReply{status: status, header: http.Header{}, body: map[string]any{
		"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status),
	}}
}

func (g *GitHub) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // the client has gone
	}
	entry := &githubEntry{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Auth: g.admit(r), Agent: r.UserAgent(),
		Condition: r.Header.Get("If-None-Match") != "",
	}
	if json.Valid(body) {
		entry.Body = body
	}
	g.mu.Lock()
	g.count++
	entry.Number = g.count
	fault := g.fault(r, entry)
	reply := g.answer(r, body, entry.Auth)
	fault.spoil(g, reply)
	data, sent := g.settle(r, reply)
	entry.Status, entry.Left = reply.status, g.world.Left
	if fault != nil && (fault.Drop || fault.Hang) {
		entry.Status = 0
	}
	g.record(entry)
	g.mu.Unlock()
	g.send(w, r, reply, fault, data, sent)
}

func (g *GitHub) admit(r *http.Request) string {
	switch r.Header.Get("Authorization") {
	case "":
		return "none"
	case "Bearer " + g.o.Token:
		return "token"
	}
	return "wrong"
}

// settle encodes an answer, gives it its tag and takes it off the quota, which an
// answer that did not change is not. It runs under the lock.
func (g *GitHub) settle(r *http.Request, reply *githubReply) (data []byte, withBody bool) {
	if text, ok := reply.body.(string); ok {
		data = []byte(text)
	} else if reply.body != nil {
		data, _ = json.Marshal(reply.body) // made of what JSON was decoded to
	}
	if reply.status == http.StatusOK && r.Method == http.MethodGet && !g.world.NoTags {
		sum := sha256.Sum256(append(data, reply.header.Get("Link")...))
		tag := `W/"` + hex.EncodeToString(sum[:8]) + `"`
		reply.header.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			reply.status, data = http.StatusNotModified, nil
		}
	}
	if reply.status != http.StatusNotModified && g.world.Left > 0 {
		g.world.Left--
	}
	reset := strconv.FormatInt(g.o.Now().Add(time.Hour).Unix(), 10)
	for name, value := range map[string]string{
		"X-RateLimit-Limit": strconv.Itoa(g.world.Quota), "X-RateLimit-Remaining": strconv.Itoa(g.world.Left), "X-RateLimit-Reset": reset,
	} {
		if reply.header.Get(name) == "" {
			reply.header.Set(name, value)
		}
	}
	return data, data != nil
}

func (g *GitHub) send(w http.ResponseWriter, r *http.Request, reply *githubReply, fault *githubFault, data []byte, withBody bool) {
	if fault != nil && fault.Hang {
		select {
		case <-r.Context().Done():
		case <-g.quit:
		}
	}
	if fault != nil && (fault.Drop || fault.Hang) {
		panic(http.ErrAbortHandler)
	}
	for name, values := range reply.header {
		w.Header()[name] = values
	}
	if withBody {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(reply.status)
	_, _ = w.Write(data) // a client that has gone needs no answer
}

func (g *GitHub) record(entry *githubEntry) {
	if g.o.Log == nil {
		return
	}
	line, err := json.Marshal(entry)
	if err == nil {
		_, err = g.o.Log.Write(append(line, '\n'))
	}
	g.logErr = errors.Join(g.logErr, err)
}

// answer is what GitHub itself would say. It runs under the lock.
func (g *GitHub) answer(r *http.Request, body []byte, auth string) *githubReply {
	switch {
	case auth != "token":
		return githubError(http.StatusUnauthorized, "Bad credentials")
	case g.world.Left == 0:
		return githubError(http.StatusForbidden, "API rate limit exceeded for user ID 1.")
	case r.URL.Path == "/user":
		return githubOK(map[string]any{"login": g.world.Login, "id": 1})
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/repos/"+g.world.Repo)
	if !ok || rest != "" && rest[0] != '/' {
		return githubError(http.StatusNotFound, "Not Found")
	}
	return g.inRepo(r, strings.Split(strings.Trim(rest, "/"), "/"), body)
}

func githubOK(body any) *githubReply {
	return &githubReply{status: http.StatusOK, header: http.Header{}, body: body}
}
