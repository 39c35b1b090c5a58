// Package linear is the tracker for the issues of one Linear project.
//
// It asks Linear's GraphQL API and keeps nothing between two processes. A page of
// issues is whole, with all entries of its nested lists, or it is an error. The
// credential goes to Linear and nowhere else: into no message, file or environment.
// os-poll(1) documents settings, scope and mapping.
//
// It does not watch a project, and it does not decide what is worked on: labels,
// blockers and children are facts in the record. A Project is safe for concurrent
// use.
package linear

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Kind is the word for this adapter in tracker.kind.
const Kind = "linear"

// Adapter returns this kind of tracker.
func Adapter() tracker.Adapter {
	return tracker.Adapter{
		Kind:     Kind,
		Active:   workflow.DefaultActive(),
		Terminal: workflow.DefaultTerminal(),
		Secrets:  []string{keyVar, clientIDVar, clientSecretVar},
		Open: func(c tracker.Config) (tracker.Tracker, error) {
			p, err := Open(c)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// Project is one project of a Linear workspace.
type Project struct {
	config
	rules    tracker.Rules
	now      func() time.Time
	remote   remote.Options
	client   *http.Client
	anyScope bool // of tools

	mu    sync.Mutex
	me    string          // the user that the issues have to be assigned to, once known
	limit *wire.RateLimit // as the last answer had it
}

// Open returns the project that the configuration names.
func Open(c tracker.Config) (*Project, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return nil, err
	}
	secrets := &remote.Secrets{}
	secrets.Add(strings.TrimPrefix(cfg.key, "Bearer "))
	secrets.Add(cfg.clientSecret)
	p := &Project{config: cfg, rules: c.Rules, now: c.Now, anyScope: c.ToolScopeAny}
	p.remote = remote.Options{
		Name: "Linear", Base: cfg.credentialed(http.DefaultTransport, secrets), Timeout: c.Timeout, MaxWait: c.MaxWait, Now: c.Now, Secrets: secrets,
		Limited: func(res *http.Response, body []byte, now time.Time) (time.Time, bool) {
			return limited(res.StatusCode, res.Header, body, now)
		},
	}
	p.client = p.remote.Client()
	return p, nil
}

// filter is a filter of Linear's, as it is sent.
type filter map[string]any

// scope returns the filter for the issues of the project that pass all of more.
func (p *Project) scope(more ...filter) filter {
	own := filter{"project": filter{"slugId": filter{"in": p.slugs}}}
	if p.team != "" {
		own["team"] = filter{"key": filter{"eqIgnoreCase": p.team}}
	}
	return filter{"and": append([]filter{own}, more...)}
}

// assigneeID returns the id of the user that issues have to be assigned to, or "" for
// anybody. "me" is looked up once.
func (p *Project) assigneeID(ctx context.Context) (string, error) {
	if tracker.Fold(p.assignee) != "me" {
		return p.assignee, nil
	}
	p.mu.Lock()
	me := p.me
	p.mu.Unlock()
	if me != "" {
		return me, nil
	}
	var answer struct {
		Viewer struct {
			ID string `json:"id"`
		} `json:"viewer"`
	}
	if err := p.ask(ctx, viewerQuery, nil, &answer); err != nil {
		return "", err
	}
	if answer.Viewer.ID == "" {
		return "", tracker.Errorf(tracker.BadResponse, "Linear did not say whose credential this is, and tracker.provider.assignee is \"me\"")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.me = answer.Viewer.ID
	return p.me, nil
}
