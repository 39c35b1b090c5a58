// Package github is the tracker for the issues of one GitHub repository.
//
// It asks GitHub's REST API with net/http over package remote. Every page, issue and
// relation that it reads is whole, or it is an error; pull requests, which GitHub lists
// among the issues, are no issues here. Within a process an unchanged answer is
// confirmed instead of being sent again. os-poll(1) documents settings, scope and
// mapping.
//
// It does not watch a repository, and it does not decide what is worked on: labels,
// blockers and children are facts in the record. A Repo is safe for concurrent use.
package github

import (
	"context"
	"net/http"
	"sync"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// Kind is the word for this adapter in tracker.kind.
const Kind = "github"

// What GitHub itself calls the states of an issue.
const (
	stateOpen   = "open"
	stateClosed = "closed"
)

// maxCached bounds the answers that are kept to be confirmed, in bytes.
const maxCached = 8 << 20

// Adapter returns this kind of tracker.
func Adapter() tracker.Adapter {
	return tracker.Adapter{
		Kind:     Kind,
		Active:   []string{stateOpen},
		Terminal: []string{stateClosed},
		Secrets:  tokenVars(),
		Open: func(c tracker.Config) (tracker.Tracker, error) {
			r, err := Open(c)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	}
}

// Repo is one repository.
type Repo struct {
	config
	rules    tracker.Rules
	options  remote.Options
	client   *http.Client
	anyScope bool // of tools

	mu    sync.Mutex
	limit *wire.RateLimit // as the last answer had it
	plain bool            // the server knows no dependencies

	asking sync.Mutex // held while "me" is looked up
	me     string
}

// Open returns the repository that the configuration names.
func Open(c tracker.Config) (*Repo, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return nil, err
	}
	secrets := &remote.Secrets{}
	secrets.Add(cfg.token)
	r := &Repo{config: cfg, rules: c.Rules, anyScope: c.ToolScopeAny}
	r.options = remote.Options{
		Name: "GitHub", Timeout: c.Timeout, MaxWait: c.MaxWait, Now: c.Now, Secrets: secrets, Limited: limited,
	}
	r.client = r.options.Client()
	r.client.Transport = &remote.Cache{Base: r.client.Transport, Max: maxCached}
	return r, nil
}

// wanted returns the login that issues have to be assigned to, or "" for anybody. "me"
// is looked up once.
func (r *Repo) wanted(ctx context.Context) (string, error) {
	if r.assignee != "me" {
		return r.assignee, nil
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.me != "" {
		return r.me, nil
	}
	var u struct {
		Login string `json:"login"`
	}
	if err := r.read(ctx, r.endpoint+"/user", &u); err != nil {
		return "", err
	}
	if u.Login == "" {
		return "", tracker.Errorf(tracker.BadResponse, `GitHub did not say whose token this is, and tracker.provider.assignee is "me"`)
	}
	r.me = u.Login
	return r.me, nil
}
